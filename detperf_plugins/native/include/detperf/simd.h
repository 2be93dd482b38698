// Loops compiled for AVX2 as well, chosen by what the processor has: dispatch<loop>(arguments...). AVX2 has no fused
// multiply-add, so both versions round alike. No compiler's own clones are used: those, and __builtin_cpu_supports,
// depend on a runtime that says no on every processor where the wheels are built (zig's).
#pragma once

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#define DETPERF_X86 1
#define DETPERF_TARGET(instructions) __attribute__((target(instructions)))
#define DETPERF_LOOP inline __attribute__((always_inline))
#else
#define DETPERF_TARGET(instructions)
#define DETPERF_LOOP inline
#endif

namespace detperf {

struct Processor {
  bool ssse3 = false, avx2 = false;

  Processor() {
#ifdef DETPERF_X86
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    ssse3 = (c & bit_SSSE3) != 0;
    if ((c & bit_OSXSAVE) == 0 || (c & bit_AVX) == 0) return;
    unsigned low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    constexpr unsigned kept = 6;  // the system saves the registers of SSE and AVX
    if ((low & kept) == kept && __get_cpuid_count(7, 0, &a, &b, &c, &d)) avx2 = (b & bit_AVX2) != 0;
#endif
  }
};

inline const Processor processor;

template <auto Loop>
struct Dispatch;

template <class Result, class... Arguments, Result (*Loop)(Arguments...)>
struct Dispatch<Loop> {
  DETPERF_TARGET("avx2") static Result on_avx2(Arguments... arguments) { return Loop(arguments...); }
  static Result call(Arguments... arguments) {
    return processor.avx2 ? on_avx2(arguments...) : Loop(arguments...);
  }
};

// `Loop` is a function declared DETPERF_LOOP, so that each version contains it whole.
template <auto Loop>
constexpr auto* dispatch = &Dispatch<Loop>::call;

}  // namespace detperf
