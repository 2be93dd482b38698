"""PaddleDetection's readers of COCO annotations under the check of `annotations`: a data set, an evaluation.

Each fault is warned of once; both guards come off again.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from detperf_plugins.errors import DetperfError
from detperf_plugins.imports import around_import
from detperf_plugins.paddledet.annotations import Finding, check_annotations
from detperf_plugins.paddledet.polygons import NO_MASK

__all__ = ["guard_coco_dataset", "guard_coco_metric"]

logger = logging.getLogger("detperf_plugins")

# How many warnings of one kind are printed in full before they are only counted.
SHOWN_PER_KIND = 20
# COCOMetric's module, and the kinds of evaluation whose ground truth is boxes and masks.
METRICS = "ppdet.metrics.metrics"
STYLES = ("bbox", "segm", "proposal")


def _report(findings: list[Finding], source: str) -> None:
    seen: Counter[str] = Counter()
    for finding in findings:
        kind = finding[2].split(" beyond")[0]
        seen[kind] += 1
        if seen[kind] <= SHOWN_PER_KIND:
            logger.warning("%s: %s", source, finding)
    for kind, count in seen.items():
        if count > SHOWN_PER_KIND:
            logger.warning("%s: %s: %d annotations in all", source, kind, count)


@contextmanager
def _replaced_coco(before_index: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """While it lasts, `pycocotools.coco.COCO` hands its data to `before_index` before it builds its index."""
    from pycocotools import coco

    stock = coco.COCO

    class CheckedCOCO(stock):  # type: ignore[misc, valid-type]
        def createIndex(self) -> None:  # noqa: N802  (pycocotools' name)
            if isinstance(self.dataset, dict) and self.dataset.get("annotations"):
                before_index(self.dataset)
            super().createIndex()

    coco.COCO = CheckedCOCO
    try:
        yield
    finally:
        coco.COCO = stock


def _without_annotations(dataset: dict[str, Any]) -> None:
    """Where only categories are asked for: an annotation without its ids would stop the index."""
    dataset["annotations"] = []


def _check(dataset: dict[str, Any], masks: bool, source: str) -> None:
    total = len(dataset["annotations"])
    _report(check_annotations(dataset, masks), source)
    if masks and not any(_has_mask(a) for a in dataset["annotations"]):
        raise DetperfError(
            f"{source}: 0 of {total} annotations have a mask, and a mask model cannot learn from a detection "
            "data set: use annotations with segmentations, or drop gt_poly from data_fields"
        )


def _has_mask(annotation: dict[str, Any]) -> bool:
    return bool(annotation.get("segmentation")) and annotation["segmentation"] is not NO_MASK


def guard_coco_dataset() -> Callable[[], None]:
    """Let COCODataSet read checked annotations; returns the function that takes the guard off again."""
    from ppdet.data.source.coco import COCODataSet

    stock = COCODataSet.parse_dataset

    def parse_dataset(self: Any) -> None:
        masks, source = "gt_poly" in self.data_fields, str(self.get_anno())
        with _replaced_coco(lambda dataset: _check(dataset, masks, source)):
            stock(self)

    parse_dataset.__doc__ = stock.__doc__
    COCODataSet.parse_dataset = parse_dataset

    def restore() -> None:
        COCODataSet.parse_dataset = stock

    return restore


def guard_coco_metric() -> Callable[[], None]:
    """Let COCOMetric compare with checked annotations; returns the function that takes the guard off again.

    An evaluation loads them for boxes and for masks, at every snapshot: what was said is not said again.
    """
    changed: list[tuple[Any, str, Any]] = []
    said: set[tuple[str, str]] = set()
    wanted = True

    def install(module: Any) -> None:
        if not wanted:
            return
        from ppdet.metrics import coco_utils

        stock = coco_utils.cocoapi_eval

        @functools.wraps(stock)
        def evaluate(
            jsonfile: Any, style: str, coco_gt: Any = None, anno_file: Any = None, *args: Any, **options: Any
        ) -> Any:
            if coco_gt is None and anno_file is not None and style in STYLES:
                coco_gt = _checked_truth(str(anno_file), style == "segm", said)
            return stock(jsonfile, style, coco_gt, anno_file, *args, **options)

        categories = module.get_categories

        @functools.wraps(categories)
        def get_categories(*args: Any, **options: Any) -> Any:
            with _replaced_coco(_without_annotations):
                return categories(*args, **options)

        for home, name, ours in (
            (coco_utils, "cocoapi_eval", evaluate),
            (module, "cocoapi_eval", evaluate),
            (module, "get_categories", get_categories),
        ):
            changed.append((home, name, getattr(home, name)))
            setattr(home, name, ours)

    around_import(METRICS, after=install)

    def restore() -> None:
        nonlocal wanted
        wanted = False
        for home, name, stock in changed:
            setattr(home, name, stock)

    return restore


def _checked_truth(path: str, masks: bool, said: set[tuple[str, str]]) -> Any:
    """pycocotools' COCO of a file, checked; findings are reported unless they are among `said`."""
    from pycocotools import coco

    def check(dataset: dict[str, Any]) -> None:
        findings = check_annotations(dataset, masks, evaluating=True)
        _report([one for one in findings if (path, str(one)) not in said], path)
        said.update((path, str(one)) for one in findings)

    with _replaced_coco(check):
        return coco.COCO(path)
