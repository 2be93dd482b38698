"""The doctor: rules for configs, data sets and logs. It reads files only and imports no framework.

- `lint.lint_file` checks one file (YAML of PaddleDetection, MindOCR or PaddleOCR, COCO json, DBNet labels);
- `logs.read.read_log` and `logs.analyse.analyse` read a training log;
- `explain.explain` names the cause of an error text;
- `rules.all_rules` lists every rule, `pages.rules_page` is the page made from them.
"""

from __future__ import annotations
