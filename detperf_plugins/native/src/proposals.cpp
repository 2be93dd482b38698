// Host side of the proposals: images and levels shared out to threads, then the best of all levels an image.
#include "detperf/proposals.h"

#include <functional>

#include "arrays.h"
#include "detperf/parallel.h"
#include "detperf/simd.h"

namespace detperf {
namespace {

// Where a level's logits lie in an image's row, and its anchors in the list of all.
struct Level {
  int64_t scores, deltas, anchors, cells, per_cell;
};

DETPERF_LOOP void suppress(const float* __restrict x0, const float* __restrict y0, const float* __restrict x1,
                           const float* __restrict y1, const float* __restrict area, int64_t from, int64_t count,
                           int64_t kept, float threshold, int32_t* __restrict dead) {
  const float left = x0[kept], top = y0[kept], right = x1[kept], bottom = y1[kept], size = area[kept];
  for (int64_t j = from; j < count; ++j) {
    float w = std::min(right, x1[j]) - std::max(left, x0[j]);
    float h = std::min(bottom, y1[j]) - std::max(top, y0[j]);
    w = w > 0.f ? w : 0.f;
    h = h > 0.f ? h : 0.f;
    const float inter = w * h;
    dead[j] |= inter / ((area[j] + size) - inter) > threshold;
  }
}

// Greedy suppression: indices that survive, best first, at most `most` of them (all where most <= 0).
std::vector<int32_t> survivors(const BoxColumns& boxes, float threshold, int64_t most) {
  std::vector<int32_t> dead(boxes.size(), 0), kept;
  for (int64_t i = 0; i < boxes.size(); ++i) {
    if (dead[i]) continue;
    kept.push_back(static_cast<int32_t>(i));
    if (most > 0 && static_cast<int64_t>(kept.size()) == most) break;
    dispatch<suppress>(boxes.x0.data(), boxes.y0.data(), boxes.x1.data(), boxes.y1.data(), boxes.area.data(), i + 1,
                       boxes.size(), i, threshold, dead.data());
  }
  return kept;
}

// Boxes x0 y0 x1 y1 and their scores; one box of zeros where none is left, as Paddle's operator returns.
void propose_level(const float* row, const Level& level, bool channels_last, const float* anchors, float height,
                   float width, const ProposalRule& rule, std::vector<float>& boxes, std::vector<float>& scores) {
  const int64_t count = level.cells * level.per_cell;
  const float *score = row + level.scores, *delta = row + level.deltas;
  std::vector<float> values(count);
  for (int64_t cell = 0; cell < level.cells; ++cell)
    for (int64_t k = 0; k < level.per_cell; ++k) {
      const float value = score[channels_last ? cell * level.per_cell + k : k * level.cells + cell];
      values[cell * level.per_cell + k] = value == value ? value : -std::numeric_limits<float>::infinity();
    }
  const std::vector<int32_t> order = top_indices(values, rule.before);
  BoxColumns columns(order.size());
  const float smallest = std::max(rule.min_size, 1.f);
  for (const int32_t i : order) {
    const int64_t cell = i / level.per_cell, k = i % level.per_cell;
    float d[4], box[4];
    for (int64_t j = 0; j < 4; ++j)
      d[j] = delta[channels_last ? 4 * int64_t{i} + j : (4 * k + j) * level.cells + cell];
    decode(anchors + 4 * (level.anchors + i), d, height, width, box);
    if (box[2] - box[0] >= smallest && box[3] - box[1] >= smallest)
      columns.add(box[0], box[1], box[2], box[3], values[i]);
  }
  for (const int32_t i : survivors(columns, rule.threshold, rule.after)) {
    for (const auto* column : {&columns.x0, &columns.y0, &columns.x1, &columns.y1}) boxes.push_back((*column)[i]);
    scores.push_back(columns.score[i]);
  }
  if (scores.empty()) {
    boxes.assign(4, 0.f);
    scores.assign(1, 0.f);
  }
}

void propose(In<float, nb::ndim<2>> logits, In<int64_t, nb::shape<-1, 5>> levels, bool channels_last,
             In<float, nb::shape<-1, 4>> anchors, In<float, nb::shape<-1, 2>> im_shape, int64_t before, int64_t after,
             float threshold, float min_size, int64_t collect, Out<float, nb::ndim<3>> boxes,
             Out<float, nb::ndim<2>> scores, Out<int64_t, nb::ndim<1>> counts, int threads) {
  const int64_t images = static_cast<int64_t>(logits.shape(0)), length = static_cast<int64_t>(logits.shape(1));
  const int64_t level_count = static_cast<int64_t>(levels.shape(0)), capacity = static_cast<int64_t>(boxes.shape(1));
  const float *rows = logits.data(), *anchor_data = anchors.data(), *sizes = im_shape.data();
  const int64_t* table = levels.data();
  float *box_data = boxes.data(), *score_data = scores.data();
  int64_t* count_data = counts.data();
  const ProposalRule rule{before, after, threshold, min_size};
  nb::gil_scoped_release unlocked;
  std::vector<std::vector<float>> found(images * level_count), found_scores(images * level_count);
  parallel_for(images * level_count, 1, threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      // The finest level first: it is the longest task, and ought not to be started last.
      const int64_t l = task / images, b = task % images, at = b * level_count + l;
      const int64_t* t = table + 5 * l;
      propose_level(rows + b * length, Level{t[0], t[1], t[2], t[3], t[4]}, channels_last, anchor_data, sizes[2 * b],
                    sizes[2 * b + 1], rule, found[at], found_scores[at]);
    }
  });
  for (int64_t b = 0; b < images; ++b) {
    std::vector<float> all_boxes, all_scores;
    for (int64_t at = b * level_count; at < (b + 1) * level_count; ++at) {
      all_boxes.insert(all_boxes.end(), found[at].begin(), found[at].end());
      all_scores.insert(all_scores.end(), found_scores[at].begin(), found_scores[at].end());
    }
    std::vector<int32_t> order(all_scores.size());
    std::iota(order.begin(), order.end(), 0);
    if (level_count > 1 && static_cast<int64_t>(order.size()) > collect) order = top_indices(all_scores, collect);
    const int64_t count = std::min<int64_t>(order.size(), capacity);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(all_boxes.data() + 4 * int64_t{order[i]}, 4, box_data + 4 * (b * capacity + i));
      score_data[b * capacity + i] = all_scores[order[i]];
    }
    count_data[b] = count;
  }
}

}  // namespace

void register_proposals(nb::module_& m) { m.def("propose", &propose); }

}  // namespace detperf
