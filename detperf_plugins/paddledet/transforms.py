"""What the loader workers do for mask targets: pack polygons, or rasterise them to bitmaps.

Both stand among a reader's `batch_transforms` (or last among its `sample_transforms`): after everything
that moves polygons, such as resize and flip.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from ppdet.data.transform.operators import BaseOperator

from detperf_plugins.native.raster import rasterize, rasterize_full
from detperf_plugins.paddledet.annotations import polygons_expected, rle_annotations, rle_reported
from detperf_plugins.paddledet.polygons import PackedPolygons, is_rle, pack_polygons
from detperf_plugins.rle import decode_rle, rle_fault

__all__ = ["PACKED_KEYS", "PackPolygons", "PolyToBitmap", "warn_once"]

logger = logging.getLogger("detperf_plugins")

# Where PackPolygons puts the arrays of PackedPolygons. "gt_" keeps ppdet's collate from stacking them.
PACKED_KEYS = ("gt_poly_xy", "gt_poly_parts", "gt_poly_instances")

_warned: set[tuple[Any, Any, str]] = set()


def warn_once(image_id: Any, instance: int, fault: str) -> None:
    """One warning per image, instance and fault in a process; what was done is always the same.

    The image's RLE instances go by their annotation ids, where the annotation guard knows them, and are
    left to the guard's own warning where it has given one.
    """
    rle = "run-length" in fault
    known = rle_annotations(image_id) if rle else []
    key = (image_id, None if known else instance, fault)
    if key in _warned or (rle and rle_reported(image_id)):
        return
    _warned.add(key)
    who = f"annotation {', '.join(map(str, known))}" if known else f"instance {instance}"
    logger.warning(
        "image %s, %s: %s; no mask target (weight 0) from it, its box still trains", image_id, who, fault
    )


def _image_id(sample: dict[str, Any]) -> Any:
    return np.asarray(sample["im_id"]).reshape(-1)[0] if "im_id" in sample else "unknown"


class PackPolygons(BaseOperator):
    """Pack each sample's polygons as CSR arrays for `PolygonMaskAssigner`, beside the untouched `gt_poly`.

    Adds to the sample (G instances, P parts, V vertices):
        gt_poly_xy: float64 [max(V, 1), 2], vertices in pixels of the transformed image; a sample without
            a vertex gets one unused row, since Paddle 3 cannot ship an empty array in shared memory.
        gt_poly_parts: int64 [P + 1], offsets into the vertices.
        gt_poly_instances: int64 [G + 1], offsets into the parts.

    Args:
        del_poly: drop `gt_poly` afterwards. The loader hands every single number of `gt_poly` from the
            worker to the trainer as a Python object, so dropping it saves time where nothing else reads it.
    """

    def __init__(self, del_poly: bool = False) -> None:
        super().__init__()
        self.del_poly = del_poly
        polygons_expected()

    def apply(self, sample: dict[str, Any], context: Any = None) -> dict[str, Any]:
        """Add the arrays to one sample. Raises KeyError where it has no `gt_poly`."""
        packed, faults = pack_polygons(_gt_poly(sample))
        for instance, fault in faults:
            warn_once(_image_id(sample), instance, fault)
        xy = packed.xy if len(packed.xy) else np.zeros((1, 2))
        for key, value in zip(PACKED_KEYS, (xy, packed.parts, packed.instances)):
            sample[key] = value
        if self.del_poly:
            del sample["gt_poly"]
        return sample


class PolyToBitmap(BaseOperator):
    """Rasterise each instance in the loader worker, for `BitmapMaskAssigner`: polygons and both RLE forms.

    Adds to the sample (G instances):
        gt_segm: uint8 [G, S, S], each instance seen through its own box; with crop_size 0,
            uint8 [G, H, W] over the whole (padded) image.
        gt_segm_box: float32 [G, 4], the box x0 y0 x1 y1 (pixels) that each bitmap covers; zeros for an
            instance without a usable mask.

    Targets from bitmaps differ from stock's: see `BitmapMaskAssigner`.

    Args:
        crop_size: S, cells along each side of a bitmap; 0 for whole-image bitmaps, which cost
            height x width bytes an instance.
        del_poly: drop `gt_poly` afterwards (as ppdet's Poly2Mask).

    Raises:
        ValueError: a `crop_size` that is neither 0 nor 8 to 4096.
    """

    def __init__(self, crop_size: int = 224, del_poly: bool = False) -> None:
        super().__init__()
        if crop_size != 0 and not 8 <= crop_size <= 4096:
            raise ValueError(f"crop_size must be 0 (whole images) or 8 to 4096, got {crop_size}")
        self.crop_size = crop_size
        self.del_poly = del_poly

    def apply(self, sample: dict[str, Any], context: Any = None) -> dict[str, Any]:
        """Add the arrays to one sample. Raises KeyError where it has no `gt_poly`."""
        gt_poly = _gt_poly(sample)
        height, width = _image_size(sample)
        polygons = [[] if is_rle(one) else one for one in gt_poly]
        packed, faults = pack_polygons(polygons)
        rle = {i: one for i, one in enumerate(gt_poly) if is_rle(one)}
        for instance, fault in faults:
            if instance not in rle:
                warn_once(_image_id(sample), instance, fault)
        masks, boxes = self._from_polygons(packed, height, width)
        for instance, one in rle.items():
            fault = rle_fault(one)
            if fault:
                warn_once(_image_id(sample), instance, fault)
                continue
            bitmap = decode_rle(one)
            if bitmap.any():
                masks[instance], boxes[instance] = self._from_bitmap(bitmap, height, width)
        sample["gt_segm"], sample["gt_segm_box"] = masks, boxes
        if self.del_poly:
            del sample["gt_poly"]
        return sample

    def _from_polygons(
        self, packed: PackedPolygons, height: int, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.crop_size == 0:
            masks = rasterize_full(*packed, height, width, threads=1)
            boxes = np.tile(np.array([[0, 0, width, height]], dtype=np.float32), (len(masks), 1))
            boxes[~masks.any(axis=(1, 2))] = 0
            return masks, boxes
        boxes = _crop_boxes(packed, height, width, self.crop_size)
        index = np.where((boxes[:, 2:] > boxes[:, :2]).all(axis=1), np.arange(len(boxes)), -1)
        masks = rasterize(*packed, boxes, index, self.crop_size, self.crop_size, np.uint8, threads=1)
        return masks, boxes

    def _from_bitmap(self, bitmap: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        if self.crop_size == 0:
            mask = np.zeros((height, width), dtype=np.uint8)
            h, w = min(height, bitmap.shape[0]), min(width, bitmap.shape[1])
            mask[:h, :w] = bitmap[:h, :w]
            return mask, np.array([0, 0, width, height], dtype=np.float32)
        rows, columns = np.flatnonzero(bitmap.any(axis=1)), np.flatnonzero(bitmap.any(axis=0))
        tight = np.array([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]], dtype=np.float64)
        box = _with_margin(tight, self.crop_size)[0]
        cells = (np.arange(self.crop_size) + 0.5) / self.crop_size
        x = np.floor(box[0] + cells * (box[2] - box[0])).astype(np.int64)
        y = np.floor(box[1] + cells * (box[3] - box[1])).astype(np.int64)
        inside = ((y >= 0) & (y < bitmap.shape[0]))[:, None] & ((x >= 0) & (x < bitmap.shape[1]))
        values = bitmap[np.clip(y, 0, bitmap.shape[0] - 1)[:, None], np.clip(x, 0, bitmap.shape[1] - 1)]
        return np.where(inside, values, 0).astype(np.uint8), box


def _gt_poly(sample: dict[str, Any]) -> Any:
    if "gt_poly" not in sample:
        raise KeyError(
            "the sample has no gt_poly: add 'gt_poly' to TrainDataset.data_fields, and let no earlier "
            "transform remove it"
        )
    return sample["gt_poly"]


def _image_size(sample: dict[str, Any]) -> tuple[int, int]:
    """Height and width of a sample's image, before or after Permute and PadBatch."""
    shape = sample["image"].shape
    channels_first = len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3)
    height, width = shape[-2:] if channels_first or len(shape) == 2 else shape[:2]
    return int(height), int(width)


