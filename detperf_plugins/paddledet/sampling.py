"""Drawing the anchors that the RPN trains on, with numpy's generator.

Method: ppdet's `subsample_labels`: up to `fg_fraction` of the sample is foreground, background fills it up.
"""

from __future__ import annotations

import os
from typing import Optional

import numpy as np

__all__ = ["sample_labels", "worker_generator"]


def sample_labels(
    labels: np.ndarray, num_samples: int, fg_fraction: float, generator: Optional[np.random.Generator]
) -> tuple[np.ndarray, np.ndarray]:
    """The anchors of one image that are trained on.

    Args:
        labels: integer [A], 1 foreground, 0 background, -1 neither.
        num_samples: most anchors drawn.
        fg_fraction: most of them that may be foreground.
        generator: draws uniformly without replacement; None takes the first ones (use_random False).

    Returns:
        Indices of the foreground and of the background, int64, rising.
    """
    fg, bg = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    fg = _draw(fg, int(num_samples * fg_fraction), generator)
    return fg, _draw(bg, num_samples - len(fg), generator)


def _draw(candidates: np.ndarray, wanted: int, generator: Optional[np.random.Generator]) -> np.ndarray:
    if len(candidates) <= wanted:
        return candidates
    if generator is None:
        return candidates[:wanted]
    return np.sort(candidates[generator.choice(len(candidates), wanted, replace=False, shuffle=False)])


def worker_generator(seed: Optional[int] = None) -> np.random.Generator:
    """A generator for this process: its own in every loader worker, every rank and every epoch.

    Paddle seeds numpy's global state anew in each worker of each epoch, from the main process's. That
    state is looked at, never advanced, so the random numbers of the other transforms stay stock's.

    Args:
        seed: added to the entropy; runs with unlike seeds draw unlike samples.
    """
    from paddle.io import get_worker_info

    worker = get_worker_info()
    keys, position = np.random.get_state()[1:3]  # type: ignore[index]
    rank = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
    entropy = [seed or 0, rank, worker.id + 1 if worker else 0, int(position), *(int(k) for k in keys[:8])]
    return np.random.default_rng(entropy)
