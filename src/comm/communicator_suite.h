// What every communicator must do, against serial computation: for tests of threads and of processes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "comm/communicator.h"
#include "comm/threads/thread_world.h"
#include "device/host/inline_stream.h"

namespace stoa::comm::suite {

// What the ranks of `world` say when `body` fails on one of them.
inline std::string failure_of(ThreadWorld& world, const std::function<void(int)>& body) {
  try {
    world.run(body);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no failure";
}

template <class T>
struct Wide {
  using Type = std::conditional_t<std::is_same_v<T, bf16> || std::is_same_v<T, f16>, float, T>;
};

template <class T>
T value(int rank, std::int64_t i) {
  const int x = static_cast<int>((i * 37 + rank * 11 + 5) % 29);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(x);
  else
    return static_cast<T>(static_cast<float>(x) * 0.37f - 3.1f);
}

template <class T>
TensorView view(std::vector<T>& values, std::int64_t rows = 0) {
  const auto n = static_cast<std::int64_t>(values.size());
  return rows == 0 ? TensorView(values.data(), dtype_of<T>(), {n})
                   : TensorView(values.data(), dtype_of<T>(), {rows, n / rows});
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Serially: in rank order, in the wide type, rounded once.
template <class T>
T reduced(int size, std::int64_t i, ReduceOp op) {
  using W = typename Wide<T>::Type;
  W sum = static_cast<W>(value<T>(0, i));
  for (int r = 1; r < size; ++r) {
    const W x = static_cast<W>(value<T>(r, i));
    sum = op == ReduceOp::kSum ? static_cast<W>(sum + x) : std::max(sum, x);
  }
  return static_cast<T>(sum);
}

// `stream`: of the rank, where its tensors' device works.
template <class T>
void collectives(Communicator& comm, std::int64_t n, bool delays, Stream& stream) {
  const auto finish = [&](const std::unique_ptr<Event>& event) {
    event->wait();
    stream.synchronize();
  };
  const int size = comm.size(), me = comm.rank();
  const auto make = [](int rank, std::int64_t count) {
    std::vector<T> x(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) x[i] = value<T>(rank, i);
    return x;
  };
  const auto pause = [&](int k) {
    if (delays) std::this_thread::sleep_for(std::chrono::microseconds((me * 7 + k * 13) % 5 * 300));
  };
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    pause(1);
    std::vector<T> x = make(me, n), expected;
    for (std::int64_t i = 0; i < n; ++i) expected.push_back(reduced<T>(size, i, op));
    finish(comm.all_reduce(view(x), op, stream));
    EXPECT_TRUE(same(x, expected)) << "all_reduce " << size;
  }
  {
    pause(2);
    std::vector<T> in = make(me, n), out(static_cast<std::size_t>(n * size)), expected;
    for (int r = 0; r < size; ++r)
      for (const T x : make(r, n)) expected.push_back(x);
    finish(comm.all_gather(view(in), view(out), stream));
    EXPECT_TRUE(same(out, expected)) << "all_gather " << size;
  }
  {
    pause(3);
    std::vector<T> in = make(me, n * size), out(static_cast<std::size_t>(n)), expected;
    for (std::int64_t i = 0; i < n; ++i) expected.push_back(reduced<T>(size, me * n + i, ReduceOp::kSum));
    // Two at once, waited for in the other order.
    std::vector<T> in_place = in;
    auto first = comm.reduce_scatter(view(in), view(out), stream);
    auto second = comm.reduce_scatter(view(in_place), view(in_place, size).slice(me, 1), stream);
    second->wait();
    finish(first);
    EXPECT_TRUE(first->ready());
    EXPECT_TRUE(same(out, expected)) << "reduce_scatter " << size;
    EXPECT_EQ(std::memcmp(in_place.data() + me * n, expected.data(), static_cast<std::size_t>(n) * sizeof(T)),
              0);
  }
  {
    pause(4);
    std::vector<T> in = make(me, n * size), out(static_cast<std::size_t>(n * size)), expected;
    for (int r = 0; r < size; ++r)
      for (std::int64_t i = 0; i < n; ++i) expected.push_back(value<T>(r, me * n + i));
    finish(comm.all_to_all(view(in), view(out), stream));
    EXPECT_TRUE(same(out, expected)) << "all_to_all " << size;
  }
  {
    pause(5);  // rank s sends (s + 2 d) % 3 rows of 3 to rank d
    std::vector<std::int64_t> sends, receives;
    std::vector<T> expected;
    for (int r = 0; r < size; ++r) {
      sends.push_back((me + 2 * r) % 3);
      receives.push_back((r + 2 * me) % 3);
      std::int64_t before = 0;
      for (int d = 0; d < me; ++d) before += (r + 2 * d) % 3;
      for (std::int64_t i = 0; i < receives.back() * 3; ++i) expected.push_back(value<T>(r, before * 3 + i));
    }
    const std::int64_t rows_in = std::accumulate(sends.begin(), sends.end(), std::int64_t{0});
    std::vector<T> in = make(me, rows_in * 3), out(expected.size());
    finish(comm.all_to_all_v(
        TensorView(in.data(), dtype_of<T>(), {rows_in, 3}), sends,
        TensorView(out.data(), dtype_of<T>(), {static_cast<std::int64_t>(out.size()) / 3, 3}), receives,
        stream));
    EXPECT_TRUE(same(out, expected)) << "all_to_all_v " << size;
  }
  {
    pause(6);
    std::vector<T> x = make(me, n);
    finish(comm.broadcast(view(x), size - 1, stream));
    EXPECT_TRUE(same(x, make(size - 1, n))) << "broadcast " << size;
  }
  if (size > 1) {
    pause(7);  // everybody sends first: a rendezvous that blocked in send would hang
    std::vector<T> out = make(me, n), in(static_cast<std::size_t>(n));
    auto sent = comm.send(view(out), (me + 1) % size, stream);
    auto received = comm.receive(view(in), (me + size - 1) % size, stream);
    received->wait();
    finish(sent);
    EXPECT_TRUE(same(in, make((me + size - 1) % size, n))) << "send " << size;
  }
  comm.barrier();
}

template <class T>
void collectives(Communicator& comm, std::int64_t n, bool delays) {
  InlineStream stream;
  collectives<T>(comm, n, delays, stream);
}

}  // namespace stoa::comm::suite
