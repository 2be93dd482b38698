"""Error texts that users paste, with their cause, the remedy, and the public report that established it."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ENTRIES", "Entry"]


@dataclass(frozen=True)
class Entry:
    """A known error.

    Attributes:
        id: the stable name.
        title: what it is, in one line.
        pattern: found anywhere in a line of the pasted text.
        cause: why it happens.
        remedy: what to do.
        source: the public report, or the source file, that established it.
    """

    id: str
    title: str
    pattern: re.Pattern[str]
    cause: str
    remedy: str
    source: str

    def as_row(self) -> dict[str, str]:
        """The entry as a flat JSON-ready object."""
        return {
            "id": self.id,
            "title": self.title,
            "cause": self.cause,
            "remedy": self.remedy,
            "source": self.source,
        }


def _entry(id: str, title: str, pattern: str, cause: str, remedy: str, source: str) -> Entry:
    return Entry(id, title, re.compile(pattern), cause, remedy, f"https://github.com/{source}")


ENTRIES = (
    _entry(
        "libz-version", "the libz that is found first is too old",
        r"version `ZLIB_[\d.]+' not found|libz\.so\S*: .*no version information|"
        r"libpng error: bad parameters to zlib",
        "Two copies of zlib meet in one process; libpng (through OpenCV) gets the older one.",
        "Put the newer libz first (LD_LIBRARY_PATH, or remove /usr/local/lib/libz.so.1), or import cv2 "
        "before paddle.",
        "PaddlePaddle/Paddle/pull/41500",
    ),
    _entry(
        "zlib-crash", "a segmentation fault in zlib after paddle was imported",
        r"inflateReset2|(?:Segmentation fault|SIGSEGV)[\s\S]{0,400}(?:zlib|inflate)|"
        r"zlib\.error: Error -2 while preparing",
        "Paddle exports its own zlib symbols; the first use of Python's zlib afterwards mixes the two. "
        "pycocotools 2.0.11 and "
        "pyclipper 1.4 decompress while they are imported.",
        "Use zlib once before `import paddle` (`detperf train` does), or install pycocotools<2.0.9 and "
        "pyclipper<1.4.",
        "PaddlePaddle/Paddle/pull/41500",
    ),
    _entry(
        "zero-axis-concat", "PaddleDetection 2.6 on Paddle 2.6 or later",
        r"The axis is expected to be in range of \[0, 0\)",
        "From Paddle 2.6 on, `paddle.shape(x)[0]` is a tensor without an axis; PaddleDetection 2.6 (the "
        "paddledet 2.6.0 wheel) concatenates such tensors in its R-CNN targets and post-processing.",
        "Train through this package (an overlay, `python -m detperf_plugins` or `detperf train`), which "
        "mends the four modules concerned, or use PaddleDetection's develop branch, which writes `[0:1]`.",
        "PaddlePaddle/PaddleDetection/blob/develop/ppdet/modeling/proposal_generator/target.py",
    ),
    _entry(
        "sklearn-missing", "scikit-learn is not installed",
        r"No module named ['\"]?sklearn\b|The 'sklearn' PyPI package is deprecated",
        "PaddleDetection's requirements ask for `sklearn==0.0`, an empty placeholder that brings nothing.",
        "pip install 'scikit-learn<1.6'.",
        "PaddlePaddle/PaddleDetection/issues/9347",
    ),
    _entry(
        "numpy-alias", "numpy removed its aliases of Python types",
        r"module 'numpy' has no attribute '(?:int|float|bool|object|str|complex|long|unicode)'|"
        r"`np\.(?:int|float|bool|object)` was a deprecated",
        "np.int, np.float, np.bool and np.object are gone since numpy 1.24; older hosts still use them.",
        "pip install 'numpy<1.24' (1.23.5 also for Python 3.11), or upgrade the host.",
        "PaddlePaddle/PaddleOCR/issues/8806",
    ),
    _entry(
        "numpy-2", "a compiled module was built for numpy 1 and runs with numpy 2",
        r"A module that was compiled using NumPy 1\.x cannot be run|numpy\.dtype size changed|"
        r"_ARRAY_API not found",
        "numpy 2 changed its binary interface.",
        "pip install 'numpy<2'.",
        "PaddlePaddle/PaddleOCR/issues/8806",
    ),
    _entry(
        "tuple-index", "output_columns is shorter than an index asks",
        r"TupleGetItem[\s\S]{0,200}(?:out of range|index)|index of TupleGetItem",
        "net_input_column_index or label_column_index points past the end of output_columns, often because "
        "output_columns: ['image'] was left on from a test of the loader.",
        "Restore train.dataset.output_columns; `detperf lint CONFIG` shows the line.",
        "mindspore-lab/mindocr/issues/683",
    ),
    _entry(
        "amp-none", "AMP O2 or O3 meets DBFPN or another module written for float32",
        r"must be real number, not NoneType",
        "Under O2 and O3 the features reach DBFPN as a tuple, which its construct() assigns into; "
        "MindSpore reports the failed "
        "rewrite as this TypeError.",
        "Train with `detperf train`, which mends DBFPN and keeps DBHead in float32, or use amp_level O0.",
        "mindspore-lab/mindocr/blob/main/mindocr/models/necks/fpn.py",
    ),
    _entry(
        "bus-error", "shared memory of the data workers is used up",
        r"[Uu]nexpected BUS error|\bBus error\b|insufficient shared memory|SIGBUS|"
        r"No space left on device[^\n]{0,60}(?:/dev/shm|psm_)",
        "Workers hand batches over in /dev/shm; a container has 64 MB of it by default.",
        "Start the container with --shm-size=16g (or --ipc=host); else use fewer workers or "
        "use_shared_memory: false.",
        "PaddlePaddle/PaddleOCR/issues/9391",
    ),
    _entry(
        "hccl-te", "the Python parts of CANN are not installed",
        r"No module named ['\"]?(?:te|tbe|hccl|topi|auto_tune|schedule_search)\b|"
        r"Failed to import Python module \[ModuleNotFoundError",
        "MindSpore compiles operators through CANN's Python packages te and hccl; they are separate wheels.",
        "Install the te and hccl wheels from CANN's lib64 folder into the Python in use and run "
        "set_env.sh; keep CANN and "
        "MindSpore at matching versions.",
        "mindspore-lab/mindocr/issues/683",
    ),
    _entry(
        "unused-parameters", "a branch of the model got no gradient on one card",
        r"find_unused_parameters",
        "A card whose pictures have no foreground box leaves the box or mask branch out of the backward "
        "pass; the others wait.",
        "Set find_unused_parameters: true in the config.",
        "PaddlePaddle/PaddleDetection/issues/3260",
    ),
    _entry(
        "paddle-ops", "a suite for one major version of Paddle runs on another",
        r"module 'paddle\.vision\.ops' has no attribute|must be Value, but got Variable|"
        r"has no attribute 'fluid'|No module named 'paddle\.fluid'",
        "Functions moved between Paddle 2 and 3 (generate_proposals, fluid); static-graph values changed "
        "their class.",
        "Use PaddleDetection 2.6 with paddlepaddle 2.6.2, or its develop branch with Paddle 3; `detperf "
        "env` says which pair is here.",
        "PaddlePaddle/PaddleDetection/issues/9450",
    ),
    _entry(
        "crowd-type", "a crowd box under Paddle 3",
        r"(?:multiply|is_crowd)[^\n]{0,200}(?:int32[^\n]{0,60}float32|data ?type)",
        "Paddle 3 does not multiply int32 by float32, and the stock RPN target assigner does so as soon as "
        "a crowd box exists.",
        "Use the overlay exact_parts (`detperf configs exact_parts` prints its path), or load_crowd: false.",
        "PaddlePaddle/PaddleDetection/issues/9454",
    ),
    _entry(
        "gpu-memory", "the device's memory is used up",
        r"ResourceExhaustedError|Out of memory error on GPU|CUDA out of memory|cudaErrorMemoryAllocation|"
        r"Out of Memory!!!|Failed to alloc memory",
        "The batch, the picture size or the number of boxes is too large. At evaluation, full-size masks "
        "are pasted for every "
        "detection: that memory belongs to evaluation, not to training.",
        "Lower the batch or the picture size, use --amp; if it happens at evaluation, lower keep_top_k or "
        "evaluate smaller pictures.",
        "PaddlePaddle/PaddleDetection/issues/7594",
    ),
    _entry(
        "gt-poly", "the data set gives no polygons",
        r"KeyError: ['\"]gt_(?:poly|segm)['\"]|Invalid segm type",
        "A mask head is trained with a detection data set, or some annotations have no segmentation.",
        "Add gt_poly to TrainDataset.data_fields; run `detperf lint` on the annotation file.",
        "PaddlePaddle/PaddleDetection/issues/4091",
    ),
    _entry(
        "no-record", "the data set is empty",
        r"not found any coco record|Illegal image file: |no valid data|"
        r"Samples in dataset are less than batch_size",
        "Every picture was skipped (a wrong image_dir, folder prefixes in file_name), or the batch is "
        "larger than the data set.",
        "Run `detperf lint ANNOTATIONS --images DIR`; check TrainDataset.image_dir and the batch size.",
        "PaddlePaddle/PaddleDetection/issues/4267",
    ),
    _entry(
        "dataset-path", "a path of the data set does not exist",
        r"Config (?:dataset_dir|annotation|image_dir) [^\n]*is not (?:exits|a )"
        r"(?:[^\n]*\n){1,80}?[^\n]*is not valid for reason above, please check again|"
        r"is not valid for reason above, please check again",
        "dataset_dir does not exist, or dataset_dir/anno_path is no file, or dataset_dir/image_dir is no "
        "folder; the warning `Config ... is not ...` before the traceback says which. Relative paths count "
        "from the folder in which the training is started.",
        "Correct that path in TrainDataset or EvalDataset; `detperf lint CONFIG` names every path that is "
        "missing.",
        "PaddlePaddle/PaddleDetection/blob/develop/ppdet/utils/download.py",
    ),
    _entry(
        "segmentation-as-box", "a polygon of four numbers is read as a box",
        r"Argument 'bb' has incorrect type",
        "pycocotools decides by the first part of a segmentation: one of four numbers is a box [x, y, w, h] "
        "for it, and it refuses a list there. A polygon needs six numbers.",
        "Write a copy without such parts with `detperf lint ANNOTATIONS --fix OUT`, or train with this "
        "project's parts, which leave them out.",
        "cocodataset/cocoapi/issues/139",
    ),
    _entry(
        "not-registered", "a class that the config names is not registered",
        r"Missing injection (?:config:|name )|The module \S+ is not registered",
        "PaddleDetection knows a class by the name under which it was registered when the model is built: "
        "the name is misspelt, or belongs to a plugin that nothing has activated.",
        "`detperf lint CONFIG` names the line and the nearest known name. For a part of this project start "
        "with `detperf train` or `python -m detperf_plugins tools/train.py`, or add the overlay's `plugins` "
        "line.",
        "PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    ),
    _entry(
        "no-class-name", "a part of the model is no class name",
        r"should be a class or name of a class",
        "The section of the architecture has null or a mapping for a part that must be built (backbone, "
        "rpn_head, bbox_head, mask_head), where the name of a class is expected.",
        "Write the name (`backbone: ResNet`), and the part's settings in a section of that name.",
        "PaddlePaddle/PaddleDetection/blob/develop/ppdet/core/workspace.py",
    ),
    _entry(
        "fpn-padding", "the pictures of an FPN model are not padded to a multiple of 32",
        r"necks/fpn\.py[\s\S]{0,400}Broadcast dimension mismatch",
        "FPN adds each level to the one below at twice its size; the sizes differ by one where a side of the "
        "batch is no multiple of 32, as with an overlay for C4 models (pad_to_stride: -1).",
        "Set PadBatch.pad_to_stride: 32 in TrainReader.batch_transforms, or use the overlay that ends in "
        "_fpn.",
        "PaddlePaddle/PaddleDetection/blob/develop/ppdet/modeling/necks/fpn.py",
    ),
    _entry(
        "topology", "a text polygon crosses itself",
        r"TopologicalError|TopologyException|GEOSIntersection_r",
        "shapely cannot cut a polygon that crosses itself; MindOCR drops the picture and takes another.",
        "Run `detperf lint LABELS`: it names line and box, and --fix reorders or ignores them.",
        "open-mmlab/mmocr/issues/1004",
    ),
    _entry(
        "mindspore-transformer", "MindOCR 0.5 meets a newer MindSpore",
        r"No module named 'mindspore\.parallel\._transformer'|"
        r"cannot import name '\w+' from 'mindspore\._checkparam'",
        "MindSpore 2.7 removed the package; only ABINet needs it, but every import of mindocr.models "
        "runs it.",
        "Start with `detperf train`, which serves stand-ins, or use MindSpore 2.5.",
        "mindspore-lab/mindocr/issues/499",
    ),
    _entry(
        "hf-hub", "huggingface_hub is newer than MindOCR expects",
        r"cannot import name 'repo_type_and_id_from_hf_id'",
        "The function moved in huggingface_hub 1.x.",
        "pip install 'huggingface_hub<1', or start with `detperf train`.",
        "huggingface/huggingface_hub/pull/3507",
    ),
    _entry(
        "workers-memory", "MindSpore asks for fewer workers",
        r"num_parallel_workers[^\n]{0,200}(?:too large|reduce)|recommended to reduce num_parallel_workers",
        "Each worker process holds its own copy of the loader and a queue of samples.",
        "Reduce train.loader.num_workers to the number it names.",
        "mindspore-lab/mindocr/issues/542",
    ),
    _entry(
        "tab-values", "a label line with several tabs or blanks",
        r"too many values to unpack \(expected 2\)",
        "MindOCR splits a label line at the tab (or blank); a second one makes three pieces. Its -o option "
        "fails the same way "
        "on a value that holds '='.",
        "Run `detperf lint LABELS`; put values with = into the YAML.",
        "PaddlePaddle/PaddleOCR/issues/12081",
    ),
    _entry(
        "utf8", "a file is not UTF-8",
        r"UnicodeDecodeError: '(?:utf-8|gbk|cp936|charmap|ascii)' codec can't decode",
        "The file was saved as GBK, or a UTF-8 file is read with Windows' own codec.",
        "Convert it with `detperf lint FILE --fix OUT`; on Windows set PYTHONUTF8=1.",
        "PaddlePaddle/PaddleDetection/issues/1470",
    ),
    _entry(
        "eval-empty", "evaluation found nothing",
        r"[Ee]valuation results? (?:is )?empty|The directory .* has no .*results|"
        r"Loading and preparing results\.\.\.[\s\S]{0,80}empty",
        "The model predicts no object: too few steps, wrong weights, a loss that became 0 or NaN, or a "
        "wrong num_classes.",
        "Read the training log with `detperf log`, and lint the config and the annotations.",
        "PaddlePaddle/PaddleDetection/issues/3671",
    ),
    _entry(
        "nan-scale", "float16 overflow",
        r"Found inf or nan, current scale is",
        "A gradient overflowed in float16; the loss scale is halved and the update skipped.",
        "Harmless now and then. If the scale sinks below 1, keep the overflowing part (the DB head) in "
        "float32, or use bf16.",
        "PaddlePaddle/PaddleOCR/issues/10874",
    ),
    _entry(
        "port-in-use", "the launcher's port is taken",
        r"Address already in use|port \d+ (?:is )?(?:already )?(?:in use|occupied)",
        "An earlier run is still alive, or two runs share a port.",
        "End the earlier run, or choose another port (--master, --start_port, --master_port).",
        "PaddlePaddle/PaddleDetection/issues/3105",
    ),
)  # fmt: skip
