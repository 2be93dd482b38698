// A driver of CUDA whose one GPU is this processor: its memory is the host's, and its only kernel is raster.cu as a
// host compiler reads it. What the package's Python does is then the same as on a GPU: addresses, argument layout,
// launches, errors. FAKE_GPU sets it up: "CAPABILITY DRIVER_VERSION", such as "90 12040"; "none" is a driver without GPU.
#include "cuda_on_host.h"

#include <algorithm>
#include <cstring>
#include <string>

// The block's shared memory, with a margin on which nothing may be written.
unsigned long long column_words[(48 << 10) / 8 + 64];

#include "raster.cu"

namespace {

int capability = 90, version = 12040, devices = 1, launches = 0;
void* current = nullptr;
const unsigned long long kMark = 0x5ca1ab1e5ca1ab1e;

}  // namespace

extern "C" {

int cuInit(unsigned) {
  const char* wanted = std::getenv("FAKE_GPU");
  if (wanted && std::string(wanted) == "none") return 100;
  if (wanted) std::sscanf(wanted, "%d %d", &capability, &version);
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == 100 ? "no CUDA-capable device is detected"
                        : status == 209 ? "no kernel image is available for execution on the device"
                                        : status == 1 ? "invalid argument" : nullptr;
  return 0;
}
int cuDriverGetVersion(int* to) { return *to = version, 0; }
int cuDeviceGetCount(int* to) { return *to = devices, 0; }
int cuDeviceGet(int* to, int device) { return *to = device, device < devices ? 0 : 101; }
int cuDeviceGetName(char* to, int size, int) { return std::snprintf(to, size, "fake GPU"), 0; }
int cuDeviceGetAttribute(int* to, int which, int) { return *to = which == 75 ? capability / 10 : capability % 10, 0; }
int cuDevicePrimaryCtxRetain(void** to, int) { return *to = &devices, 0; }
int cuCtxGetCurrent(void** to) { return *to = current, 0; }
int cuCtxPushCurrent_v2(void* context) { return current = context, 0; }
int cuCtxPopCurrent_v2(void** to) { return *to = current, current = nullptr, 0; }
int cuCtxSynchronize() { return current ? 0 : 201; }
int cuModuleLoadData(void** to, const void* image) {
  *to = current;
  return std::memcmp(image, "\177ELF", 4) == 0 && current ? 0 : 209;
}
int cuModuleGetFunction(void** to, void*, const char* name) {
  *to = reinterpret_cast<void*>(&detperf_rasterize);
  return std::strcmp(name, "detperf_rasterize") ? 500 : 0;
}
int cuMemAlloc_v2(void** to, size_t size) { return *to = std::malloc(size), 0; }
int cuMemFree_v2(void* address) { return std::free(address), 0; }
int cuMemcpyHtoD_v2(void* to, const void* from, size_t size) { return std::memcpy(to, from, size), 0; }
int cuMemcpyDtoH_v2(void* to, const void* from, size_t size) { return std::memcpy(to, from, size), 0; }

int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                   unsigned shared, void*, void** given, void**) {
  if (!current || blocks == 0 || threads == 0 || threads > 1024 || shared > 48 << 10) return 1;
  if (function != reinterpret_cast<void*>(&detperf_rasterize)) return 1;
  const auto& images = *static_cast<detperf::Images*>(given[0]);
  const auto* boxes = *static_cast<const float**>(given[1]);
  const auto* index = *static_cast<const int64_t**>(given[2]);
  const int32_t height = *static_cast<int32_t*>(given[3]), width = *static_cast<int32_t*>(given[4]);
  auto* masks = *static_cast<int32_t**>(given[5]);
  auto* usable = *static_cast<float**>(given[6]);
  host_gpu::kernel = [&] { detperf_rasterize(images, boxes, index, height, width, masks, usable); };
  for (unsigned block = 0; block < blocks; ++block) {
    std::fill(column_words, column_words + sizeof(column_words) / 8, kMark);  // shared memory starts as it likes
    blockIdx = {block, 0, 0};
    host_gpu::run_block(threads);
    for (size_t i = shared / 8; i < sizeof(column_words) / 8; ++i)
      if (column_words[i] != kMark) std::abort();
  }
  ++launches;
  return 0;
}

int fake_launches() { return launches; }
}
