// Parts of pictures that OpenCV would make whole: its fixed-point arithmetic, at the pixels asked for only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "detperf/simd.h"

namespace detperf {

// Where an output row or column of a bilinear resize reads: sample `at` with weight `first`, the next one with
// `second`; the weights are in 1/2048.
struct Tap {
  int32_t at;
  int16_t first, second;
};

// Output position `to` of `from_size` samples scaled by 1 / `step`. Columns are held inside the picture here,
// rows where they are read (as OpenCV does: it changes the weights at the edge).
inline Tap resize_tap(int64_t to, double step, int64_t from_size, bool column) {
  float place = static_cast<float>((static_cast<double>(to) + 0.5) * step - 0.5);
  int32_t at = static_cast<int32_t>(std::floor(place));
  place -= static_cast<float>(at);
  if (column && at < 0) at = 0, place = 0;
  if (column && at >= from_size - 1) at = static_cast<int32_t>(from_size - 1), place = 0;
  return {at, static_cast<int16_t>(std::nearbyint((1.0f - place) * 2048.0f)),
          static_cast<int16_t>(std::nearbyint(place * 2048.0f))};
}

// A source row mixed at the columns of `taps`; `row` begins at source column `left` and holds `width` pixels.
inline void mix_columns(const uint8_t* row, int64_t left, int64_t width, const Tap* taps, int64_t count, int32_t* out) {
  for (int64_t x = 0; x < count; ++x) {
    const int64_t at = taps[x].at - left, next = std::min(at + 1, width - 1);
    const uint8_t *a = row + 3 * at, *b = row + 3 * next;
    const int32_t first = taps[x].first, second = taps[x].second;
    out[3 * x] = a[0] * first + b[0] * second;
    out[3 * x + 1] = a[1] * first + b[1] * second;
    out[3 * x + 2] = a[2] * first + b[2] * second;
  }
}

DETPERF_CLONES inline void mix_rows(const int32_t* upper, const int32_t* lower, int32_t first, int32_t second,
                                    int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t value = (((first * (upper[i] >> 4)) >> 16) + ((second * (lower[i] >> 4)) >> 16) + 2) >> 2;
    out[i] = static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

}  // namespace detperf
