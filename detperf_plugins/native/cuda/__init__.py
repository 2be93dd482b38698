"""The polygon raster on a GPU, without Paddle: the header of the host kernel, compiled on demand.

`build` compiles raster.cu with nvcc or NVRTC into the user's cache (`detperf build-cuda`); `raster` loads
what is there through the CUDA driver and launches it on addresses and a stream of whatever framework owns
them.
"""
