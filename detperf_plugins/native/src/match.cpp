// Host side of anchor matching: images and runs of tiles shared out to threads.
#include "detperf/match.h"

#include "arrays.h"
#include "detperf/parallel.h"
#include "detperf/simd.h"

namespace detperf {
namespace {

// Tiles handled by one task: the unit in which threads share an image.
constexpr int64_t kRun = 64;

DETPERF_LOOP void overlap_row(const float* __restrict x0, const float* __restrict y0, const float* __restrict x1,
                              const float* __restrict y1, const float* __restrict area, int n,
                              const float* __restrict box, float area_of_box, float* __restrict out) {
  const float b[4] = {box[0], box[1], box[2], box[3]};
  for (int i = 0; i < n; ++i) out[i] = overlap(x0[i], y0[i], x1[i], y1[i], area[i], b, area_of_box);
}

// Folds one box's overlaps into the running best of a tile; returns the row's maximum.
DETPERF_LOOP float fold_row(const float* __restrict row, int n, int32_t box, float* __restrict value,
                            int32_t* __restrict match, int32_t* __restrict tied) {
  constexpr int kLanes = 8;
  float lane[kLanes] = {0};
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lane[j] = row[i + j] > lane[j] ? row[i + j] : lane[j];
  for (; i < n; ++i) lane[0] = row[i] > lane[0] ? row[i] : lane[0];
  float top = lane[0];
  for (int j = 1; j < kLanes; ++j) top = std::max(top, lane[j]);
  if (top <= 0.f) return top;
  for (i = 0; i < n; ++i) {
    const bool better = row[i] > value[i], equal = row[i] == value[i];
    tied[i] = better ? 0 : (tied[i] | (equal ? 1 : 0));
    match[i] = better ? box : match[i];
    value[i] = better ? row[i] : value[i];
  }
  return top;
}

struct Image {
  const float* boxes;
  const uint8_t* crowd;
  int32_t count, good, zero_match, ignored_match;
  bool ignores;
};

// Best overlap of a box so far, and a span of tiles outside which none comes near it.
struct BestOfBox {
  float value = 0.f;
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;
  void add(float top, int64_t from, int64_t to, double tolerance) {
    const bool near = equal_overlaps(top, value, tolerance);
    if (top <= 0.f || (top < value && !near)) return;
    if (!near) *this = BestOfBox{top, from, to};
    value = std::max(value, top);
    first = std::min(first, from);
    last = std::max(last, to);
  }
};

class Matcher {
 public:
  Matcher(const AnchorColumns& anchors, const MatchRule& rule) : anchors_(anchors), rule_(rule) {}

  void first_pass(const Image& image, int64_t begin, int64_t end, int8_t* labels, int32_t* matches,
                  BestOfBox* best) const {
    float row[kTile], value[kTile];
    int32_t match[kTile], tied[kTile];
    uint8_t ignored[kTile];
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t at = tile * kTile;
      const int n = static_cast<int>(std::min(kTile, anchors_.count - at));
      std::fill_n(value, n, 0.f);
      std::fill_n(match, n, image.zero_match);
      std::fill_n(tied, n, 0);
      const bool ignoring = mark_ignored(image, tile, n, ignored);
      for (int32_t g = 0; g < image.count; ++g) {
        if (image.crowd[g] || !anchors_.may_overlap(tile, image.boxes + 4 * g)) continue;
        fill_row(tile, n, image.boxes + 4 * g, row);
        if (ignoring)
          for (int i = 0; i < n; ++i) row[i] = ignored[i] ? -1.f : row[i];
        best[g].add(dispatch<fold_row>(row, n, g, value, match, tied), tile, tile, rule_.tolerance);
      }
      for (int i = 0; i < n; ++i) {
        const bool skip = ignoring && ignored[i];
        const int8_t label = value[i] >= rule_.positive ? 1 : value[i] < rule_.negative ? 0 : -1;
        labels[at + i] = skip ? -1 : label;
        matches[at + i] = skip ? image.ignored_match
                          : tied[i] && value[i] > 0.f ? break_tie(image, at + i)
                                                      : match[i];
      }
    }
  }

  // Anchors that reach a box's best overlap become foreground, whatever that overlap is.
  void low_quality_pass(const Image& image, int64_t begin, int64_t end, int8_t* labels, const BestOfBox* best) const {
    float row[kTile];
    uint8_t ignored[kTile];
    for (int32_t g = 0; g < image.count; ++g) {
      if (best[g].value <= 0.f) continue;
      for (int64_t tile = std::max(begin, best[g].first); tile < std::min(end, best[g].last + 1); ++tile) {
        if (!anchors_.may_overlap(tile, image.boxes + 4 * g)) continue;
        const int64_t at = tile * kTile;
        const int n = static_cast<int>(std::min(kTile, anchors_.count - at));
        fill_row(tile, n, image.boxes + 4 * g, row);
        const bool ignoring = mark_ignored(image, tile, n, ignored);
        for (int i = 0; i < n; ++i)
          if (row[i] > 0.f && equal_overlaps(row[i], best[g].value, rule_.tolerance) && !(ignoring && ignored[i]))
            labels[at + i] = 1;
      }
    }
  }

