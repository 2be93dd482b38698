"""Helpers of the doctor's tests: small correct inputs, checks of text, verbs run as the command runs them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from detperf_plugins.doctor.configs.check import check_config
from detperf_plugins.doctor.findings import Finding, Report, by_importance
from detperf_plugins.doctor.lint import Options, lint_file

__all__ = [
    "MINDOCR",
    "PPDET",
    "assert_found_at",
    "check_text",
    "coco",
    "edited",
    "found",
    "line_of",
    "run",
    "square",
    "write",
]

# A small but complete MindOCR config in which nothing is wrong beyond the missing data folder.
MINDOCR = """\
system:
  mode: 0
  distribute: False
  amp_level: 'O2'
  seed: 7
  log_interval: 5
  val_while_train: True
  val_interval: 20
  drop_overflow_update: False
model:
  type: det
  transform: null
  backbone:
    name: det_resnet18
    pretrained: True
  neck:
    name: DBFPN
    out_channels: 128
    bias: False
  head:
    name: DBHead
    k: 50
    bias: False
    adaptive: True
postprocess:
  name: DBPostprocess
  box_type: quad
  binary_thresh: 0.3
metric:
  name: DetMetric
  main_indicator: f-score
loss:
  name: DBLoss
  eps: 1.0e-6
  l1_scale: 10
scheduler:
  scheduler: polynomial_decay
  lr: 0.007
  num_epochs: 60
  decay_rate: 0.9
  warmup_epochs: 2
optimizer:
  opt: SGD
  momentum: 0.9
  weight_decay: 1.0e-4
loss_scaler:
  type: dynamic
  loss_scale: 512
train:
  ckpt_save_dir: ./out
  dataset_sink_mode: True
  dataset:
    type: DetDataset
    dataset_root: ./texts
    data_dir: pictures
    label_file: labels.txt
    sample_ratio: 1.0
    transform_pipeline:
      - DecodeImage:
          img_mode: RGB
      - DetLabelEncode:
      - RandomScale:
          scale_range: [ 0.8, 2.0 ]
          p: 1.0
      - RandomCropWithBBox:
          crop_size: [ 512, 512 ]
          p: 1.0
      - ShrinkBinaryMap:
          min_text_size: 8
          shrink_ratio: 0.4
      - BorderMap:
          shrink_ratio: 0.4
          thresh_min: 0.3
          thresh_max: 0.7
      - NormalizeImage:
          bgr_to_rgb: False
          is_hwc: True
          mean: imagenet
          std: imagenet
      - ToCHWImage:
    output_columns: [ 'image', 'binary_map', 'mask', 'thresh_map', 'thresh_mask' ]
    net_input_column_index: [ 0 ]
    label_column_index: [ 1, 2, 3, 4 ]
  loader:
    shuffle: True
    batch_size: 16
    drop_remainder: True
    num_workers: 4
eval:
  ckpt_load_path: out/best.ckpt
  dataset_sink_mode: False
  dataset:
    type: DetDataset
    dataset_root: ./texts
    data_dir: pictures
    label_file: labels.txt
    sample_ratio: 1.0
    transform_pipeline:
      - DecodeImage:
          img_mode: RGB
      - DetLabelEncode:
      - DetResize:
          target_size: [ 640, 960 ]
          keep_ratio: False
      - NormalizeImage:
          bgr_to_rgb: False
          is_hwc: True
          mean: imagenet
          std: imagenet
      - ToCHWImage:
    output_columns: [ 'image', 'polys', 'ignore_tags', 'shape_list' ]
    net_input_column_index: [ 0 ]
    label_column_index: [ 1, 2 ]
  loader:
    shuffle: False
    batch_size: 1
    drop_remainder: False
    num_workers: 2
"""

# The same for PaddleDetection.
PPDET = """\
architecture: MaskRCNN
metric: COCO
num_classes: 2
epoch: 10
use_gpu: true
amp: true
worker_num: 2
MaskRCNN:
  backbone: ResNet
  neck: FPN
  rpn_head: RPNHead
  bbox_head: BBoxHead
  mask_head: MaskHead
ResNet:
  depth: 50
  freeze_at: 0
  return_idx: [0, 1, 2, 3]
