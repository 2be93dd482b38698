// Arrays as the kernels take them from Python: dense, on the host, of one type; the wrappers have checked them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

namespace detperf {

template <class T, class Shape>
using In = nb::ndarray<const T, Shape, nb::c_contig, nb::device::cpu>;
template <class T, class Shape>
using Out = nb::ndarray<T, Shape, nb::c_contig, nb::device::cpu>;

}  // namespace detperf
