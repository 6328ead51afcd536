// Consecutive layers of a model: what a pipeline stage runs for one action of its schedule. Without pipeline
// parallelism, one chunk is the whole model.
#pragma once

#include <memory>
#include <span>

#include "model/architecture.h"
#include "nn/fp8.h"
#include "nn/offload_ring.h"

namespace stoa::model {

class Chunk {
 public:
  // Parameters are declared in `shared` (which must outlive the chunk), after those of earlier chunks of the
  // same rank, or in a list of its own. `tied`: the token embedding in `shared`, for a head tied to it.
  Chunk(const ModelSpec& spec, ChunkOptions options, nn::ParamList* shared = nullptr, nn::ParamId tied = {});
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  const ChunkOptions& options() const { return options_; }
  const nn::ParamList& params() const { return *params_; }
  // The first block with something to train at or before it, counted from the chunk's first; -1: it is in
  // front of the blocks. The blocks before it run no backward pass.
  std::int64_t first_trained() const {
    return returns_gradient_ ? -1 : static_cast<std::int64_t>(lowest_trained_);
  }
  // The token embedding, to which a later chunk's head may be tied; empty in a chunk without embedding.
  nn::ParamId token_embedding() const { return embedding_ ? embedding_->tokens() : nn::ParamId(); }
  const std::vector<nn::ActivationTable>& tables() const { return tables_; }  // of its blocks

  // Declared memory of one microbatch in flight, in bytes.
  std::size_t saved_bytes() const;
  std::size_t stash_bytes() const;
  std::size_t offloaded_bytes() const;  // in host memory
  // How many blocks, counted from the first that runs backward, offload their activations between forward and
  // backward.
  std::int64_t offloaded_blocks() const;
  std::size_t largest_offload() const;  // bytes of the largest offloaded block
  // The residual stream between chunks, this rank's rows of it: [T, hidden]. A microbatch whose rows end
  // early has fewer rows.
  TensorSpec boundary() const;
  // The rows of `boundary` that a microbatch uses; an empty view stays empty.
  TensorView rows_of(const nn::BatchView& batch, TensorView boundary) const;

  // Weights of the layers whose GEMMs are in FP8.
  const std::vector<nn::ParamId>& eight_bit_layers() const { return eight_bit_layers_; }
  // Delayed scaling: the scales come from `history`, which must outlive the chunk.
  void scale_by(nn::AmaxAccess& history) { fp8_.history = &history; }

  const std::vector<Constant>& constants() const { return constants_; }
  // Binds the memory of the constants, filled by the caller, before the first pass.
  void bind_constants(std::vector<TensorView> views);

  // Activations of a microbatch between its forward and backward pass.
  class Slot {
    friend class Chunk;
    std::vector<nn::Saved> blocks_;
    std::vector<nn::Offloaded> offloaded_;  // of the first blocks that run backward
    nn::OffloadRing* ring_ = nullptr;
    TensorView head_;        // input of the head; after forward its gradient
    std::int64_t rows_ = 0;  // rows of the stream in this microbatch
  };
  // `memory`: saved_bytes() bytes; `stash`: stash_bytes() bytes, or none.
  Slot make_slot(TensorView memory, TensorView stash = {}) const;
  // Required if blocks are offloaded. `host`: offloaded_bytes() bytes; `ring`: its places hold the largest
  // block; must outlive the slot.
  void set_offload(Slot& slot, TensorView host, nn::OffloadRing& ring) const;
  // Replaces the stash before a backward pass.
  void set_stash(Slot& slot, TensorView stash) const;

  // Training. `in`: the stream from the chunk before (none with embedding); `out`: the stream to the next
  // (none with head). With head, the loss is added to pass.state and the gradients of head and final norm are
  // complete for this microbatch.
  void forward(nn::Pass& pass, Slot& slot, TensorView in, TensorView out) const;
  // kBoth, kInput: `dout` (none with head) -> `din` (none with embedding, and where nothing in front of the
  // chunk is trained; may be dout, which is overwritten). kWeight: reads slot and stash; dout, din are none.
  void backward(nn::Pass& pass, Slot& slot, nn::Which which, TensorView dout, TensorView din) const;

  // What an inference pass returns; each is optional.
  struct Outputs {
    TensorView stream;                    // chunk without head: this rank's rows [T, hidden]
    TensorView losses;                    // [T] accumulation type; needs labels and loss_mask
    TensorView normed;                    // [T, hidden] compute type: Head::normed_rows
    std::span<const std::int32_t> rows;   // tokens whose logits are needed, ascending
    TensorView logits;                    // [rows, padded vocabulary], compute or accumulation type
    std::span<const std::int32_t> pairs;  // first tokens of pairs of sentences that are to be judged
    TensorView follows;                   // [pairs, 2]
  };
  // Evaluation and generation: saves no activations; the number of tokens is that of the batch. pass.training
  // must be false.
  void infer(nn::Pass& pass, TensorView in, const Outputs& outputs) const;
  // Needs a head: makes this rank's logits of some rows of Outputs::normed.
  void project(nn::Pass& pass, TensorView normed, TensorView logits) const;

 private:
  TensorView stream(const nn::Pass& pass, std::int64_t tokens) const;
  // Where a block's activations are kept in host memory; null if they are not.
  nn::Offloaded* offloaded(Slot& slot, std::size_t block) const {
    const std::size_t place = block - lowest_trained_;
    return block >= lowest_trained_ && place < slot.offloaded_.size() ? &slot.offloaded_[place] : nullptr;
  }
  // The pass with the settings of block `i`.
  nn::Pass in_block(const nn::Pass& pass, std::size_t i) const;
  std::string stream_maker() const;  // name of the layer whose output is the chunk's input

  ChunkOptions options_;
  std::int64_t hidden_;
  nn::ParamList own_params_;
  nn::ParamList* params_;
  std::vector<Constant> constants_;
  std::vector<TensorView> bound_;
  std::vector<nn::BlockDecision> decisions_;
  nn::Fp8 fp8_;
  std::vector<bool> in_fp8_;  // by block
  // Blocks before it do not run backward: nothing in them or in front of them is trained.
  std::size_t lowest_trained_ = 0;
  bool returns_gradient_ = true;  // of the input of the blocks, to what is in front of them
  std::vector<nn::ParamId> eight_bit_layers_;
  std::unique_ptr<nn::Embedding> embedding_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
  std::vector<nn::ActivationTable> tables_;
  std::unique_ptr<nn::Head> head_;
};

// The whole model as one chunk: to list its parameters, whatever part of them a rank holds.
Chunk whole_chunk(const ModelSpec& spec);

}  // namespace stoa::model
