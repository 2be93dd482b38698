// Host side of the border map: all polygons of a picture in one call, rows shared out to threads.
#include "detperf/border_map.h"

#include <vector>

#include "arrays.h"
#include "detperf/parallel.h"

namespace detperf {
namespace {

void measure_rings(In<double, nb::shape<-1, 2>> xy, In<int64_t, nb::ndim<1>> parts, Out<double, nb::shape<-1, 2>> out,
                   Out<uint8_t, nb::ndim<1>> crossing) {
  nb::gil_scoped_release unlocked;
  const int64_t* offsets = parts.data();
  for (size_t ring = 0; ring < crossing.shape(0); ++ring) {
    const RingMeasure measure = measure_ring(xy.data() + 2 * offsets[ring], offsets[ring + 1] - offsets[ring]);
    out.data()[2 * ring] = measure.area, out.data()[2 * ring + 1] = measure.length;
    crossing.data()[ring] = measure.crossing;
  }
}

void visible_areas(In<double, nb::shape<-1, 2>> xy, In<int64_t, nb::ndim<1>> parts, double width, double height,
                   Out<double, nb::ndim<1>> out) {
  nb::gil_scoped_release unlocked;
  const int64_t* offsets = parts.data();
  std::vector<double> ring, cut;
  for (size_t i = 0; i < out.shape(0); ++i)
    out.data()[i] =
        visible_area(xy.data() + 2 * offsets[i], offsets[i + 1] - offsets[i], width, height, ring, cut);
}

struct Border {
  const double* xy;
  const int64_t* parts;
  const double* reaches;
  const int32_t* boxes;  // left, top, right, bottom of each polygon's pixels, all inclusive
  int64_t width;
  float* map;
  bool mended;  // pixels that stock loses to NaN are drawn

  // Rows [begin, end) of polygon `index`.
  void draw(int64_t index, int64_t begin, int64_t end, std::vector<BorderEdge>& edges,
            std::vector<double>& nearest) const {
    const int32_t* box = boxes + 4 * index;
    const double left = box[0], top = box[1], reach = reaches[index];
    const int64_t x0 = std::max<int64_t>(box[0], 0), x1 = std::min<int64_t>(box[2], width - 1);
    const int64_t y0 = std::max<int64_t>(box[1], begin), y1 = std::min<int64_t>(box[3], end - 1);
    if (x0 > x1 || y0 > y1 || !(reach > 0)) return;
    const int64_t first = parts[index], last = parts[index + 1];
    edges.clear();
    for (int64_t i = first; i < last; ++i)
      edges.push_back(border_edge(xy + 2 * i, xy + 2 * (i > first ? i - 1 : last - 1), left, top, reach));
    for (int64_t y = y0; y <= y1; ++y) {
      const double row = static_cast<double>(y) - top;
      int64_t touched_low = x1 + 1, touched_high = x0 - 1;
      for (const BorderEdge& edge : edges) {
        if (row < edge.low_y || row > edge.high_y) continue;
        double low = edge.low_x, high = edge.high_x;
        if (edge.halfwidth >= 0) {
          const double centre = edge.ax + (row - edge.ay) * edge.slope;
          low = std::max(low, centre - edge.halfwidth), high = std::min(high, centre + edge.halfwidth);
        }
        low = std::max(std::ceil(low), static_cast<double>(x0) - left);
        high = std::min(std::floor(high), static_cast<double>(x1) - left);
        if (low > high) continue;
        const int64_t from = static_cast<int64_t>(low) + box[0], to = static_cast<int64_t>(high) + box[0];
        if (touched_low > touched_high) {
          std::fill(nearest.begin() + from, nearest.begin() + to + 1, reach * reach);
          touched_low = from, touched_high = to;
        } else {
          if (from < touched_low) std::fill(nearest.begin() + from, nearest.begin() + touched_low, reach * reach);
          if (to > touched_high) std::fill(nearest.begin() + touched_high + 1, nearest.begin() + to + 1, reach * reach);
          touched_low = std::min(touched_low, from), touched_high = std::max(touched_high, to);
        }
        dispatch<border_edge_row>(edge, row, from - box[0], to - from + 1, nearest.data() + from);
        if (!mended) lose_as_stock(edge, row, from - box[0], to - from + 1, nearest.data() + from);
      }
      if (touched_low <= touched_high)
        dispatch<border_row>(nearest.data() + touched_low, touched_high - touched_low + 1, reach,
                   map + y * width + touched_low);
    }
  }
};

void border_map(In<double, nb::shape<-1, 2>> xy, In<int64_t, nb::ndim<1>> parts, In<double, nb::ndim<1>> reaches,
                In<int32_t, nb::shape<-1, 4>> boxes, Out<float, nb::ndim<2>> out, int threads,
                bool mended) {
  nb::gil_scoped_release unlocked;
  const int64_t height = static_cast<int64_t>(out.shape(0)), width = static_cast<int64_t>(out.shape(1));
  const int64_t count = static_cast<int64_t>(reaches.shape(0));
  const Border border{xy.data(), parts.data(), reaches.data(), boxes.data(), width, out.data(), mended};
  parallel_for(height, 64, threads, [&](int64_t begin, int64_t end) {
    std::vector<BorderEdge> edges;
    std::vector<double> nearest(width);
    for (int64_t index = 0; index < count; ++index) border.draw(index, begin, end, edges, nearest);
  });
}

}  // namespace

void register_border_map(nb::module_& m) {
  m.def("measure_rings", &measure_rings);
  m.def("visible_areas", &visible_areas);
  m.def("border_map", &border_map);
}

}  // namespace detperf
