// Matching of anchors (or RoIs) to ground-truth boxes as ppdet's label_box does it: its float32 order of
// operations, its labels, and the match that paddle.topk(k=1) picks among ties. The overlap matrix is never
// stored: anchors are walked in tiles, and a box that misses a tile's bounds is skipped, its overlap being 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace detperf {

constexpr int64_t kTile = 256;

// Anchors as columns, with the bounds of each tile.
struct AnchorColumns {
  int64_t count, tiles;
  std::vector<float> x0, y0, x1, y1, area;
  std::vector<float> bounds;  // x0 y0 x1 y1 of a tile

  AnchorColumns(const float* anchors, int64_t n)
      : count(n), tiles((n + kTile - 1) / kTile), x0(n), y0(n), x1(n), y1(n), area(n), bounds(4 * tiles) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const float inf = std::numeric_limits<float>::infinity();
      float left = inf, top = inf, right = -inf, bottom = -inf;
      for (int64_t i = tile * kTile; i < std::min(n, (tile + 1) * kTile); ++i) {
        const float* a = anchors + 4 * i;
        x0[i] = a[0], y0[i] = a[1], x1[i] = a[2], y1[i] = a[3];
        area[i] = (a[2] - a[0]) * (a[3] - a[1]);
        left = std::min(left, a[0]), top = std::min(top, a[1]);
        right = std::max(right, a[2]), bottom = std::max(bottom, a[3]);
      }
      float* b = bounds.data() + 4 * tile;
      b[0] = left, b[1] = top, b[2] = right, b[3] = bottom;
    }
  }

  bool may_overlap(int64_t tile, const float* box) const {
    const float* b = bounds.data() + 4 * tile;
    return box[0] < b[2] && box[2] > b[0] && box[1] < b[3] && box[3] > b[1];
  }
};

struct MatchRule {
  float positive, negative, ignore;
  double tolerance;  // overlaps closer than this count as equal; 0 for exact equality
};

inline bool equal_overlaps(float a, float b, double tolerance) {
  return a == b || std::fabs(static_cast<double>(a - b)) < tolerance;
}

// bbox_overlaps of ppdet, box first: (box + anchor) - inter, and 0 where they do not touch.
inline float overlap(float ax0, float ay0, float ax1, float ay1, float a_area, const float* box, float box_area) {
  float w = std::min(box[2], ax1) - std::max(box[0], ax0);
  float h = std::min(box[3], ay1) - std::max(box[1], ay0);
  w = w > 0.f ? w : 0.f;
  h = h > 0.f ? h : 0.f;
  const float inter = w * h;
  const float ratio = inter / ((box_area + a_area) - inter);
  return inter > 0.f ? ratio : 0.f;
}

inline float box_area(const float* box) { return (box[2] - box[0]) * (box[3] - box[1]); }

// The row that paddle.topk(k=1, axis=0) returns for a column on the CPU. Among equal values it is not always the first:
// up to 64 rows Paddle calls std::nth_element, and what that leaves in front depends on how it partitions. Paddle is
// built with libstdc++, whose steps are repeated here, since this may be built with another library.
inline int32_t topk_row(std::vector<std::pair<float, int32_t>>& column) {
  auto above = [&](int64_t a, int64_t b) { return column[a].first > column[b].first; };
  int64_t end = static_cast<int64_t>(column.size());
  int rounds = 0;  // after two for each halving of the column the partitions are given up for a heap
  if (end <= 64)
    for (int64_t rest = end; rest > 1; rest /= 2) rounds += 2;
  while (end > 3 && rounds-- > 0) {
    const int64_t low = 1, middle = end / 2, high = end - 1;
    const int64_t median = above(low, middle) ? (above(middle, high) ? middle : above(low, high) ? high : low)
                                              : (above(low, high) ? low : above(middle, high) ? high : middle);
    std::swap(column[0], column[median]);
    int64_t left = 1, right = end;
    for (;; ++left) {
      while (above(left, 0)) ++left;
      do --right;
      while (above(0, right));
      if (left >= right) break;
      std::swap(column[left], column[right]);
    }
    end = left;
  }
  int64_t first = 0;  // the heap, and the sort of the last three, leave the first of the highest
  for (int64_t row = 1; row < end; ++row)
    if (above(row, first)) first = row;
  return column[first].second;
}

}  // namespace detperf
