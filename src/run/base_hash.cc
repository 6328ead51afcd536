#include "run/base_hash.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/checksum.h"
#include "ckpt/shard_io.h"
#include "infer/host_window.h"
#include "nn/packed_weight.h"

namespace stoa::run {
namespace {

// SplitMix64's finalizer: every bit of the input changes half of the output's.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t sum_of_elements(const std::byte* elements, std::size_t bytes, std::int64_t count,
                              std::uint64_t key, std::int64_t first) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, elements + static_cast<std::size_t>(i) * bytes, bytes);
    sum += mixed(bits ^ mixed(key + static_cast<std::uint64_t>(first + i) * 0x9E3779B97F4A7C15u));
  }
  return sum;
}

std::uint64_t hash_of_part(TrainingRank& rank, nn::ParamId id) {
  const ShardSpec shard = rank.parameters().written(id);
  const TensorView tensor = rank.parameters().master(id);
  if (shard.pieces.empty() || !tensor || tensor.elements() == 0) return 0;
  constexpr std::int64_t kTask = 65536;  // elements
  std::atomic<std::uint64_t> hash{0};
  const nn::ParamSpec& spec = rank.parameters().specs()[static_cast<std::size_t>(id.index)];
  infer::read_tensor(rank.machine(), tensor, [&](TensorView host) {
    // A packed one is hashed by its numbers, wherever their scales are.
    std::vector<float> numbers;
    if (spec.is_packed()) {
      numbers = nn::unpack_weight(spec, static_cast<const std::byte*>(host.data));
      host = TensorView(numbers.data(), DType::kF32, shard.local);
    }
    const std::size_t bytes = size_of(host.dtype);
    for (const ShardPiece& piece : shard.pieces) {
      const std::uint64_t key = checksum(piece.name);
      ckpt::for_each_run(
          piece, shard.local, shard.local.inner(), shard.flat, [&](const ckpt::ElementRun& run) {
            const auto* data =
                static_cast<const std::byte*>(host.data) + static_cast<std::size_t>(run.memory) * bytes;
            rank.machine().pool->run((run.count + kTask - 1) / kTask, [&](std::int64_t task, int) {
              const std::int64_t begin = task * kTask, count = std::min(kTask, run.count - begin);
              hash += sum_of_elements(data + static_cast<std::size_t>(begin) * bytes, bytes, count, key,
                                      run.file + begin);
            });
          });
    }
  });
  return hash;
}

}  // namespace

std::uint64_t hash_of_frozen(TrainingRank& rank) {
  std::uint64_t own = 0;
  for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p)
    if (!rank.parameters().specs()[p].trained) own += hash_of_part(rank, {static_cast<int>(p)});
  auto sum = static_cast<std::int64_t>(own);
  rank.parallel()
      .along(parallel::Group::kWorld)
      .all_reduce(TensorView(&sum, DType::kI64, {1}), comm::ReduceOp::kSum, *rank.machine().stream)
      ->wait();
  return static_cast<std::uint64_t>(sum);
}

}  // namespace stoa::run
