// The compiled part of detperf_plugins.native. Shapes and dtypes are checked by the Python wrappers.
#include <nanobind/nanobind.h>

#include "detperf/simd.h"

namespace detperf {
void register_border_map(nanobind::module_& m);
void register_match(nanobind::module_& m);
void register_proposals(nanobind::module_& m);
void register_raster(nanobind::module_& m);
void register_region(nanobind::module_& m);
}  // namespace detperf

NB_MODULE(_kernels, m) {
  m.doc() = "Kernels of detperf-plugins; call them through detperf_plugins.native.";
  m.attr("simd") = detperf::processor.avx2 ? "avx2" : detperf::processor.ssse3 ? "ssse3" : "";
  detperf::register_border_map(m);
  detperf::register_match(m);
  detperf::register_proposals(m);
  detperf::register_raster(m);
  detperf::register_region(m);
}
