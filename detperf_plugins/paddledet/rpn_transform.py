"""RPN targets made in the loader workers: they depend on boxes and anchors, not on the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from ppdet.core.workspace import global_config
from ppdet.data.transform.operators import BaseOperator
from ppdet.modeling.proposal_generator.target_layer import RPNTargetAssign

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet.anchors import AnchorSettings
from detperf_plugins.paddledet.rpn_targets import equal_tolerance, sample_batch
from detperf_plugins.paddledet.sampling import worker_generator

__all__ = ["RPN_KEYS", "AssignRPNTargets", "rpn_section"]

# What the transform adds to a sample. "gt_" keeps ppdet's collate from stacking them; the settings travel
# as a string, which the loader hands over as it is: comparing it reads nothing from the device.
RPN_KEYS = ("gt_rpn_index", "gt_rpn_label", "gt_rpn_delta", "gt_rpn_settings")

# Settings of RPNTargetAssign that decide the targets.
RULE = (
    "batch_size_per_im",
    "fg_fraction",
    "positive_overlap",
    "negative_overlap",
    "ignore_thresh",
    "use_random",
)


def rpn_section() -> dict[str, Any]:
    """The config's settings of the RPN head: the section that the architecture names, over `RPNHead`."""
    architecture = global_config.get(global_config.get("architecture", ""), {})
    named = architecture.get("rpn_head", "RPNHead") if isinstance(architecture, Mapping) else "RPNHead"
    merged = dict(global_config.get("RPNHead", {}))
    if isinstance(named, str) and named != "RPNHead":
        merged.update(global_config.get(named, {}))
    return merged


class AssignRPNTargets(BaseOperator):
    """Label and sample the anchors of each image, among `batch_transforms`, after PadBatch.

    Adds to each sample, in the pixels of the padded image (n = batch_size_per_im, P = n * fg_fraction):
        gt_rpn_index: int32 [n], sampled anchors, foreground first; 0 in a dead slot.
        gt_rpn_label: int32 [n], 1 foreground, 0 background, -1 a dead slot.
        gt_rpn_delta: float32 [P, 4], deltas of the first P slots; 0 where the label is not 1.
        gt_rpn_settings: str, the anchor settings and the sampling rule, checked by PerfRPNHead.

    The labels are those of stock's RPNTargetAssign; with use_random the sample is drawn by a generator of
    this worker's own.

    Args:
        anchor_generator: settings of AnchorGenerator; by default those of the config's RPN head.
        rpn_target_assign: settings of RPNTargetAssign; by default those of the config's RPN head.
        seed: added to the entropy of the draws.
    """

    def __init__(
        self,
        anchor_generator: Optional[Mapping[str, Any]] = None,
        rpn_target_assign: Optional[Mapping[str, Any]] = None,
        seed: Optional[int] = None,
    ) -> None:
        super().__init__()
        section = rpn_section()
        generator = section.get("anchor_generator", {}) if anchor_generator is None else anchor_generator
        rule = section.get("rpn_target_assign", {}) if rpn_target_assign is None else rpn_target_assign
        self.settings = AnchorSettings.of(generator)
        self.assign = (
            RPNTargetAssign(**{key: value for key, value in rule.items() if key != "name"})
            if isinstance(rule, Mapping)
            else rule
        )
        self.seed = seed
        self._generator: Optional[np.random.Generator] = None
        equal_tolerance()  # asks paddle once, here, before worker processes are forked

    def __call__(self, samples: Sequence[dict[str, Any]], context: Any = None) -> Sequence[dict[str, Any]]:
        """The same samples, with the keys above.

        Raises:
            DetperfError: the images of the batch differ in size, so they are not padded yet.
        """
        shapes = {tuple(np.shape(sample["image"])[-2:]) for sample in samples}
        if len(shapes) != 1:
            raise DetperfError(
                f"AssignRPNTargets got images of {len(shapes)} sizes in one batch; put it after PadBatch"
            )
        grids = self.settings.grids(*(int(side) for side in shapes.pop()))
        if self.assign.use_random and self._generator is None:
            self._generator = worker_generator(self.seed)
        found = sample_batch(
            self.settings.anchors(grids),
            [sample["gt_bbox"] for sample in samples],
            [sample["is_crowd"] for sample in samples] if "is_crowd" in samples[0] else None,
            self.assign,
            self._generator,
        )
        text = target_text(self.settings.text(grids), self.assign)
        for sample, index, label, delta in zip(samples, *found):
            sample.update(zip(RPN_KEYS, (index, label, delta, text)))
        return samples


def target_text(settings: str, assign: Any) -> str:
    """What must agree between loader and model: the text of the anchors and the rule of the sample."""
    rule = ", ".join(f'"{name}": {float(getattr(assign, name))}' for name in RULE)
    return f"{settings[:-1]}, {rule}}}"
