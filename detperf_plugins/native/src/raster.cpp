// Host side of the polygon raster: many (instance, box) pairs in one call, shared out to threads.
#include "detperf/raster.h"

#include <cstring>
#include <vector>

#include "arrays.h"
#include "detperf/parallel.h"

namespace detperf {
namespace {

// Inside-bits of one instance, column by column: bit y of column x is pixel (y, x). `scratch` and `inside`
// hold width * words words each.
void raster_instance(const double* xy, const int64_t* parts, int64_t first_part, int64_t last_part,
                     const BoxToGrid& map, int height, int width, int words, uint64_t* scratch,
                     uint64_t* inside) {
  const size_t bytes = sizeof(uint64_t) * static_cast<size_t>(width) * words;
  std::memset(inside, 0, bytes);
  for (int64_t part = first_part; part < last_part; ++part) {
    const int64_t begin = parts[part], end = parts[part + 1];
    if (end - begin < 2) continue;
    std::memset(scratch, 0, bytes);
    SubPixel previous = to_sub_pixel(xy + 2 * (end - 1), map);
    for (int64_t i = begin; i < end; ++i) {
      const SubPixel current = to_sub_pixel(xy + 2 * i, map);
      edge_crossings(previous, current, height, width, [&](int column, int row) {
        if (row < height) scratch[static_cast<size_t>(column) * words + (row >> 6)] ^= uint64_t{1} << (row & 63);
      });
      previous = current;
    }
    for (int column = 0; column < width; ++column) {
      uint64_t carry = 0;  // all ones while the word above ends inside
      for (int word = 0; word < words; ++word) {
        const size_t at = static_cast<size_t>(column) * words + word;
        const uint64_t filled = prefix_parity(scratch[at]) ^ carry;
        inside[at] |= filled;
        carry = (filled >> 63) ? ~uint64_t{0} : 0;
      }
    }
  }
}

template <class T>
void rasterize(In<double, nb::shape<-1, 2>> xy, In<int64_t, nb::ndim<1>> parts, In<int64_t, nb::ndim<1>> instances,
               In<float, nb::shape<-1, 4>> boxes, In<int64_t, nb::ndim<1>> index, Out<T, nb::ndim<3>> out,
               int threads) {
  const int64_t count = static_cast<int64_t>(boxes.shape(0));
  const int height = static_cast<int>(out.shape(1)), width = static_cast<int>(out.shape(2));
  const int words = (height + 63) / 64;
  const size_t cells = static_cast<size_t>(height) * width;
  const double* vertices = xy.data();
  const int64_t *part_offsets = parts.data(), *instance_offsets = instances.data(), *which = index.data();
  const float* box = boxes.data();
  T* target = out.data();
  nb::gil_scoped_release unlocked;
  parallel_for(count, 16, threads, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> buffer(2 * static_cast<size_t>(width) * words);
    uint64_t *scratch = buffer.data(), *inside = scratch + static_cast<size_t>(width) * words;
    for (int64_t i = begin; i < end; ++i) {
      T* mask = target + i * cells;
      if (which[i] < 0) {
        std::memset(mask, 0, cells * sizeof(T));
        continue;
      }
      raster_instance(vertices, part_offsets, instance_offsets[which[i]], instance_offsets[which[i] + 1],
                      box_to_grid(box + 4 * i, height, width), height, width, words, scratch, inside);
      for (int y = 0; y < height; ++y) {
        const uint64_t* column = inside + (y >> 6);
        const int shift = y & 63;
        T* row = mask + static_cast<size_t>(y) * width;
        for (int x = 0; x < width; ++x) row[x] = static_cast<T>((column[static_cast<size_t>(x) * words] >> shift) & 1);
      }
    }
  });
}

}  // namespace

void register_raster(nb::module_& m) {
  m.def("rasterize_int32", &rasterize<int32_t>);
  m.def("rasterize_uint8", &rasterize<uint8_t>);
}

}  // namespace detperf
