#include "base/fetch_ahead.h"

#include <algorithm>

namespace stoa {
namespace {

constexpr std::int64_t kStep = 1024;         // bytes at a time, which take less than a tenth of a microsecond
constexpr std::size_t kMostMatrices = 8192;  // that are remembered
constexpr int kMostHops = 64;                // from one matrix to those that follow

}  // namespace

FetchAhead::FetchAhead(int workers) : workers_(workers), cursors_(static_cast<std::size_t>(workers)) {}

// Null: too many are known.
FetchAhead::Matrix* FetchAhead::matrix_at(const std::byte* data, std::int64_t bytes) {
  const auto known = known_.find(data);
  if (known != known_.end() && known->second->bytes == bytes) return known->second;
  if (matrices_.size() == kMostMatrices) return nullptr;
  return known_[data] = &matrices_.emplace_back(data, bytes);
}

void FetchAhead::follow(Matrix& matrix) {
  if (last_ != nullptr) last_->next.store(&matrix, std::memory_order_release);
  last_ = &matrix;
  current_.store(&matrix, std::memory_order_release);
}

bool FetchAhead::step(int worker) {
  const Matrix* const now = current_.load(std::memory_order_acquire);
  if (now == nullptr) return false;
  Cursor& cursor = cursors_[static_cast<std::size_t>(worker)];
  if (now != cursor.current) catch_up(cursor, now, worker);
  if (cursor.ahead >= kMost) return false;
  if (cursor.offset == cursor.matrix->part(worker)) {
    const Matrix* const next = cursor.matrix->next.load(std::memory_order_acquire);
    if (next == nullptr || next == now) return false;
    cursor.matrix = next;
    cursor.offset = 0;
  }
  const std::int64_t bytes = std::min(kStep, cursor.matrix->part(worker) - cursor.offset);
  const std::byte* const from =
      cursor.matrix->data + cursor.matrix->begins[static_cast<std::size_t>(worker)] + cursor.offset;
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
  cursor.offset += bytes;
  cursor.ahead += bytes;
  return true;
}

// `now` is read: what was fetched of those behind it remains. Other threads may change the order meanwhile, and
// matrices that follow each other in a circle need not lead to `now`.
void FetchAhead::catch_up(Cursor& cursor, const Matrix* now, int worker) {
  std::int64_t ahead = cursor.ahead;
  const Matrix* m = cursor.current;
  for (int hops = 0; hops < kMostHops && m != nullptr && m != cursor.matrix; ++hops) {
    m = m->next.load(std::memory_order_acquire);
    if (m == nullptr || m == cursor.matrix) break;
    ahead -= m->part(worker);
    if (m != now) continue;
    cursor.current = now;
    cursor.ahead = ahead;
    return;
  }
  cursor = {.current = now, .matrix = now, .offset = now->part(worker), .ahead = 0};
}

}  // namespace stoa
