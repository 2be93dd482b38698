"""The compiled raster in the user's cache: one file a source, compiler and GPU architecture."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from detperf_plugins.errors import DetperfError, UnreadableInput
from detperf_plugins.native.cuda.compilers import INCLUDE, SOURCE, Nvcc, Nvrtc, find_nvcc, find_nvrtc
from detperf_plugins.native.cuda.driver import CudaError, driver

__all__ = ["Built", "build", "built", "cache_folder", "check_arch", "compilers", "visible_archs"]

Compiler = Union[Nvcc, Nvrtc]
NAME = re.compile(r"raster-(?P<source>[0-9a-f]+)-(?P<compiler>.+)-sm_(?P<arch>\d+)(?P<suffix>[a-z]?)\.cubin")


@dataclass(frozen=True)
class Built:
    """One compiled raster.

    Attributes:
        file: where it is.
        compiler: which made it, such as "nvcc-13.0.88".
        arch: for which architecture, such as "sm_90".
        seconds: that the compiler took; None where the file was there already.
    """

    file: Path
    compiler: str
    arch: str
    seconds: float | None = None


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/detperf-plugins/cuda, or the same below ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "detperf-plugins" / "cuda"


def source_hash() -> str:
    """What the compiled code depends on: raster.cu and the header it shares with the host kernel."""
    digest = hashlib.sha256()
    for file in (SOURCE, INCLUDE / "detperf" / "raster.h"):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def check_arch(arch: str) -> str:
    """`arch` itself.

    Raises:
        UnreadableInput: it is no name of an architecture.
    """
    if not re.fullmatch(r"sm_\d{2,3}[a-z]?", arch):
        raise UnreadableInput(f"--arch {arch} is no GPU architecture: write it as sm_70, sm_80, sm_90")
    return arch


def visible_archs() -> list[str]:
    """Architectures of the GPUs here, each once.

    Raises:
        CudaError: there is none; the message says why.
    """
    found = driver()
    return list(dict.fromkeys("sm_{}{}".format(*found.capability(device)) for device in range(found.count())))


def compilers(nvcc: Path | None = None) -> tuple[list[Compiler], list[str]]:
    """What can compile here, nvcc first, and why the rest cannot.

    Where a driver is here, a compiler of a newer major CUDA version than the driver takes is left out.

    Args:
        nvcc: use this program and nothing else.
    """
    usable: list[Compiler] = []
    reasons: list[str] = []
    try:
        newest = driver().version()
    except CudaError:
        newest = None
    for kind in ("nvcc",) if nvcc else ("nvcc", "NVRTC"):
        try:
            compiler: Compiler = find_nvcc(nvcc) if kind == "nvcc" else find_nvrtc()
        except DetperfError as error:
            reasons.append(str(error))
            continue
        if newest and int(compiler.version.split(".")[0]) > newest[0]:
            reasons.append(
                f"{compiler.name} {compiler.version} is newer than CUDA {newest[0]}.{newest[1]}, the newest "
                "that the driver here takes"
            )
        else:
            usable.append(compiler)
    return usable, reasons


def build(archs: Sequence[str], nvcc: Path | None = None, force: bool = False) -> list[Built]:
    """Compile the raster for each architecture, unless the cache has it.

    Args:
        archs: such as "sm_90".
        nvcc: use this program; else nvcc where it is found, or NVRTC.
        force: compile also what the cache has.

    Raises:
        DetperfError: no compiler is here, none takes an architecture, or the cache cannot be written.
    """
    usable, reasons = compilers(nvcc)
    if not usable:
        raise DetperfError(
            f"nothing here compiles CUDA code: {'; '.join(reasons)}. Install the CUDA toolkit, or by pip the "
            "nvidia-cuda-nvrtc wheel of your CUDA version"
        )
    return [_build_one(check_arch(arch), usable, reasons, force) for arch in archs]


def _build_one(arch: str, usable: Sequence[Compiler], reasons: Sequence[str], force: bool) -> Built:
    failed = list(reasons)
    for compiler in usable:
        key = f"{compiler.name.lower()}-{compiler.version}"
        file = cache_folder() / f"raster-{source_hash()}-{key}-{arch}.cubin"
        if file.is_file() and not force:
            return Built(file, key, arch)
        begin = time.perf_counter()
        try:
            code = compiler.compile(arch)
        except DetperfError as error:
            failed.append(str(error))
            continue
        _write(file, code)
        return Built(file, key, arch, time.perf_counter() - begin)
    raise DetperfError("; ".join(failed))


def _write(file: Path, code: bytes) -> None:
    partial = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(code)
        partial.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise DetperfError(f"cannot write {file}: {error.strerror or error}") from error


def built(capability: tuple[int, int]) -> Built:
    """The compiled raster that runs on a GPU of this compute capability: the nearest and newest.

    Code for sm_XY runs on GPUs of the same X and no smaller Y.

    Raises:
        DetperfError: the cache has none; the message says what it has instead.
    """
    arch = "sm_{}{}".format(*capability)
    source = source_hash()
    fitting: list[tuple[int, float, Built]] = []
    others = set()
    for file in cache_folder().glob("raster-*.cubin"):
        name = NAME.fullmatch(file.name)
        if name is None or name["source"] != source:
            continue
        major, minor = divmod(int(name["arch"]), 10)
        exact = (major, minor) == capability
        if major == capability[0] and minor <= capability[1] and (exact or not name["suffix"]):
            one = Built(file, name["compiler"], f"sm_{name['arch']}{name['suffix']}")
            fitting.append((minor, file.stat().st_mtime, one))
        others.add(f"sm_{name['arch']}{name['suffix']}")
    if fitting:
        return max(fitting, key=lambda one: one[:2])[2]
    if others:
        raise DetperfError(
            f"the CUDA raster was built for {', '.join(sorted(others))}, and this GPU is {arch}: "
            "run `detperf build-cuda` on it"
        )
    raise DetperfError("the CUDA raster is not built: run `detperf build-cuda`")
