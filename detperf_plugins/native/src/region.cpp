// Host side of the region kernels: a window of a bilinear resize, the sampling maps of an affine warp's window,
// and the normalisation of a picture into planes.
#include "detperf/region.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <vector>

namespace nb = nanobind;

namespace detperf {
namespace {

template <class T, class Shape>
using In = nb::ndarray<const T, Shape, nb::c_contig, nb::device::cpu>;
template <class T, class Shape>
using Out = nb::ndarray<T, Shape, nb::c_contig, nb::device::cpu>;
template <class T, class Shape>
using Rows = nb::ndarray<const T, Shape, nb::device::cpu>;  // rows may lie apart, pixels may not

void resize_region(Rows<uint8_t, nb::shape<-1, -1, 3>> source, int64_t source_top, int64_t source_left,
                   int64_t full_height, int64_t full_width, double step_y, double step_x, int64_t top, int64_t left,
                   Out<uint8_t, nb::shape<-1, -1, 3>> out) {
  const int64_t height = static_cast<int64_t>(out.shape(0)), width = static_cast<int64_t>(out.shape(1));
  const int64_t from_width = static_cast<int64_t>(source.shape(1)), stride = source.stride(0);
  const uint8_t* pixels = source.data();
  uint8_t* target = out.data();
  nb::gil_scoped_release unlocked;
  std::vector<Tap> columns;
  for (int64_t x = 0; x < width; ++x) columns.push_back(resize_tap(left + x, step_x, full_width, true));
  std::vector<int32_t> buffers[2] = {std::vector<int32_t>(3 * width), std::vector<int32_t>(3 * width)};
  int64_t held[2] = {-1, -1};  // which source row each buffer holds
  const auto mixed = [&](int64_t row, int64_t keep) -> int {
    for (int slot = 0; slot < 2; ++slot)
      if (held[slot] == row) return slot;
    const int slot = held[0] == keep ? 1 : 0;
    mix_columns(pixels + (row - source_top) * stride, source_left, from_width, columns.data(), width,
                buffers[slot].data());
    held[slot] = row;
    return slot;
  };
  for (int64_t y = 0; y < height; ++y) {
    const Tap tap = resize_tap(top + y, step_y, full_height, false);
    const int64_t upper = std::clamp<int64_t>(tap.at, 0, full_height - 1);
    const int64_t lower = std::clamp<int64_t>(tap.at + 1, 0, full_height - 1);
    const int first = mixed(upper, lower), second = mixed(lower, upper);
    mix_rows(buffers[first].data(), buffers[second].data(), tap.first, tap.second, 3 * width, target + 3 * width * y);
  }
}

// The maps that OpenCV's warpAffine makes for itself (positions in 1/32 pixel), for a window of its output.
// `inverse` is the 2 x 3 matrix from output to source.
void affine_maps(In<double, nb::shape<2, 3>> inverse, int64_t top, int64_t left, int64_t shift_y, int64_t shift_x,
                 Out<int16_t, nb::shape<-1, -1, 2>> places, Out<uint16_t, nb::ndim<2>> fractions) {
  const int64_t height = static_cast<int64_t>(fractions.shape(0)), width = static_cast<int64_t>(fractions.shape(1));
  const double* m = inverse.data();
  int16_t* place = places.data();
  uint16_t* fraction = fractions.data();
  nb::gil_scoped_release unlocked;
  std::vector<int32_t> along_x(width), along_y(width);
  for (int64_t x = 0; x < width; ++x) {
    along_x[x] = static_cast<int32_t>(std::nearbyint(m[0] * static_cast<double>(left + x) * 1024));
    along_y[x] = static_cast<int32_t>(std::nearbyint(m[3] * static_cast<double>(left + x) * 1024));
  }
  for (int64_t y = 0; y < height; ++y) {
    const double row = static_cast<double>(top + y);
    const int32_t x0 = static_cast<int32_t>(std::nearbyint((m[1] * row + m[2]) * 1024)) + 16;
    const int32_t y0 = static_cast<int32_t>(std::nearbyint((m[4] * row + m[5]) * 1024)) + 16;
    for (int64_t x = 0; x < width; ++x) {
      const int32_t sx = (x0 + along_x[x]) >> 5, sy = (y0 + along_y[x]) >> 5;
      *place++ = static_cast<int16_t>(std::clamp<int64_t>((sx >> 5) - shift_x, INT16_MIN, INT16_MAX));
      *place++ = static_cast<int16_t>(std::clamp<int64_t>((sy >> 5) - shift_y, INT16_MIN, INT16_MAX));
      *fraction++ = static_cast<uint16_t>((sy & 31) * 32 + (sx & 31));
    }
  }
}

void normalize_planes(In<uint8_t, nb::shape<-1, -1, 3>> image, In<float, nb::shape<3, 256>> table,
                      Out<float, nb::shape<3, -1, -1>> out) {
  const size_t count = image.shape(0) * image.shape(1);
  const uint8_t* pixel = image.data();
  const float* t = table.data();
  float *a = out.data(), *b = a + count, *c = b + count;
  nb::gil_scoped_release unlocked;
  for (size_t i = 0; i < count; ++i, pixel += 3) {
    a[i] = t[pixel[0]];
    b[i] = t[256 + pixel[1]];
    c[i] = t[512 + pixel[2]];
  }
}

}  // namespace

void register_region(nb::module_& m) {
  m.def("resize_region", &resize_region);
  m.def("affine_maps", &affine_maps);
  m.def("normalize_planes", &normalize_planes);
}

}  // namespace detperf
