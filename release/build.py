"""Builds what a release uploads, and checks it: `make wheels`.

For each CPython 3.9 to 3.11 that is found (or named on the command line) one manylinux2014 wheel, compiled
by zig's clang against glibc 2.17, so that no container is needed; then the sdist, which must build again
with the system's compiler. auditwheel gives the wheel its platform tag or refuses; twine reads the metadata;
each file is installed into an empty environment, where the command must work and the kernels must pass their
tests, since another compiler and another standard library made them than in a clone. With pyenv,
PYENV_VERSION=3.9.18:3.10.13:3.11.7 makes three found.

Usage: python release/build.py [PYTHON ...]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "dist"
PLATFORM = "manylinux2014_x86_64"
TARGET = "x86_64-linux-gnu.2.17"
PYTHONS = ("python3.9", "python3.10", "python3.11")
# What the kernels are compared with in their tests.
REFERENCES = ("pytest", "hypothesis", "pycocotools", "opencv-python-headless", "shapely")


def run(*command: object, env: dict[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Run a command; its output is shown where it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}")


def works(python: str) -> bool:
    """Whether this interpreter starts: a version manager may hold the name without one behind it."""
    return (
        bool(shutil.which(python))
        and subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0
    )


def compilers(folder: Path) -> dict[str, str]:
    """CC and CXX: scripts in `folder` that call zig's clang for TARGET."""
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    found = {}
    for variable, language in (("CC", "cc"), ("CXX", "c++")):
        script = folder / f"zig-{language}"
        script.write_text(f'#!/bin/sh\nexec "{zig}" {language} -target {TARGET} "$@"\n')
        script.chmod(0o755)
        found[variable] = str(script)
    return found


def environment(python: str, folder: Path) -> Path:
    """An empty virtual environment; its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def check(package: Path, python: str, folder: Path) -> None:
    """Install `package` into an empty environment and use it."""
    inside = environment(python, folder / "check")
    run(inside, "-m", "pip", "install", "--quiet", package)
    run(inside.parent / "detperf", "configs", "exact_targets", cwd=folder)
    run(inside.parent / "detperf", "env", cwd=folder)
    run(inside, "-m", "pip", "install", "--quiet", *REFERENCES, "-c", ROOT / "constraints" / "paddle-2.6.txt")
    # Copied, so that the package of the clone is not found beside them.
    tests = folder / "check" / "repository" / "tests"
    shutil.copytree(ROOT / "tests", tests, ignore=shutil.ignore_patterns("__pycache__"))
    run(inside, "-m", "pytest", "-q", "tests/native", cwd=tests.parent)
    shutil.rmtree(folder / "check")


def wheel(python: str, folder: Path) -> Path:
    """One manylinux wheel in OUT."""
    inside = environment(python, folder / "build")
    raw = folder / "raw"
    run(
        inside, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", raw,
        "--config-settings", f"build-dir={folder / 'objects'}", ROOT, env=compilers(folder),
    )  # fmt: skip
    (made,) = raw.glob("*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, "-w", folder / "repaired", made)
    (repaired,) = (folder / "repaired").glob("*.whl")
    return Path(shutil.copy(repaired, OUT))


def sdist(folder: Path) -> Path:
    """The sdist in OUT."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    (made,) = folder.glob("*.tar.gz")
    return Path(shutil.copy(made, OUT))


def main(pythons: list[str]) -> None:
    """Build and check all; the first failure ends it."""
    named = pythons or [name for name in PYTHONS if works(name)]
    if not named:
        sys.exit(f"none of {', '.join(PYTHONS)} was found: name one")
    OUT.mkdir(exist_ok=True)
    packages = []
    for python in named:
        with tempfile.TemporaryDirectory() as name:
            packages.append(wheel(python, Path(name)))
            check(packages[-1], python, Path(name))
            print(f"{packages[-1].name}: built, installed, tested", flush=True)
    with tempfile.TemporaryDirectory() as name:
        packages.append(sdist(Path(name)))
        check(packages[-1], named[-1], Path(name))
        print(f"{packages[-1].name}: built, installed, tested", flush=True)
    run(sys.executable, "-m", "twine", "check", "--strict", *packages)
    missing = [name for name in PYTHONS if name not in named]
    if missing and not pythons:
        print(f"not built, since not found: {', '.join(missing)}")


if __name__ == "__main__":
    main(sys.argv[1:])
