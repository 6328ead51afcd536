#include "block_counter.h"

#include <atomic>
#include <cerrno>
#include <new>

// The C library looks these names up in the program first; its own are reached by their internal names.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STOA_WATCH_HEAP 1
#else
#define STOA_WATCH_HEAP 0
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> blocks{0};
std::atomic<std::size_t> largest_block{0};

#if STOA_WATCH_HEAP
void note(std::size_t bytes) {
  if (bytes <= stoa::memory_test::kLargeBlock || !counting.load(std::memory_order_relaxed)) return;
  blocks.fetch_add(1);
  std::size_t seen = largest_block.load();
  while (seen < bytes && !largest_block.compare_exchange_weak(seen, bytes)) {
  }
}
#endif

}  // namespace

#if STOA_WATCH_HEAP
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  note(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t size) {
  note(count * size);
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t bytes) {
  note(bytes);
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  note(bytes);
  *out = __libc_memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
}
#endif

namespace stoa::memory_test {

void start_counting_blocks() {
  blocks = 0;
  largest_block = 0;
  counting = true;
}

LargeBlocks stop_counting_blocks() {
  counting = false;
  return {blocks.load(), largest_block.load()};
}

bool can_count_blocks() { return STOA_WATCH_HEAP != 0; }

}  // namespace stoa::memory_test
