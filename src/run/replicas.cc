#include "run/replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/checksum.h"
#include "infer/host_window.h"

namespace stoa::run {
namespace {

// Hashes the parameters of which the ranks of this group hold copies.
std::uint64_t hash_of_weights(TrainingRank& rank, parallel::Group copies) {
  std::uint64_t hash = 0;
  for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p) {
    if (rank.parameters().specs()[p].copies != copies) continue;
    infer::read_tensor(rank.machine(), rank.parameters().get({static_cast<int>(p)}), [&](TensorView host) {
      hash = hash * 0x9E3779B97F4A7C15u +
             checksum(std::string_view(static_cast<const char*>(host.data), host.bytes()));
    });
  }
  return hash;
}

void compare_group(TrainingRank& rank, std::int64_t step, parallel::Group copies) {
  comm::Communicator& replicas = rank.parallel().along(copies);
  if (replicas.size() == 1) return;
  auto own = static_cast<std::int64_t>(hash_of_weights(rank, copies));
  std::vector<std::int64_t> hashes(static_cast<std::size_t>(replicas.size()));
  replicas
      .all_gather(TensorView(&own, DType::kI64, {1}),
                  TensorView(hashes.data(), DType::kI64, {replicas.size()}), *rank.machine().stream)
      ->wait();
  std::map<std::int64_t, int> votes;
  for (const std::int64_t hash : hashes) ++votes[hash];
  if (votes.size() == 1) return;
  const auto most = std::max_element(votes.begin(), votes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto members = parallel::members(rank.parallel().grid(), rank.parallel().rank(), copies);
  std::vector<int> odd;
  for (std::size_t m = 0; m < hashes.size(); ++m)
    if (hashes[m] != most->first || most->second == 1) odd.push_back(members[m]);
  fail<NumericsError>(
      "after step {} the weights of data-parallel copies differ: rank {} {} from the others of ranks {}. "
      "Memory of that machine may be faulty; the newest checkpoint is from before",
      step, fmt::join(odd, ", "), odd.size() == 1 ? "differs" : "differ", fmt::join(members, ", "));
}

}  // namespace

void compare_replicas(TrainingRank& rank, std::int64_t step) {
  if (rank.options().layout.zero_stage == 3) return;
  for (const auto copies : {parallel::Group::kDataContext, parallel::Group::kExpertData})
    compare_group(rank, step, copies);
}

}  // namespace stoa::run
