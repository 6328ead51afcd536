// How much memory a model would take, before any of it is allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "infer/encoder_rank.h"
#include "infer/engine/paged_decoder.h"

namespace stoa::infer {

// How a PagedDecoder of the model is built, with adapters that requests choose by their number, from 1.
// ConfigError: as of load_paged_decoder().
PagedModel::Options paged_options(OpenModel& model, const EngineUse& use,
                                  std::span<const AdapterFiles> adapters = {});
// What a model is loaded for that guesses for one with these limits.
EngineUse draft_use(const PassLimits& limits);
// How an EncoderRank is built. ConfigError: as of load_encoder().
EncoderOptions encoder_options(const OpenModel& model, const EncoderUse& use);

// A Rank in OpenModel::load() whose memory is counted on the meta machine, and never allocated: where the
// real one would be built, it throws its bytes.
template <class Rank>
class CountedRank {
 public:
  struct Bytes {
    std::size_t bytes;
  };

  template <class Options>
  CountedRank(Machine& machine, const Options& options, std::optional<std::size_t> scratch_bytes) {
    if (scratch_bytes) {
      Machine meta = make_meta_machine(machine);
      throw Bytes{Rank(meta, options, std::nullopt).chunk().arena().total_bytes() + *scratch_bytes};
    }
    rank_ = std::make_unique<Rank>(machine, options, std::nullopt);
  }
  void dry_run() { rank_->dry_run(); }
  LoadedChunk& chunk() { return rank_->chunk(); }

 private:
  std::unique_ptr<Rank> rank_;
};

// The bytes that model.load<Rank>(options) would allocate: what the rank declares, and its scratch memory.
template <class Rank, class Options>
std::size_t measure_load(OpenModel& model, const Options& options) {
  try {
    model.load<CountedRank<Rank>>(options);
  } catch (const typename CountedRank<Rank>::Bytes& counted) {
    return counted.bytes;
  }
  fail<InternalError>("a counted rank was allocated");
}

}  // namespace stoa::infer
