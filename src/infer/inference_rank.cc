#include "infer/inference_rank.h"

#include <algorithm>

namespace stoa::infer {

InferenceRank::InferenceRank(Machine& machine, const InferenceOptions& options,
                             std::optional<std::size_t> scratch_bytes)
    : options_(options),
      chunk_(machine, options_.model, options_.precision, options_.decoder.pass_tokens,
             std::max(options_.decoder.context, options_.decoder.longest_text())),
      decoder_(chunk_.arena(), options_.model, options_.precision, options_.decoder) {
  chunk_.commit(scratch_bytes);
}

}  // namespace stoa::infer