  // topk's choice for a column in which every good box has `value` and every crowd box -1.
  static int32_t constant_match(const Image& image, float value) {
    std::vector<std::pair<float, int32_t>> column(image.count);
    for (int32_t g = 0; g < image.count; ++g) column[g] = {image.crowd[g] ? -1.f : value, g};
    return topk_row(column);
  }

 private:
  void fill_row(int64_t tile, int n, const float* box, float* row) const {
    const int64_t at = tile * kTile;
    dispatch<overlap_row>(anchors_.x0.data() + at, anchors_.y0.data() + at, anchors_.x1.data() + at,
                          anchors_.y1.data() + at, anchors_.area.data() + at, n, box, box_area(box), row);
  }

  bool mark_ignored(const Image& image, int64_t tile, int n, uint8_t* ignored) const {
    if (!image.ignores) return false;
    float row[kTile];
    std::fill_n(ignored, n, uint8_t{0});
    for (int32_t g = 0; g < image.count; ++g) {
      if (!image.crowd[g] || !anchors_.may_overlap(tile, image.boxes + 4 * g)) continue;
      fill_row(tile, n, image.boxes + 4 * g, row);
      for (int i = 0; i < n; ++i) ignored[i] |= row[i] > rule_.ignore;
    }
    return true;
  }

  int32_t break_tie(const Image& image, int64_t anchor) const {
    std::vector<std::pair<float, int32_t>> column(image.count);
    for (int32_t g = 0; g < image.count; ++g) {
      const float* box = image.boxes + 4 * g;
      column[g] = {image.crowd[g] ? -1.f
                                  : overlap(anchors_.x0[anchor], anchors_.y0[anchor], anchors_.x1[anchor],
                                            anchors_.y1[anchor], anchors_.area[anchor], box, box_area(box)),
                   g};
    }
    return topk_row(column);
  }

  const AnchorColumns& anchors_;
  const MatchRule rule_;
};

void match_boxes(In<float, nb::shape<-1, 4>> anchors, In<float, nb::shape<-1, 4>> boxes,
                 In<int64_t, nb::ndim<1>> offsets, In<uint8_t, nb::ndim<1>> crowd, float positive, float negative,
                 float ignore, bool low_quality, double tolerance, Out<int8_t, nb::ndim<2>> labels, Out<int32_t, nb::ndim<2>> matches,
                 int threads) {
  const int64_t images = static_cast<int64_t>(offsets.shape(0)) - 1, count = static_cast<int64_t>(anchors.shape(0));
  const int64_t total = static_cast<int64_t>(boxes.shape(0));
  const float *anchor_data = anchors.data(), *box_data = boxes.data();
  const int64_t* offset = offsets.data();
  const uint8_t* crowd_data = crowd.data();
  int8_t* label_data = labels.data();
  int32_t* match_data = matches.data();
  nb::gil_scoped_release unlocked;

  const AnchorColumns columns(anchor_data, count);
  const Matcher matcher(columns, MatchRule{positive, negative, ignore, tolerance});
  std::vector<Image> image(images);
  for (int64_t b = 0; b < images; ++b) {
    Image& one = image[b];
    one.boxes = box_data + 4 * offset[b];
    one.crowd = crowd_data + offset[b];
    one.count = static_cast<int32_t>(offset[b + 1] - offset[b]);
    one.good = static_cast<int32_t>(std::count(one.crowd, one.crowd + one.count, uint8_t{0}));
    one.ignores = ignore > 0.f && one.good < one.count;
    one.zero_match = one.good ? Matcher::constant_match(one, 0.f) : 0;
    one.ignored_match = one.good ? Matcher::constant_match(one, -1.f) : 0;
  }
  const int64_t runs = (columns.tiles + kRun - 1) / kRun;
  std::vector<BestOfBox> partial(runs * total), best(total);
  auto for_each_run = [&](auto body) {
    parallel_for(images * runs, 1, threads, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t b = task / runs, run = task % runs;
        body(b, run, run * kRun, std::min(columns.tiles, (run + 1) * kRun));
      }
    });
  };
  for_each_run([&](int64_t b, int64_t run, int64_t begin, int64_t end) {
    int8_t* label = label_data + b * count;
    int32_t* match = match_data + b * count;
    if (image[b].good) {
      matcher.first_pass(image[b], begin, end, label, match, partial.data() + run * total + offset[b]);
      return;
    }
    const int64_t from = begin * kTile, to = std::min(count, end * kTile);
    std::fill(label + from, label + to, int8_t{0});
    std::fill(match + from, match + to, 0);
  });
  if (!low_quality) return;
  for (int64_t run = 0; run < runs; ++run)
    for (int64_t g = 0; g < total; ++g) {
      const BestOfBox& p = partial[run * total + g];
      best[g].add(p.value, p.first, p.last, tolerance);
    }
  for_each_run([&](int64_t b, int64_t, int64_t begin, int64_t end) {
    matcher.low_quality_pass(image[b], begin, end, label_data + b * count, best.data() + offset[b]);
  });
}

}  // namespace

void register_match(nb::module_& m) { m.def("match_boxes", &match_boxes); }

}  // namespace detperf