FPN:
  out_channel: 256
LearningRate:
  base_lr: 0.0025
  schedulers:
  - !PiecewiseDecay
    gamma: 0.1
    milestones: [6, 9]
  - !LinearWarmup
    start_factor: 0.1
    steps: 20
TrainDataset:
  !COCODataSet
    image_dir: pictures
    anno_path: train.json
    dataset_dir: parts
    data_fields: ['image', 'gt_bbox', 'gt_class', 'gt_poly', 'is_crowd']
TrainReader:
  sample_transforms:
  - Decode: {}
  - RandomResize: {target_size: [[320, 480]], interp: 2, keep_ratio: True}
  - RandomFlip: {prob: 0.5}
  - NormalizeImage: {is_scale: true, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}
  - Permute: {}
  batch_transforms:
  - PadBatch: {pad_to_stride: 32}
  batch_size: 2
  shuffle: true
  drop_last: true
  collate_batch: false
  use_shared_memory: true
"""


def square(x: float, y: float, side: float = 10.0) -> list[float]:
    """The flat ring of an upright square."""
    return [x, y, x + side, y, x + side, y + side, x, y + side]


def coco(*changes: dict[str, Any], **top: Any) -> dict[str, Any]:
    """A correct file of 2 images (100 x 80) and 4 annotations, ids 11 to 14; `changes` alter the third.

    A value of `...` deletes the key; `top` replaces sections.
    """
    annotations = []
    for index in range(4):
        x, y = 8.0 + 22 * index, 12.0 + 9 * index
        annotations.append(
            {
                "id": 11 + index,
                "image_id": 1 + index // 2,
                "category_id": 1 + index % 2,
                "iscrowd": 0,
                "bbox": [x, y, 10.0, 10.0],
                "area": 100.0,
                "segmentation": [square(x, y)],
            }
        )
    for change in changes:
        for key, value in change.items():
            if value is ...:
                del annotations[2][key]
            else:
                annotations[2][key] = value
    data = {
        "images": [{"id": i, "file_name": f"p{i}.png", "width": 100, "height": 80} for i in (1, 2)],
        "categories": [{"id": 1, "name": "nut"}, {"id": 2, "name": "bolt"}],
        "annotations": annotations,
    }
    return {**copy.deepcopy(data), **top}


def write(folder: Path, name: str, content: Any) -> Path:
    """A file of text, bytes or JSON."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def found(folder: Path, name: str, content: Any, **options: Any) -> dict[str, Finding]:
    """Findings of a check by rule id (the first of each), after asserting that the file could be read."""
    report: Report = lint_file(write(folder, name, content), Options(**options))
    assert report.unreadable is None, report.unreadable
    by_rule: dict[str, Finding] = {}
    for finding in report.findings:
        by_rule.setdefault(finding.rule.id, finding)
    return by_rule


def run(*words: str) -> int:
    """Run `detperf WORDS` in this process; returns the exit status, as the console script would."""
    from typer.main import get_command

    from detperf_plugins.cli import app, explain, lint, log  # noqa: F401
    from detperf_plugins.errors import DetperfError

    try:
        return get_command(app).main(list(words), standalone_mode=False) or 0
    except DetperfError as error:
        print(f"detperf: {error}")
        return error.status


def edited(text: str, *edits: tuple[str, str]) -> str:
    """`text` with the first place of each old text replaced by its new one; each must occur."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def check_text(text: str, **options: Any) -> dict[str, Finding]:
    """The most important finding of each rule in a config of this text."""
    findings = check_config(text, "config.yml", None, **options)[1]
    return {finding.rule.id: finding for finding in reversed(by_importance(findings))}


def line_of(text: str, part: str) -> int:
    """Number of the first line that has `part`, from 1."""
    return next(number for number, row in enumerate(text.split("\n"), 1) if part in row)


def assert_found_at(text: str, rule: str, severity: str, where: str) -> None:
    """A config of this text has a finding of `rule`, of this severity, in the first line that has `where`."""
    findings = check_text(text)
    assert rule in findings, sorted(findings)
    assert findings[rule].severity == severity
    assert findings[rule].line == line_of(text, where), findings[rule]
