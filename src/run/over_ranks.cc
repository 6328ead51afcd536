#include "run/over_ranks.h"

#include <cstdint>

namespace stoa::run {
namespace {

TensorView bytes_of(std::string& text) {
  return TensorView(text.data(), DType::kU8, {static_cast<std::int64_t>(text.size())});
}

}  // namespace

std::vector<std::string> gather_texts(comm::Communicator& group, std::string own, Stream& stream) {
  if (group.size() == 1) return {std::move(own)};  // on a GPU, too, where a group of one copies no host memory
  auto length = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(group.size()));
  group
      .all_gather(TensorView(&length, DType::kI64, {1}),
                  TensorView(lengths.data(), DType::kI64, {group.size()}), stream)
      ->wait();
  if (group.rank() > 0) {
    if (length > 0) group.send(bytes_of(own), 0, stream)->wait();
    return {};
  }
  std::vector<std::string> texts{std::move(own)};
  for (int rank = 1; rank < group.size(); ++rank) {
    texts.emplace_back(static_cast<std::size_t>(lengths[static_cast<std::size_t>(rank)]), '\0');
    if (!texts.back().empty()) group.receive(bytes_of(texts.back()), rank, stream)->wait();
  }
  return texts;
}

void add_over_ranks(TrainingRank& rank, std::span<double> values, parallel::Group group) {
  rank.parallel()
      .along(group)
      .all_reduce(TensorView(values.data(), DType::kF64, {static_cast<std::int64_t>(values.size())}),
                  comm::ReduceOp::kSum, *rank.machine().stream)
      ->wait();
}

}  // namespace stoa::run
