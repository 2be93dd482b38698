// A loop shared out to threads: body(begin, end) over chunks of 0..count, in no fixed order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace detperf {

// threads <= 0 means one per hardware thread. `grain` is the least work worth a thread of its own; an
// exception from any chunk is rethrown on the calling thread.
template <class Body>
void parallel_for(int64_t count, int64_t grain, int threads, Body body) {
  if (count <= 0) return;
  int64_t workers = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  workers = std::min<int64_t>(workers, (count + grain - 1) / grain);
  if (workers <= 1) {
    body(int64_t{0}, count);
    return;
  }
  const int64_t chunk = std::max<int64_t>(grain, count / (workers * 4));
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex guard;
  auto drain = [&] {
    try {
      for (int64_t begin; (begin = next.fetch_add(chunk)) < count;) body(begin, std::min(begin + chunk, count));
    } catch (...) {
      std::lock_guard<std::mutex> lock(guard);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  for (int64_t i = 1; i < workers; ++i) pool.emplace_back(drain);
  drain();
  for (auto& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace detperf
