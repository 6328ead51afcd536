// One pass of the engine: which tokens of which sequences go through the model together, and where their keys
// and values are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "infer/row_wish.h"
#include "tensor/dtype.h"

namespace stoa::infer {

using SequenceId = std::int64_t;
using BlockId = std::int32_t;

// Views of the scheduler's sequences: valid until it changes them.
struct PassSegment {
  SequenceId sequence = 0;
  int adapter = 0;                       // Request::adapter
  std::int64_t begin = 0;                // position of the first token
  std::int64_t length = 0;               // of the sequence, as far as it is known
  std::span<const std::int32_t> tokens;  // those of this pass
  std::span<const BlockId> blocks;       // of the sequence from position 0 to the last token of this pass
  // Encoder-decoders, whose sequences are targets: the source, if this pass reads it; its length, and the
  // blocks of its keys and values.
  std::span<const std::int32_t> source = {};
  std::int64_t source_length = 0;
  std::span<const BlockId> source_blocks = {};
  std::int64_t scored = 0;  // number of the last tokens that need logits
  bool last = false;        // the last token's logits give the next token
};

struct PassPlan {
  std::vector<std::pair<BlockId, BlockId>> copies;  // from, to; in this order, before the pass
  std::vector<PassSegment> segments;                // by adapter
  std::int64_t tokens = 0, scored = 0;              // of all segments; tokens of sources among them,
  std::int64_t sources = 0;                         // which are so many
};

// What the only sequence that runs leaves in memory for the next one that begins alike: nothing, its
// beginning of any length, or all of it (a state cannot be shortened).
enum class LeftBehind : std::uint8_t { kNothing, kBeginning, kWhole };

// What a model's memory allows.
struct PassLimits {
  std::int64_t block_tokens = 16, blocks = 0;  // of the pool of keys and values
  std::int64_t context = 0;                    // longest sequence; of an encoder-decoder, longest target
  std::int64_t pass_tokens = 512;              // of a pass; see most_tokens()
  std::int64_t sequences = 1;                  // that run at the same time
  std::int64_t scored = 1;                     // logits of a pass
  std::int64_t vocabulary = 0;
  bool shares = true;  // whether sequences may share blocks; not where a layer keeps a state
  // Whether the last tokens of a sequence can be taken back; not where a layer keeps a state or a table
  // depends on the length of the text.
  bool takes_back = true;
  LeftBehind left_behind = LeftBehind::kNothing;  // where one sequence with one block runs at a time
  // Encoder-decoders: the longest source, and the token with which targets begin. 0: the model has no
  // sources.
  std::int64_t source_tokens = 0;
  std::int32_t start = 0;
  // Tokens of an adapter with which every text begins, or every source. Their ids are those from `vocabulary`
  // on; they count in `context`, or in `source_tokens`.
  std::int64_t virtual_tokens = 0;
  std::vector<std::int64_t> adapters = {};  // likewise, of each that a request may choose

  std::int64_t virtual_of(int adapter) const {
    return adapter == 0 ? virtual_tokens : adapters[static_cast<std::size_t>(adapter - 1)];
  }
  std::int64_t blocks_of(std::int64_t tokens) const { return (tokens + block_tokens - 1) / block_tokens; }
  bool reads_sources() const { return source_tokens > 0; }
  // Tokens of the longest sequence that the pool holds, next to a source of `source` tokens.
  std::int64_t longest(std::int64_t source = 0) const {
    return std::min(context, (blocks - blocks_of(source)) * block_tokens);
  }
  // How many texts of this many tokens, virtual ones among them, run at the same time until their ends; where
  // sources are read, each next to one of its own that is as long.
  std::int64_t texts_at_once(std::int64_t tokens) const {
    return texts_at_once(tokens, std::min(tokens, source_tokens));
  }
  std::int64_t texts_at_once(std::int64_t tokens, std::int64_t source) const {
    if (tokens > longest(source)) return 0;
    return std::min(sequences, blocks / (blocks_of(std::max<std::int64_t>(1, tokens)) + blocks_of(source)));
  }
  // A source is read in one pass: one that is too long for a pass joins the next tokens of answers alone.
  std::int64_t most_tokens() const {
    return reads_sources() ? std::max(pass_tokens, source_tokens + std::min(sequences, pass_tokens))
                           : pass_tokens;
  }
};

// The memory of a pool of keys and values on a rank, and the type of its numbers (infer/cache_type.h).
struct PoolMemory {
  DType type = DType::kF32;
  std::size_t bytes = 0;
};

// A model that runs passes.
class PassModel {
 public:
  virtual ~PassModel() = default;
  virtual const PassLimits& limits() const = 0;
  virtual PoolMemory pool() const { return {}; }
  // A thread other than the one that made the model calls it before it runs passes.
  virtual void use_in_this_thread() {}
  // Logits of the scored tokens of all segments in their order: [plan.scored, vocabulary], valid until the
  // next pass.
  virtual std::span<const float> run(const PassPlan& plan) = 0;
  // Whether the model finds tokens itself, where its logits are.
  virtual bool finds_tokens() const { return false; }
  // As run(), but where the wish for a row is a token, found[row] is that in place of logits, which are left
  // undefined. Only where finds_tokens().
  virtual std::span<const float> run_wishes(const PassPlan&, std::span<const RowWish>,
                                            std::span<FoundToken>) {
    fail<InternalError>("the model finds no tokens");
  }
  // In place of logits the losses -ln p(labels[t]) of all tokens of all segments, valid likewise. Not of
  // every model: PagedModel::Options::losses.
  virtual std::span<const float> losses(const PassPlan&, std::span<const std::int32_t>) {
    fail<InternalError>("the model was not loaded for losses");
  }
  // Calls body(i) for every i below `tasks`, on as many threads as it has.
  virtual void share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) = 0;
};

}  // namespace stoa::infer