def _crop_boxes(packed: PackedPolygons, height: int, width: int, size: int) -> np.ndarray:
    """float32 [G, 4]: the box that each instance's bitmap covers; zeros where there is nothing to cover."""
    count = len(packed.instances) - 1
    boxes = np.zeros((count, 4), dtype=np.float64)
    full = np.flatnonzero(packed.has_mask())
    if len(full):
        starts = packed.parts[packed.instances[:-1][full]]
        boxes[full, :2] = np.minimum.reduceat(packed.xy, starts)
        boxes[full, 2:] = np.maximum.reduceat(packed.xy, starts)
        # What lies outside the image is never asked for, and would only coarsen the rest.
        np.clip(boxes[:, 0::2], 0, width, out=boxes[:, 0::2])
        np.clip(boxes[:, 1::2], 0, height, out=boxes[:, 1::2])
    return _with_margin(boxes, size)


def _with_margin(boxes: np.ndarray, size: int) -> np.ndarray:
    """Boxes one cell larger on each side, so that a bitmap's border is empty; empty boxes become zeros.

    roi_align repeats a bitmap's border up to one cell outwards: with an empty border nothing is smeared.
    """
    extent = np.maximum(boxes[:, 2:] - boxes[:, :2], 0.1)
    margin = extent / (size - 2)
    grown = np.concatenate([boxes[:, :2] - margin, boxes[:, :2] + extent + margin], axis=1)
    grown[~(boxes[:, 2:] > boxes[:, :2]).any(axis=1)] = 0
    return grown.astype(np.float32)
