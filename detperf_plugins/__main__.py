"""`python -m detperf_plugins [--replace] SCRIPT ARGS...`: run any host script with the plugins loaded.

`python -m detperf_plugins [--replace] -m MODULE ARGS...` runs a module instead, for instance
`-m paddle.distributed.launch --devices 0,1 tools/train.py -c ...` or
`-m mindspore.parallel.cluster.run --worker_num=2 ... tools/train.py -c ...`: the processes it starts have
them too. `--phases-json PATH` writes where the time of a MindOCR training went to PATH.
"""

from __future__ import annotations

import os
import runpy
import sys

USAGE = "usage: python -m detperf_plugins [--replace] [--phases-json PATH] (SCRIPT | -m MODULE) [ARGS...]"


def main(arguments: list[str]) -> None:
    """Set the plugins up for this process and its children, then become the script.

    A `DetperfError` ends it with one sentence and its status; everything else is the script's own affair.
    """
    from detperf_plugins.errors import DetperfError
    from detperf_plugins.measure.child import give_up

    try:
        _run(arguments)
    except DetperfError as error:
        give_up(error)


def _run(arguments: list[str]) -> None:
    # Paddle exports zlib symbols of its own: Python's zlib must be bound before paddle is loaded.
    import zlib

    zlib.decompress(zlib.compress(b"before paddle"))
    mode = "1"
    while arguments and arguments[0] in {"--replace", "--phases-json"}:
        if arguments[0] == "--replace":
            mode, arguments = "replace", arguments[1:]
        elif len(arguments) > 1:
            os.environ["DETPERF_PHASES_JSON"], arguments = os.path.abspath(arguments[1]), arguments[2:]
        else:
            raise SystemExit(USAGE)
    if not arguments or arguments[0] in {"-h", "--help"}:
        print(USAGE)
        raise SystemExit(0 if arguments else 2)
    os.environ["DETPERF_PLUGINS"] = mode
    from detperf_plugins import startup

    startup.activate_on_import()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            raise SystemExit(USAGE)
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = arguments[0]
    if not os.path.isfile(script):
        raise SystemExit(f"detperf_plugins: no such script: {script}")
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
