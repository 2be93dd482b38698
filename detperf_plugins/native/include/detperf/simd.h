// DETPERF_CLONES: compile a function for AVX2 as well, chosen when the module is loaded. AVX2 has no fused
// multiply-add, so both versions round alike.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define DETPERF_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define DETPERF_CLONES
#endif
