// The polygon raster on a GPU: the same arithmetic as on the host (detperf/raster.h), one block a box.
//
// A block keeps one bit a cell in shared memory, in 64-bit words column by column. Its threads share out the edges
// of a part and toggle bits with atomicXor; then each column's toggles become inside-bits, which are OR-ed over the
// parts. However many vertices an instance has, a block needs the same memory.
//
// Needs no Paddle header: the driver API loads it, and takes device addresses and a stream (detperf_plugins.native.cuda).
#define DETPERF_DEVICE
#include "detperf/raster.h"

namespace detperf {

// The packed polygons of one image where the loader put them (see detperf_plugins.native.raster), each array on the
// device, and the first of the boxes that belong to the image.
struct ImagePolygons {
  const double* xy;
  const int64_t* parts;
  const int64_t* instances;
  int64_t instance_count;
  int64_t first_box;
};

constexpr int kImages = 64;  // a launch; what a kernel's arguments hold is at most 4 KB

// By value among the arguments, so that no copy to the device precedes a launch. 1 to kImages images, by first_box.
struct Images {
  ImagePolygons image[kImages];
  int32_t count;
};

}  // namespace detperf

// One block a box; any number of threads. `boxes` [N, 4], `index` [N] (instance within its image; one that the
// image does not have gives an empty mask), `masks` [N, height, width], `usable` [N]: 1 where the instance has a part.
// A box of an image without instances gets ppdet's filler, a mask of ones.
// Shared memory: 2 * width * ceil(height / 64) words.
extern "C" __global__ void detperf_rasterize(const detperf::Images images, const float* boxes, const int64_t* index,
                                             int32_t height, int32_t width, int32_t* masks, float* usable) {
  using namespace detperf;
  extern __shared__ unsigned long long column_words[];
  const int64_t box = blockIdx.x;
  const int thread = threadIdx.x, threads = blockDim.x;
  int at = images.count - 1;
  while (at > 0 && box < images.image[at].first_box) --at;
  const int64_t instance_count = images.image[at].instance_count;
  const int64_t instance = index[box];
  const bool known = instance >= 0 && instance < instance_count;
  const int64_t first_part = known ? images.image[at].instances[instance] : 0;
  const int64_t last_part = known ? images.image[at].instances[instance + 1] : 0;
  const double* xy = images.image[at].xy;
  const int64_t* parts = images.image[at].parts;

  const int words = (height + 63) / 64;
  unsigned long long *toggles = column_words, *inside = column_words + width * words;
  for (int i = thread; i < width * words; i += threads) toggles[i] = inside[i] = 0;
  __syncthreads();

  const BoxToGrid map = box_to_grid(boxes + 4 * box, height, width);
  for (int64_t part = first_part; part < last_part; ++part) {
    const int64_t begin = parts[part], end = parts[part + 1];
    if (end - begin < 2) continue;  // the same for all threads, as __syncthreads needs it
    for (int64_t i = begin + thread; i < end; i += threads) {
      edge_crossings(to_sub_pixel(xy + 2 * (i == begin ? end - 1 : i - 1), map), to_sub_pixel(xy + 2 * i, map), height,
                     width, [&](int column, int row) {
                       if (row < height) atomicXor(&toggles[column * words + (row >> 6)], 1ull << (row & 63));
                     });
    }
    __syncthreads();
    for (int column = thread; column < width; column += threads) {
      unsigned long long carry = 0;  // all ones while the word above ends inside
      for (int word = column * words; word < (column + 1) * words; ++word) {
        const unsigned long long filled = prefix_parity(toggles[word]) ^ carry;
        toggles[word] = 0;
        inside[word] |= filled;
        carry = (filled >> 63) ? ~0ull : 0;
      }
    }
    __syncthreads();
  }

  int32_t* mask = masks + box * height * width;
  for (int cell = thread; cell < height * width; cell += threads) {
    const int y = cell / width, x = cell - y * width;
    const int bit = static_cast<int>((inside[x * words + (y >> 6)] >> (y & 63)) & 1);
    mask[cell] = instance_count == 0 ? 1 : bit;
  }
  if (thread == 0) usable[box] = last_part > first_part ? 1.0f : 0.0f;
}
