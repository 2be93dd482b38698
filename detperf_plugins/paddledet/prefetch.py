"""How many batches the reader keeps ready, set by a config: ppdet's readers hand no such setting on.

In a config:  prefetch: !!python/object/apply:detperf_plugins.paddledet.prefetch.set_prefetch [4]
"""

from __future__ import annotations

import functools

from detperf_plugins.errors import DetperfError
from detperf_plugins.paddledet.registry import put_back_later

__all__ = ["set_prefetch"]


def set_prefetch(batches: int = 4) -> str:
    """Let every reader built after this keep that many batches for each of its workers; Paddle's own is 2.

    `deactivate()` ends it.

    A batch of N images of H x W costs 12 N H W bytes, in shared memory where `use_shared_memory` is on.

    Args:
        batches: at least 1.

    Returns:
        A sentence for the config key `prefetch:`.

    Raises:
        DetperfError: `batches` is no positive whole number.
    """
    if type(batches) is not int or batches < 1:
        raise DetperfError(
            f"prefetch: the number of batches a worker keeps ready must be 1 or more, got {batches!r}"
        )
    from paddle.io import DataLoader
    from ppdet.data import reader

    before = reader.DataLoader
    put_back_later(lambda: setattr(reader, "DataLoader", before))
    reader.DataLoader = functools.partial(DataLoader, prefetch_factor=batches)
    return f"prefetch: {batches} batches a worker"
