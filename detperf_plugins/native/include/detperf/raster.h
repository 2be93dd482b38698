// COCO's polygon rasteriser (rleFrPoly of pycocotools) on a height x width grid, in closed form.
//
// pycocotools walks every polygon edge in steps of a fifth of a pixel, stores all points, and keeps those
// where the walk passes from sub-column 5n+2 to 5n+3: there, pixel column n changes between outside and
// inside. Here each (edge, column) pair is solved directly, with the same roundings, so nothing is stored
// and the cost is O(vertices + crossings) whatever the polygon's length.
//
// The same source serves the host and CUDA: a device compiler defines DETPERF_DEVICE and the intrinsics
// that forbid contraction; a host compiler is told -ffp-contract=off.
#pragma once

#ifdef __CUDACC_RTC__  // NVRTC has no standard headers, and brings floor and ceil itself
using int64_t = long long;
using uint64_t = unsigned long long;
using int32_t = int;
#else
#include <cmath>
#include <cstdint>
#endif

#ifdef DETPERF_DEVICE
#define DETPERF_HD __device__ __forceinline__
#define DETPERF_MUL(a, b) __dmul_rn((a), (b))
#define DETPERF_ADD(a, b) __dadd_rn((a), (b))
#define DETPERF_SUB(a, b) __dsub_rn((a), (b))
#define DETPERF_DIV(a, b) __ddiv_rn((a), (b))
#define DETPERF_SUBF(a, b) __fsub_rn((a), (b))
#else
#define DETPERF_HD inline
#define DETPERF_MUL(a, b) ((a) * (b))
#define DETPERF_ADD(a, b) ((a) + (b))
#define DETPERF_SUB(a, b) ((a) - (b))
#define DETPERF_DIV(a, b) ((a) / (b))
#define DETPERF_SUBF(a, b) ((a) - (b))
#endif

namespace detperf {

constexpr double kSubPixels = 5.0;  // pycocotools' `scale`

// C's (int) of a double, with the far range and NaN pinned instead of undefined.
DETPERF_HD int64_t truncate(double value) {
  constexpr double kFar = 4503599627370496.0;  // 2^52: beyond it doubles have no fraction
  if (!(value > -kFar)) return value == value ? -static_cast<int64_t>(kFar) : 0;
  if (value > kFar) return static_cast<int64_t>(kFar);
  return static_cast<int64_t>(value);
}

// Where a box lies and how it is scaled onto the grid, as ppdet's rasterize_polygons_within_box does it:
// sizes subtracted in float32, ratios in float64, sizes under 0.1 raised to 0.1.
struct BoxToGrid {
  double x0, y0, ratio_x, ratio_y;
};

DETPERF_HD BoxToGrid box_to_grid(const float* box, int height, int width) {
  const double w = DETPERF_SUBF(box[2], box[0]);
  const double h = DETPERF_SUBF(box[3], box[1]);
  return {static_cast<double>(box[0]), static_cast<double>(box[1]),
          DETPERF_DIV(static_cast<double>(width), 0.1 > w ? 0.1 : w),
          DETPERF_DIV(static_cast<double>(height), 0.1 > h ? 0.1 : h)};
}

struct SubPixel {
  int64_t x, y;
};

// A polygon vertex on the sub-pixel lattice.
DETPERF_HD SubPixel to_sub_pixel(const double* vertex, const BoxToGrid& map) {
  const double x = DETPERF_MUL(DETPERF_SUB(vertex[0], map.x0), map.ratio_x);
  const double y = DETPERF_MUL(DETPERF_SUB(vertex[1], map.y0), map.ratio_y);
  return {truncate(DETPERF_ADD(DETPERF_MUL(kSubPixels, x), 0.5)),
          truncate(DETPERF_ADD(DETPERF_MUL(kSubPixels, y), 0.5))};
}

// First pixel row at or below sub-pixel row `v`, within 0..height.
DETPERF_HD int first_row(int64_t v, int height) {
  double row = DETPERF_SUB(DETPERF_DIV(DETPERF_ADD(static_cast<double>(v), 0.5), kSubPixels), 0.5);
  if (row < 0) row = 0;
  if (row > height) row = height;
  return static_cast<int>(ceil(row));
}

// Position of the walk at step t along an edge: trunc(start + slope * t + 0.5).
DETPERF_HD int64_t walk(int64_t start, double slope, int64_t t) {
  return truncate(
      DETPERF_ADD(DETPERF_ADD(static_cast<double>(start), DETPERF_MUL(slope, static_cast<double>(t))), 0.5));
}

DETPERF_HD int64_t floor_div5(int64_t a) { return a >= 0 ? a / 5 : -((4 - a) / 5); }

// Calls toggle(column, row) for each pixel column whose 5n+2 | 5n+3 line the edge a-b crosses: from `row`
// downwards that column changes between outside and inside. row == height means below the grid.
template <class Toggle>
DETPERF_HD void edge_crossings(SubPixel a, SubPixel b, int height, int width, Toggle toggle) {
  const int64_t dx = a.x < b.x ? b.x - a.x : a.x - b.x;
  const int64_t dy = a.y < b.y ? b.y - a.y : a.y - b.y;
  if (dx == 0) return;
  const bool shallow = dx >= dy;
  if ((shallow && a.x > b.x) || (!shallow && a.y > b.y)) {
    const SubPixel swap = a;
    a = b;
    b = swap;
  }
  const int64_t low = a.x < b.x ? a.x : b.x;
  const int64_t high = a.x < b.x ? b.x : a.x;
  int64_t first = floor_div5(low + 2);  // ceil((low - 2) / 5)
  int64_t last = floor_div5(high - 3);
  if (first < 0) first = 0;
  if (last > width - 1) last = width - 1;
  if (first > last) return;
  if (shallow) {
    const double slope = DETPERF_DIV(static_cast<double>(b.y - a.y), static_cast<double>(dx));
    for (int64_t n = first; n <= last; ++n) {
      const int64_t t = 5 * n + 2 - a.x;
      const int64_t v0 = walk(a.y, slope, t);
      const int64_t v1 = walk(a.y, slope, t + 1);
      toggle(static_cast<int>(n), first_row(v0 < v1 ? v0 : v1, height));
    }
    return;
  }
  const double slope = DETPERF_DIV(static_cast<double>(b.x - a.x), static_cast<double>(dy));
  for (int64_t n = first; n <= last; ++n) {
    // The first step whose sub-column lies on the far side of the line; the guess is off by a step or two.
    const int64_t far_side = 5 * n + 3;
    int64_t t = truncate(floor((static_cast<double>(far_side) - 0.5 - static_cast<double>(a.x)) / slope));
    if (t < 0) t = 0;
    if (t > dy) t = dy;
    if (slope > 0) {
      while (t > 0 && walk(a.x, slope, t - 1) >= far_side) --t;
      while (t < dy && walk(a.x, slope, t) < far_side) ++t;
    } else {
      while (t > 0 && walk(a.x, slope, t - 1) < far_side) --t;
      while (t < dy && walk(a.x, slope, t) >= far_side) ++t;
    }
    toggle(static_cast<int>(n), first_row(a.y + t - 1, height));
  }
}

// Running parity of the bits of a word, lowest first: bit i becomes the xor of bits 0..i.
DETPERF_HD uint64_t prefix_parity(uint64_t word) {
  word ^= word << 1;
  word ^= word << 2;
  word ^= word << 4;
  word ^= word << 8;
  word ^= word << 16;
  word ^= word << 32;
  return word;
}

}  // namespace detperf
