// The border map of text polygons (DBNet's threshold target) and the measures of a ring.
// Rule of MindOCR's BorderMap, not the true distance to a segment: inside the circle on the edge as diameter
// the distance to the edge's line, outside it the distance to the nearer end.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "detperf/simd.h"

namespace detperf {

struct RingMeasure {
  double area = 0, length = 0;
  bool crossing = false;
};

// Sign of the turn a -> b -> c.
inline int turn(const double* a, const double* b, const double* c) {
  const double cross = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
  return (cross > 0) - (cross < 0);
}

// Whether segments ab and cd cross at a point inside both.
inline bool properly_cross(const double* a, const double* b, const double* c, const double* d) {
  if (std::max(a[0], b[0]) < std::min(c[0], d[0]) || std::max(c[0], d[0]) < std::min(a[0], b[0]) ||
      std::max(a[1], b[1]) < std::min(c[1], d[1]) || std::max(c[1], d[1]) < std::min(a[1], b[1]))
    return false;
  return turn(a, b, c) * turn(a, b, d) < 0 && turn(c, d, a) * turn(c, d, b) < 0;
}

// Area and length add up in the order in which GEOS does, so that they are equal to the last bit.
inline RingMeasure measure_ring(const double* xy, int64_t count, bool crossings = true) {
  RingMeasure ring;
  if (count < 3) return ring;
  const auto point = [&](int64_t i) { return xy + 2 * (i < count ? i : i - count); };
  const double x0 = xy[0];
  double doubled = 0;
  for (int64_t i = 1; i < count; ++i)
    doubled += (point(i)[0] - x0) * (point(i - 1)[1] - point(i + 1)[1]);
  ring.area = std::fabs(doubled / 2.0);
  for (int64_t i = 0; i < count; ++i) {
    const double dx = point(i + 1)[0] - point(i)[0], dy = point(i + 1)[1] - point(i)[1];
    ring.length += std::sqrt(dx * dx + dy * dy);
  }
  for (int64_t i = 0; crossings && i < count && !ring.crossing; ++i)
    for (int64_t j = i + 2; j < count && !ring.crossing; ++j)
      ring.crossing = properly_cross(point(i), point(i + 1), point(j), point(j + 1));
  return ring;
}

// Area of the part of a ring within 0..width x 0..height: the half planes cut it one after the other (Sutherland
// and Hodgman), which may leave edges that run back over themselves, but those enclose nothing.
inline double visible_area(const double* xy, int64_t count, double width, double height, std::vector<double>& ring,
                           std::vector<double>& cut) {
  ring.assign(xy, xy + 2 * count);
  const struct { int axis; double limit, sign; } sides[4] = {{0, 0, 1}, {0, width, -1}, {1, 0, 1}, {1, height, -1}};
  for (const auto& side : sides) {
    cut.clear();
    const size_t points = ring.size() / 2;
    for (size_t i = 0; i < points; ++i) {
      const double *a = &ring[2 * (i ? i - 1 : points - 1)], *b = &ring[2 * i];
      const double from = side.sign * (a[side.axis] - side.limit), to = side.sign * (b[side.axis] - side.limit);
      if ((from < 0) != (to < 0)) {
        const double part = from / (from - to);
        cut.push_back(a[0] + part * (b[0] - a[0]));
        cut.push_back(a[1] + part * (b[1] - a[1]));
      }
      if (to >= 0) cut.push_back(b[0]), cut.push_back(b[1]);
    }
    ring.swap(cut);
  }
  return measure_ring(ring.data(), static_cast<int64_t>(ring.size() / 2), false).area;
}

// One edge, seen from the corner (left, top) of its polygon's box.
struct BorderEdge {
  double ax, ay, bx, by, ex, ey;
  double squared;          // its length squared
  double low_y, high_y;    // rows that can be nearer than `reach`
  double low_x, high_x;    // columns that can be
  double slope, halfwidth; // of the band round its line in one row; halfwidth < 0 where it is (almost) level
};

inline BorderEdge border_edge(const double* a, const double* b, double left, double top, double reach) {
  constexpr double kSlack = 1e-6;  // pixels: more than any rounding below
  BorderEdge edge;
  edge.ax = a[0] - left, edge.ay = a[1] - top, edge.bx = b[0] - left, edge.by = b[1] - top;
  edge.ex = edge.bx - edge.ax, edge.ey = edge.by - edge.ay;
  edge.squared = (edge.ax - edge.bx) * (edge.ax - edge.bx) + (edge.ay - edge.by) * (edge.ay - edge.by);
  edge.low_x = std::min(edge.ax, edge.bx) - reach - kSlack, edge.high_x = std::max(edge.ax, edge.bx) + reach + kSlack;
  edge.low_y = std::min(edge.ay, edge.by) - reach - kSlack, edge.high_y = std::max(edge.ay, edge.by) + reach + kSlack;
  const bool level = std::fabs(edge.ey) < 1e-3 * std::fabs(edge.ex) || edge.ey == 0;
  edge.slope = level ? 0 : edge.ex / edge.ey;
  edge.halfwidth = level ? -1 : reach * std::sqrt(edge.squared) / std::fabs(edge.ey) + kSlack;
  return edge;
}

// nearest[i] = min(nearest[i], squared distance of pixel (first + i, y) to the edge).
DETPERF_LOOP void border_edge_row(const BorderEdge& edge, double y, int64_t first, int64_t count,
                                  double* nearest) {
  const double dy = y - edge.ay, ey = y - edge.by, dy2 = dy * dy, ey2 = ey * ey;
  const double along = dy * edge.ex, per_length = edge.squared > 0 ? 1.0 / edge.squared : 0.0;
  const int start = static_cast<int>(first), total = static_cast<int>(count);
  for (int i = 0; i < total; ++i) {
    const double x = start + i, dx = x - edge.ax, fx = x - edge.bx;
    const double to_a = dx * dx + dy2, to_b = fx * fx + ey2;
    const double cross = dx * edge.ey - along;
    const double end = to_a < to_b ? to_a : to_b, line = cross * cross * per_length;
    const double distance = to_a + to_b - edge.squared < 0 ? line : end;
    nearest[i] = distance < nearest[i] ? distance : nearest[i];
  }
}

// Whether stock's distance of pixel (x, y) to the edge is not a number: within the edge's circle 1 - cos^2 may round
// below 0, and at a repeated corner it is 0 / 0. In stock's order of operations, so that the same pixels round so.
inline bool not_a_number_in_stock(const BorderEdge& edge, double x, double y) {
  const double dx = x - edge.ax, dy = y - edge.ay, fx = x - edge.bx, fy = y - edge.by;
  const double to_a = dx * dx + dy * dy, to_b = fx * fx + fy * fy;
  const double cosine = (to_a + to_b - edge.squared) / (2 * std::sqrt(to_a * to_b));
  if (cosine >= 0) return false;
  const double squared_sine = 1 - cosine * cosine;
  const double squared = to_a * to_b * (std::isnan(squared_sine) ? 0 : squared_sine) / edge.squared;
  return !(squared >= 0);
}

// nearest[i] = NaN where stock's distance to the edge is. That happens on the edge's line only: rounding moves the
// squared distance by about 1e-15 of the edge's squared length.
inline void lose_as_stock(const BorderEdge& edge, double y, int64_t first, int64_t count, double* nearest) {
  const double squared_near = 1e-13 * std::max(edge.squared, 1.0), near = std::sqrt(squared_near);
  int64_t from = 0, to = count - 1;
  if (edge.halfwidth >= 0) {  // the edge is less than 1001 times as wide as high
    const double centre = edge.ax + (y - edge.ay) * edge.slope - static_cast<double>(first), band = 1 + 1001 * near;
    from = std::max<int64_t>(from, static_cast<int64_t>(std::floor(centre - band)));
    to = std::min<int64_t>(to, static_cast<int64_t>(std::ceil(centre + band)));
  } else if (y < std::min(edge.ay, edge.by) - near || y > std::max(edge.ay, edge.by) + near) {
    return;
  }
  for (int64_t i = from; i <= to; ++i)
    if (nearest[i] <= squared_near && not_a_number_in_stock(edge, static_cast<double>(first + i), y))
      nearest[i] = std::numeric_limits<double>::quiet_NaN();
}

// border[i] = max(border[i], 1 - distance / reach), rounded to float where numpy rounds; NaN changes nothing.
DETPERF_LOOP void border_row(const double* nearest, int64_t count, double reach, float* border) {
  const float per = static_cast<float>(reach);
  for (int64_t i = 0; i < count; ++i) {
    const float distance = static_cast<float>(std::sqrt(nearest[i])) / per;
    const float value = 1.0f - (distance < 1.0f ? distance : 1.0f);
    border[i] = value > border[i] ? value : border[i];
  }
}

}  // namespace detperf
