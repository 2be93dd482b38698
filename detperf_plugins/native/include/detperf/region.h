// Parts of pictures that OpenCV would make whole: its fixed-point arithmetic, at the pixels asked for only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "detperf/simd.h"

#ifdef DETPERF_X86
#include <immintrin.h>
#endif

namespace detperf {

// Where an output row or column of a bilinear resize reads: samples `at` and `next` with the weights `first` and
// `second`, in 1/2048.
struct Tap {
  int32_t at, next, first, second;
};

// Output position `to` of a picture of `size` samples resized by 1 / `step`. At the edge OpenCV changes the
// weights of columns, but for rows repeats the sample.
inline Tap resize_tap(int64_t to, double step, int32_t size, bool column) {
  float place = static_cast<float>((static_cast<double>(to) + 0.5) * step - 0.5);
  int32_t at = static_cast<int32_t>(std::floor(place));
  place -= static_cast<float>(at);
  if (column && at < 0) at = 0, place = 0;
  if (column && at >= size - 1) at = size - 1, place = 0;
  return {std::clamp(at, 0, size - 1), std::clamp(at + 1, 0, size - 1),
          static_cast<int32_t>(std::nearbyint((1.0f - place) * 2048.0f)),
          static_cast<int32_t>(std::nearbyint(place * 2048.0f))};
}

// A row of RGB pixels mixed at the columns [begin, count) of `taps`; each `next` is at + 1, or has no weight.
inline void mix_columns(const uint8_t* row, const Tap* taps, int64_t begin, int64_t count, int32_t* out) {
  for (int64_t x = begin; x < count; ++x) {
    const uint8_t *a = row + 3 * static_cast<int64_t>(taps[x].at), *b = row + 3 * static_cast<int64_t>(taps[x].next);
    for (int c = 0; c < 3; ++c) out[3 * x + c] = a[c] * taps[x].first + b[c] * taps[x].second;
  }
}

#ifdef DETPERF_X86
// The same, from column 0 to where a read of 8 bytes would leave the row of `width` pixels (taps must not fall)
// or a write of 4 values would leave `out`; returns that column.
DETPERF_TARGET("ssse3") inline int64_t mix_columns_ssse3(const uint8_t* row, int64_t width, const Tap* taps,
                                                         int64_t count, int32_t* out) {
  const __m128i pairs = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  int64_t x = 0;
  for (; x + 1 < count && 3 * static_cast<int64_t>(taps[x].at) + 8 <= 3 * width; ++x) {
    const __m128i pixels = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + 3 * static_cast<int64_t>(taps[x].at)));
    const __m128i weights = _mm_set1_epi32(taps[x].first | taps[x].second << 16);
    const __m128i mixed = _mm_madd_epi16(_mm_shuffle_epi8(pixels, pairs), weights);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * x), mixed);
  }
  return x;
}
#endif

inline void mix_row(const uint8_t* row, int64_t width, const Tap* taps, int64_t count, int32_t* out) {
  int64_t done = 0;
#ifdef DETPERF_X86
  if (processor.ssse3) done = mix_columns_ssse3(row, width, taps, count, out);
#endif
  (void)width;
  mix_columns(row, taps, done, count, out);
}

DETPERF_LOOP void mix_rows(const int32_t* upper, const int32_t* lower, int32_t first, int32_t second,
                           int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t value = (((first * (upper[i] >> 4)) >> 16) + ((second * (lower[i] >> 4)) >> 16) + 2) >> 2;
    out[i] = static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

// A picture of RGB pixels sampled between its pixels; black around it.
struct Source {
  const uint8_t* pixels;
  int64_t height, width, stride;

  int32_t at(int64_t y, int64_t x, int channel) const {
    return y < 0 || y >= height || x < 0 || x >= width ? 0 : pixels[y * stride + 3 * x + channel];
  }
};

// The pixel at (x, y) in 1/32 pixel, as cv2.remap rounds it.
inline void sample_between(const Source& source, int32_t x, int32_t y, uint8_t* out) {
  const int32_t fx = x & 31, fy = y & 31;
  const int64_t left = x >> 5, top = y >> 5;
  for (int c = 0; c < 3; ++c) {
    const int32_t upper = (32 - fx) * source.at(top, left, c) + fx * source.at(top, left + 1, c);
    const int32_t lower = (32 - fx) * source.at(top + 1, left, c) + fx * source.at(top + 1, left + 1, c);
    out[c] = static_cast<uint8_t>(((32 - fy) * upper + fy * lower + 512) >> 10);
  }
}

// One row of an affine warp: pixel i is sampled at (x0 + along_x[i], y0 + along_y[i]), fixed point with 10 bits.
inline void warp_row(const Source& source, const int32_t* along_x, const int32_t* along_y, int32_t x0, int32_t y0,
                     int64_t begin, int64_t count, uint8_t* out) {
  for (int64_t i = begin; i < count; ++i)
    sample_between(source, (x0 + along_x[i]) >> 5, (y0 + along_y[i]) >> 5, out + 3 * i);
}

#ifdef DETPERF_X86
// Where one pixel of a warp reads: the byte offset of its upper left source pixel (below 0: not within reach of a
// read of 8 bytes), and its weights, packed for the instructions below.
struct Place {
  int32_t offset, across, down;
};

DETPERF_LOOP void warp_places(const Source& source, const int32_t* along_x, const int32_t* along_y,
                              int32_t x0, int32_t y0, int64_t count, Place* places) {
  const int32_t inside_x = static_cast<int32_t>(source.width - 2), inside_y = static_cast<int32_t>(source.height - 1);
  const int32_t stride = static_cast<int32_t>(source.stride);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t x = (x0 + along_x[i]) >> 5, y = (y0 + along_y[i]) >> 5;
    const int32_t left = x >> 5, top = y >> 5, fx = x & 31, fy = y & 31;
    const bool inside = (left >= 0) & (left < inside_x) & (top >= 0) & (top < inside_y);
    places[i].offset = inside ? top * stride + 3 * left : -1;
    places[i].across = ((32 - fx) | fx << 8) * 0x10001;
    places[i].down = (32 - fy) | fy << 16;
  }
}

// Pixels 0 to count - 1 of a row; writes 4 bytes a pixel, so the last one is left to warp_row.
DETPERF_TARGET("ssse3") inline int64_t warp_row_ssse3(const Source& source, const int32_t* along_x,
                                                      const int32_t* along_y, int32_t x0, int32_t y0,
                                                      int64_t count, Place* places, uint8_t* out) {
  dispatch<warp_places>(source, along_x, along_y, x0, y0, count, places);
  const __m128i pairs = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i half = _mm_set1_epi32(512);
  int64_t i = 0;
  for (; i + 1 < count; ++i) {
    if (places[i].offset < 0) {
      sample_between(source, (x0 + along_x[i]) >> 5, (y0 + along_y[i]) >> 5, out + 3 * i);
      continue;
    }
    const uint8_t* at = source.pixels + places[i].offset;
    const __m128i across = _mm_set1_epi32(places[i].across);
    const __m128i upper = _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)), pairs);
    const __m128i lower =
        _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + source.stride)), pairs);
    const __m128i both = _mm_unpacklo_epi16(_mm_maddubs_epi16(upper, across), _mm_maddubs_epi16(lower, across));
    const __m128i mixed = _mm_srli_epi32(_mm_add_epi32(_mm_madd_epi16(both, _mm_set1_epi32(places[i].down)), half), 10);
    const __m128i words = _mm_packs_epi32(mixed, mixed);
    const int32_t packed = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(out + 3 * i, &packed, 4);
  }
  return i;
}
#endif

}  // namespace detperf
