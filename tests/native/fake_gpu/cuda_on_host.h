// Enough of CUDA's language for a host compiler to run a kernel: every thread of a block is a coroutine that gives way
// at __syncthreads(). Between two barriers the threads run one after the other, in a new random order each time, so a
// barrier that is missing shows as a wrong result; a barrier that only some threads reach stops the program.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline

inline double __dmul_rn(double a, double b) { return a * b; }  // exact with -ffp-contract=off
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fsub_rn(float a, float b) { return a - b; }

struct Place {
  unsigned x, y, z;
};
inline Place blockIdx, blockDim, threadIdx;

template <class Word>
Word atomicXor(Word* address, Word value) {
  const Word old = *address;
  *address ^= value;
  return old;
}

namespace host_gpu {

struct Thread {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 << 10);
  bool done;
};
inline std::vector<Thread> threads;
inline ucontext_t scheduler;
inline unsigned running;
inline std::function<void()> kernel;
inline std::mt19937 order(1);

inline void run_thread() {
  kernel();
  threads[running].done = true;
}

inline void run_block(unsigned size) {
  if (threads.size() < size) threads.resize(size);
  blockDim = {size, 1, 1};
  std::vector<unsigned> turn(size);
  std::iota(turn.begin(), turn.end(), 0);
  for (unsigned i = 0; i < size; ++i) {
    Thread& one = threads[i];
    one.done = false;
    getcontext(&one.context);
    one.context.uc_stack.ss_sp = one.stack.data();
    one.context.uc_stack.ss_size = one.stack.size();
    one.context.uc_link = &scheduler;
    makecontext(&one.context, run_thread, 0);
  }
  for (unsigned left = size; left > 0;) {
    std::shuffle(turn.begin(), turn.end(), order);
    for (unsigned i : turn) {
      running = i;
      threadIdx = {i, 0, 0};
      swapcontext(&scheduler, &threads[i].context);
      left -= threads[i].done;
    }
    if (left != 0 && left != size) {
      std::fprintf(stderr, "%u of %u threads do not reach a barrier\n", size - left, size);
      std::abort();
    }
  }
}

}  // namespace host_gpu

inline void __syncthreads() { swapcontext(&host_gpu::threads[host_gpu::running].context, &host_gpu::scheduler); }
