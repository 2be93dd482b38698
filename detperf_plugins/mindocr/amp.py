"""What AMP O2 and O3 need to train DBNet: two faults of MindOCR mended in place, each only where it is there.

1. Under O2 and O3 MindSpore casts the inputs of every cell, and the list of features reaches
   `DBFPN.construct` as a tuple, which it assigns into: `TypeError: must be real number, not NoneType`.
2. DBHead computes its maps in float16. The sigmoid saturates to exactly 0 and 1, whose logarithm the
   balanced cross-entropy takes, and `exp(-50 * (x - y))` of DBHeadEnhance overflows: NaN in the second step.
   From the logits on the maps are computed in float32; the head's convolutions stay as they are.
"""

from __future__ import annotations

import inspect
from typing import Any

from detperf_plugins.errors import DetperfError

__all__ = ["HALF_LEVELS", "head_needs_float32", "mend_head", "mend_neck", "mend_network", "neck_needs_list"]

HALF_LEVELS = ("O2", "O3")


def neck_needs_list(neck: type) -> bool:
    """Whether this DBFPN assigns into the features as they come (fault 1); a mended one lists them first."""
    source = inspect.getsource(neck.construct)  # type: ignore[attr-defined]
    return "features[i] =" in source and "list(features)" not in source


def mend_neck() -> bool:
    """Replace `DBFPN.construct` where it has fault 1.

    Returns:
        Whether it was replaced.
    """
    from mindocr.models.necks.fpn import DBFPN

    if not neck_needs_list(DBFPN):
        return False
    from detperf_plugins.mindocr import mended_graphs

    DBFPN.construct = mended_graphs.neck
    return True


def head_needs_float32(head: Any) -> bool:
    """Whether a head's final sigmoids are to run in half precision (fault 2)."""
    return any(not cell.get_flags().get("fp32", False) for cell in _sensitive(head))


def _sensitive(head: Any) -> list[Any]:
    """The cells of a DB head whose input must be float32: the sigmoids that make its maps."""
    from mindspore import nn

    return [cell for _, cell in head.cells_and_names() if isinstance(cell, nn.Sigmoid)]


def mend_head(network: Any) -> int:
    """Give the sigmoids of every DB head in `network` float32 inputs.

    Returns:
        How many cells were changed; the maps they make, and what is computed from these, are float32.
    """
    import mindspore as ms
    from mindocr.models.heads.det_db_head import DBHead, DBHeadEnhance
    from mindspore import nn

    changed = 0
    for _, cell in network.cells_and_names():
        if not isinstance(cell, (DBHead, DBHeadEnhance)) or not head_needs_float32(cell):
            continue
        if hasattr(cell, "step_function") and cell.adaptive:
            from detperf_plugins.mindocr import mended_graphs

            type(cell).construct = mended_graphs.enhanced_head
            cell.diff_bin = nn.Sigmoid()
        for part in _sensitive(cell):
            part.to_float(ms.float32)
            changed += 1
    return changed


def mend_network(network: Any, amp_level: str) -> list[str]:
    """Mend a network that `build_model` has put under `amp_level`.

    Returns:
        A sentence for each repair made, none under O0.

    Raises:
        DetperfError: the level is O1, which MindSpore cannot apply to DBNet.
    """
    if amp_level not in HALF_LEVELS:
        return []
    changed = mend_head(network)
    return [f"{changed} sigmoids of the DB head take float32 under {amp_level}"] if changed else []


def check_level(amp_level: str) -> None:
    """Raise `DetperfError` for a level that cannot work."""
    if amp_level == "O1":
        raise DetperfError(
            "amp_level O1 rewrites the network's source, which mindspore.rewrite cannot do for DBNet; "
            "use O2 (system.amp_level: O2)"
        )
