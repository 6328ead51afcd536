// What workers read next. A model reads the same matrices in the same order in every pass: which one followed
// which is remembered, and a worker without work fetches its part of those that follow into its L2 cache, so
// that memory is read while another worker does what is not shared out. Nothing but time depends on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

namespace stoa {

class FetchAhead {
 public:
  // Bytes that a worker is ahead, at most: half of an L2 cache of 1 MiB.
  static constexpr std::int64_t kMost = 512 << 10;

  explicit FetchAhead(int workers);

  // The thread that calls the pool: the workers are about to read a matrix of `bytes` at `data`, worker w
  // from byte begin(w) to begin(w + 1).
  template <class Begin>
  void reads(const std::byte* data, std::int64_t bytes, const Begin& begin) {
    Matrix* const matrix = matrix_at(data, bytes);
    if (matrix == nullptr) return;
    if (matrix->begins.empty())
      for (int w = 0; w <= workers_; ++w) matrix->begins.push_back(begin(w));
    follow(*matrix);
  }

  // A worker without work: fetches a kilobyte. False: all there is to fetch was.
  bool step(int worker);

 private:
  friend class FetchAheadTest;

  struct Matrix {
    Matrix(const std::byte* data_, std::int64_t bytes_) : data(data_), bytes(bytes_) {}
    const std::byte* data;
    std::int64_t bytes;
    std::vector<std::int64_t> begins;  // of workers, and the end; written before other threads see the matrix
    std::atomic<const Matrix*> next{nullptr};

    std::int64_t part(int worker) const {
      const auto w = static_cast<std::size_t>(worker);
      return begins[w + 1] - begins[w];
    }
  };
  // How far a worker is.
  struct alignas(64) Cursor {
    const Matrix* current = nullptr;  // what was read when it was last looked at
    const Matrix* matrix = nullptr;   // that is being fetched: one that follows, or this one, which is not
    std::int64_t offset = 0;          // where in the worker's part of it
    std::int64_t ahead = 0;           // bytes fetched of those that follow
  };

  Matrix* matrix_at(const std::byte* data, std::int64_t bytes);
  void follow(Matrix& matrix);
  static void catch_up(Cursor& cursor, const Matrix* now, int worker);

  const int workers_;
  std::unordered_map<const std::byte*, Matrix*> known_;
  std::deque<Matrix> matrices_;
  Matrix* last_ = nullptr;
  std::vector<Cursor> cursors_;
  alignas(64) std::atomic<const Matrix*> current_{nullptr};
};

}  // namespace stoa
