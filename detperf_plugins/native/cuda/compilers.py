"""Compilers of CUDA code: nvcc, wherever it is installed, and NVRTC, which Paddle's GPU wheels bring along.

Both are told to fuse no multiplication with an addition: the raster must round as pycocotools does.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from detperf_plugins.errors import DetperfError

__all__ = ["INCLUDE", "SOURCE", "Nvcc", "Nvrtc", "find_nvcc", "find_nvrtc"]

SOURCE = Path(__file__).with_name("raster.cu")
INCLUDE = Path(__file__).parents[1] / "include"
TIMEOUT = 300  # seconds; it takes two


def _wheels(*places: str) -> Iterator[Path]:
    """Files that NVIDIA's wheels installed, by patterns below their common package."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for place in places:
            yield from sorted(Path(folder).glob(place), reverse=True)


@dataclass(frozen=True)
class Nvcc:
    """CUDA's own compiler; it needs a host C++ compiler beside it.

    Attributes:
        path: the program.
        version: for example "13.0.88".
    """

    path: Path
    version: str
    name = "nvcc"

    def compile(self, arch: str, kind: str = "cubin") -> bytes:
        """raster.cu for one architecture, such as sm_90; `kind` is cubin (code) or ptx (its assembly).

        Raises:
            DetperfError: nvcc refuses or cannot run; with its own first words.
        """
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "raster"
            command = [
                str(self.path), f"-{kind}", f"-arch={arch}", "--fmad=false", "-std=c++17", f"-I{INCLUDE}",
                *(f"-I{path}" for path in _wheels("cuda_nvcc/include", "cuda_runtime/include")),
                "-o", str(out), str(SOURCE),
            ]  # fmt: skip
            status, text = _run(command)
            if status or not out.is_file():
                raise DetperfError(f"nvcc {self.version} cannot compile for {arch}: {_fault(text, status)}")
            return out.read_bytes()


@dataclass(frozen=True)
class Nvrtc:
    """CUDA's compiler as a library: needs neither headers nor a host compiler.

    Attributes:
        path: the library.
        version: for example "12.4".
    """

    path: str
    version: str
    name = "NVRTC"

    def compile(self, arch: str, kind: str = "cubin") -> bytes:
        """As `Nvcc.compile`.

        Raises:
            DetperfError: it cannot compile for `arch`; with its first error.
        """
        library = ctypes.CDLL(self.path)
        program = ctypes.c_void_p()
        source = SOURCE.read_bytes()
        library.nvrtcCreateProgram(ctypes.byref(program), source, SOURCE.name.encode(), 0, None, None)
        try:
            words = [f"--gpu-architecture={arch}", "--fmad=false", "--std=c++17", f"--include-path={INCLUDE}"]
            options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
            status = library.nvrtcCompileProgram(program, len(words), options)
            if status:
                text = _nvrtc_bytes(library, program, "ProgramLog").decode(errors="replace").strip("\0")
                raise DetperfError(f"NVRTC {self.version} cannot compile for {arch}: {_fault(text, status)}")
            return _nvrtc_bytes(library, program, {"cubin": "CUBIN", "ptx": "PTX"}[kind])
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))


def _nvrtc_bytes(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw[: size.value]


def find_nvcc(path: Path | None = None) -> Nvcc:
    """nvcc at `path`, or below CUDA_HOME or CUDA_PATH, on the PATH, or from NVIDIA's wheel.

    Raises:
        DetperfError: there is none, or what is there is no nvcc.
    """
    if path is not None:
        return _asked(path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(variable)
        if home and (Path(home) / "bin" / "nvcc").is_file():
            return _asked(Path(home) / "bin" / "nvcc")
    found = shutil.which("nvcc") or next(
        (str(one) for one in _wheels("cuda_nvcc/bin/nvcc", "cu*/bin/nvcc") if os.access(one, os.X_OK)), None
    )
    if found is None:
        raise DetperfError("nvcc is neither on the PATH, nor below CUDA_HOME, nor installed by pip")
    return _asked(Path(found))


def _asked(path: Path) -> Nvcc:
    status, text = _run([str(path), "--version"])
    version = re.search(r"release [\d.]+, V([\d.]+)", text)
    if status or version is None:
        raise DetperfError(f"{path} is no working nvcc: {_fault(text, status)}")
    return Nvcc(path, version[1])


def find_nvrtc() -> Nvrtc:
    """The newest NVRTC of NVIDIA's wheels, else one that the system's loader finds.

    Raises:
        DetperfError: there is none.
    """
    wheels = _wheels("cuda_nvrtc/lib/libnvrtc.so.*", "cu*/lib/libnvrtc.so.*")
    names = [*(str(file) for file in wheels), *(f"libnvrtc.so.{one}" for one in ("13", "12", "11.2"))]
    for name in names:
        try:
            library = ctypes.CDLL(name)
            major, minor = ctypes.c_int(), ctypes.c_int()
            if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
                return Nvrtc(name, f"{major.value}.{minor.value}")
        except (OSError, AttributeError):
            continue
    raise DetperfError("NVRTC (libnvrtc) is neither installed by pip nor on the system")


def _run(command: list[str]) -> tuple[int, str]:
    """Exit status and all output; a program that cannot be started or hangs is a status of its own."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=TIMEOUT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout
    except OSError as error:
        return -1, error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {TIMEOUT} s"


def _fault(text: str, status: int) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"error|fatal", line, re.IGNORECASE)]
    return (named or lines or [f"exit status {status}"])[0]
