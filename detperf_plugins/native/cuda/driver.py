"""The few calls of the CUDA driver that loading and launching a kernel takes, through ctypes.

The driver comes with every NVIDIA display driver (libcuda.so.1), so nothing else has to be installed or
linked. Contexts, streams and memory are shared with Paddle, PyTorch and CuPy: all of them use the device's
primary context, and a cudaStream_t is a CUstream.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

from detperf_plugins.errors import DetperfError

__all__ = ["CudaError", "Driver", "driver"]

LIBRARY = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


class CudaError(DetperfError):
    """The CUDA driver is missing, or refused a call."""


class Driver:
    """An initialised driver.

    Args:
        library: the shared library to load.

    Raises:
        CudaError: there is no driver, or no GPU that it can use; the message says why.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise CudaError(f"there is no NVIDIA driver here ({error})") from error
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._check("cuInit", 0)

    def _check(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            words = text.value.decode() if text.value else "unknown error"
            raise CudaError(f"{function} failed with CUDA error {status} ({words})")

    def _number(self, function: str, *arguments: Any) -> int:
        value = ctypes.c_int()
        self._check(function, ctypes.byref(value), *arguments)
        return value.value

    def version(self) -> tuple[int, int]:
        """The newest CUDA version that the driver takes code of."""
        version = self._number("cuDriverGetVersion")
        return version // 1000, version % 1000 // 10

    def count(self) -> int:
        """GPUs that this process may use."""
        return self._number("cuDeviceGetCount")

    def name(self, device: int) -> str:
        """What a GPU is called."""
        text = ctypes.create_string_buffer(256)
        self._check("cuDeviceGetName", text, len(text), self._number("cuDeviceGet", device))
        return text.value.decode(errors="replace")

    def capability(self, device: int) -> tuple[int, int]:
        """Compute capability: (9, 0) for sm_90."""
        handle = self._number("cuDeviceGet", device)
        return (
            self._number("cuDeviceGetAttribute", _MAJOR, handle),
            self._number("cuDeviceGetAttribute", _MINOR, handle),
        )

    @contextlib.contextmanager
    def current(self, device: int) -> Iterator[None]:
        """The GPU's primary context is this thread's while the block runs; it stays for later blocks."""
        context = self._contexts.get(device)
        if context is None:
            context = ctypes.c_void_p()
            handle = self._number("cuDeviceGet", device)
            self._check("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
            self._contexts[device] = context
        before = ctypes.c_void_p()
        self._check("cuCtxGetCurrent", ctypes.byref(before))
        if before.value == context.value:
            yield
            return
        self._check("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self._check("cuCtxPopCurrent_v2", ctypes.byref(before))

    def load(self, image: bytes, name: str) -> ctypes.c_void_p:
        """The function `name` of compiled code, in the current context."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check("cuModuleLoadData", ctypes.byref(module), image)
        self._check("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(
        self,
        function: ctypes.c_void_p,
        blocks: int,
        threads: int,
        shared: int,
        stream: int,
        arguments: Sequence[Any],
    ) -> None:
        """Queue a kernel; returns before it has run.

        Args:
            function: from `load`.
            blocks, threads: of a one-dimensional grid, and of each block.
            shared: bytes of dynamic shared memory a block.
            stream: handle of a stream; 0 is the default one.
            arguments: ctypes values, as the kernel declares them.
        """
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.pointer(one), ctypes.c_void_p) for one in arguments)
        )
        self._check(
            "cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared, ctypes.c_void_p(stream),
            pointers, None,
        )  # fmt: skip

    def allocate(self, size: int) -> int:
        """Address of `size` bytes on the current device; give them back by `free`."""
        address = ctypes.c_void_p()
        self._check("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value or 0

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""
        self._check("cuMemFree_v2", ctypes.c_void_p(address))

    def to_device(self, address: int, source: int, size: int) -> None:
        """Copy `size` bytes from the host; done when it returns."""
        pointers = ctypes.c_void_p(address), ctypes.c_void_p(source)
        self._check("cuMemcpyHtoD_v2", *pointers, ctypes.c_size_t(size))

    def to_host(self, target: int, address: int, size: int) -> None:
        """Copy `size` bytes to the host, after all that is queued on the default stream."""
        pointers = ctypes.c_void_p(target), ctypes.c_void_p(address)
        self._check("cuMemcpyDtoH_v2", *pointers, ctypes.c_size_t(size))

    def synchronize(self) -> None:
        """Wait for all that is queued on the current device."""
        self._check("cuCtxSynchronize")


_driver: Driver | CudaError | None = None


def driver() -> Driver:
    """The driver of this process, initialised once.

    Raises:
        CudaError: see `Driver`; the same reason at every call.
    """
    global _driver
    if _driver is None:
        try:
            _driver = Driver(LIBRARY)
        except CudaError as error:
            _driver = error
    if isinstance(_driver, CudaError):
        raise _driver
    return _driver
