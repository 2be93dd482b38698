// Proposals of one image and one level as Paddle's generate_proposals makes them on the CPU: the best scores,
// boxes decoded and clipped in its float32 order of operations, small ones dropped, greedy suppression.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace detperf {

struct ProposalRule {
  int64_t before, after;  // boxes kept before and after suppression; before <= 0 means all
  float threshold, min_size;
};

// Boxes as columns, best score first.
struct BoxColumns {
  std::vector<float> x0, y0, x1, y1, area, score;
  explicit BoxColumns(size_t capacity) {
    for (auto* column : {&x0, &y0, &x1, &y1, &area, &score}) column->reserve(capacity);
  }
  int64_t size() const { return static_cast<int64_t>(x0.size()); }
  void add(float left, float top, float right, float bottom, float value) {
    x0.push_back(left), y0.push_back(top), x1.push_back(right), y1.push_back(bottom);
    area.push_back((right - left) * (bottom - top));
    score.push_back(value);
  }
};

// Indices of the `wanted` highest values, highest first, the lower index first among equals.
inline std::vector<int32_t> top_indices(const std::vector<float>& values, int64_t wanted) {
  const int64_t count = static_cast<int64_t>(values.size());
  std::vector<int32_t> chosen;
  if (wanted <= 0 || wanted >= count) {
    chosen.resize(count);
    std::iota(chosen.begin(), chosen.end(), 0);
  } else {
    std::vector<float> copy(values);
    std::nth_element(copy.begin(), copy.begin() + (wanted - 1), copy.end(), std::greater<float>());
    const float cut = copy[wanted - 1];
    int64_t room = wanted;
    for (const float value : values) room -= value > cut;
    chosen.reserve(wanted);
    for (int64_t i = 0; i < count; ++i)
      if (values[i] > cut || (values[i] == cut && room-- > 0)) chosen.push_back(static_cast<int32_t>(i));
  }
  std::sort(chosen.begin(), chosen.end(),
            [&](int32_t a, int32_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  return chosen;
}

// A box from its anchor and deltas, clipped to the image; Paddle mixes float and double in the centre.
inline void decode(const float* anchor, const float* delta, float height, float width, float* box) {
  const float limit = static_cast<float>(std::log(1000.0 / 16.0));
  const float w = anchor[2] - anchor[0], h = anchor[3] - anchor[1];
  const float centre_x = static_cast<float>(anchor[0] + 0.5 * w), centre_y = static_cast<float>(anchor[1] + 0.5 * h);
  const float x = delta[0] * w + centre_x, y = delta[1] * h + centre_y;
  const float box_w = std::exp(std::min(delta[2], limit)) * w, box_h = std::exp(std::min(delta[3], limit)) * h;
  box[0] = std::max(std::min(x - box_w / 2, width), 0.f);
  box[1] = std::max(std::min(y - box_h / 2, height), 0.f);
  box[2] = std::max(std::min(x + box_w / 2, width), 0.f);
  box[3] = std::max(std::min(y + box_h / 2, height), 0.f);
}

}  // namespace detperf
