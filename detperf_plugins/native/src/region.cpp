// Host side of the region kernels: rows and columns of a bilinear resize, a window of an affine
// warp, and the normalisation of a picture into planes.
#include "detperf/region.h"

#include <cstring>
#include <vector>

#include "arrays.h"

namespace detperf {
namespace {

template <class T, class Shape>
using Rows = nb::ndarray<const T, Shape, nb::device::cpu>;  // rows may lie apart, pixels may not

void resize_taps(In<int64_t, nb::ndim<1>> outputs, double step, int size, bool column, Out<int32_t, nb::shape<-1, 4>> out) {
  for (size_t i = 0; i < outputs.shape(0); ++i) {
    const Tap tap = resize_tap(outputs.data()[i], step, size, column);
    std::memcpy(out.data() + 4 * i, &tap, sizeof(tap));
  }
}

static_assert(sizeof(Tap) == 4 * sizeof(int32_t), "taps travel as int32 [n, 4]");

void mix_taps(Rows<uint8_t, nb::shape<-1, -1, 3>> source, In<int32_t, nb::shape<-1, 4>> rows,
              In<int32_t, nb::shape<-1, 4>> columns, Out<uint8_t, nb::shape<-1, -1, 3>> out) {
  const int64_t height = static_cast<int64_t>(out.shape(0)), width = static_cast<int64_t>(out.shape(1));
  const int64_t from_width = static_cast<int64_t>(source.shape(1)), stride = source.stride(0);
  const uint8_t* pixels = source.data();
  const Tap* row_taps = reinterpret_cast<const Tap*>(rows.data());
  const Tap* column_taps = reinterpret_cast<const Tap*>(columns.data());
  uint8_t* target = out.data();
  nb::gil_scoped_release unlocked;
  std::vector<int32_t> buffers[2] = {std::vector<int32_t>(3 * width), std::vector<int32_t>(3 * width)};
  int64_t held[2] = {-1, -1};  // which source row each buffer holds
  const auto mixed = [&](int64_t row, int64_t keep) -> const int32_t* {
    for (int slot = 0; slot < 2; ++slot)
      if (held[slot] == row) return buffers[slot].data();
    const int slot = held[0] == keep ? 1 : 0;
    mix_row(pixels + row * stride, from_width, column_taps, width, buffers[slot].data());
    held[slot] = row;
    return buffers[slot].data();
  };
  for (int64_t y = 0; y < height; ++y) {
    const Tap& tap = row_taps[y];
    const int32_t* upper = mixed(tap.at, tap.next);
    const int32_t* lower = mixed(tap.next, tap.at);
    dispatch<mix_rows>(upper, lower, tap.first, tap.second, 3 * width, target + 3 * width * y);
  }
}

// A window of OpenCV's warpAffine (bilinear, black outside). `inverse` is the 2 x 3 matrix from output to source.
void warp_region(Rows<uint8_t, nb::shape<-1, -1, 3>> source, In<double, nb::shape<2, 3>> inverse, int64_t top,
                 int64_t left, int source_top, int source_left, Out<uint8_t, nb::shape<-1, -1, 3>> out) {
  const int64_t height = static_cast<int64_t>(out.shape(0)), width = static_cast<int64_t>(out.shape(1));
  const Source from{source.data(), static_cast<int64_t>(source.shape(0)), static_cast<int64_t>(source.shape(1)),
                    source.stride(0)};
  const double* m = inverse.data();
  uint8_t* target = out.data();
  nb::gil_scoped_release unlocked;
  const auto fixed = [](double value) { return static_cast<int32_t>(std::nearbyint(value * 1024)); };
  std::vector<int32_t> along_x(width), along_y(width);
  for (int64_t x = 0; x < width; ++x) {
    along_x[x] = fixed(m[0] * static_cast<double>(left + x)) - (source_left << 10);
    along_y[x] = fixed(m[3] * static_cast<double>(left + x)) - (source_top << 10);
  }
#ifdef DETPERF_X86
  // Offsets are counted in 32 bits.
  static const bool fits = processor.ssse3;
  const bool ssse3 = fits && from.height * from.stride < INT32_MAX;
  std::vector<Place> places(width);
#endif
  for (int64_t y = 0; y < height; ++y) {
    const double row = static_cast<double>(top + y);
    const int32_t x0 = fixed(m[1] * row + m[2]) + 16, y0 = fixed(m[4] * row + m[5]) + 16;
    uint8_t* pixels = target + 3 * width * y;
    int64_t done = 0;
#ifdef DETPERF_X86
    if (ssse3) done = warp_row_ssse3(from, along_x.data(), along_y.data(), x0, y0, width, places.data(), pixels);
#endif
    warp_row(from, along_x.data(), along_y.data(), x0, y0, done, width, pixels);
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
  m.def("resize_taps", &resize_taps);
  m.def("mix_taps", &mix_taps);
  m.def("warp_region", &warp_region);
  m.def("normalize_planes", &normalize_planes);
}

}  // namespace detperf
