// The context of a forward or backward pass, handed to every module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/param.h"
#include "nn/probe.h"
#include "nn/teacher.h"
#include "ops/op_context.h"
#include "parallel/context_place.h"
#include "parallel/parallel_context.h"

namespace stoa::nn {

// What the head of a masked language model needs of a microbatch: M tokens that are to be predicted, and the
// first token of each of its rows.
struct MaskedTargets {
  TensorView rows;              // int32 [M + rows]: local tokens
  TensorView places;            // int32 [T]: a token's index in `rows`; M + rows: not in it
  TensorView labels;            // int32 [M]
  TensorView mask;              // fp32 [M]
  TensorView sentence_labels;   // int32 [rows]
  TensorView sentence_weights;  // fp32 [rows]: valid tokens per sample of the global batch
  // Tokens whose logits the validation of a labelled task needs; in host memory, ascending.
  std::span<const std::int32_t> asked;
  // Embedding models, in training: gradient of every row's vector, fp32 [rows, hidden], divided by the number
  // of tokens that the vector is the mean of. `places` then refer to the row of each token that is part of a
  // vector.
  TensorView vector_gradients = {};
};

// One microbatch on the device: the tokens of its rows, one row after the other, or the part of them that
// this rank of a context-parallel group holds (parallel/context_place.h). T = rows * length, or fewer if rows
// end early: padding is not sent to the device.
struct BatchView {
  std::int64_t rows = 0, length = 0;
  std::int64_t first_sample = 0;  // global index of row 0; row i is sample first_sample + i
  TensorView tokens;              // int32 [T]
  TensorView labels;              // int32 [T]; none in inference
  TensorView loss_mask;           // fp32 [T]
  TensorView positions;           // int32 [T]
  TensorView token_types;         // int32 [T]; for models that have types
  MaskedTargets masked;           // for masked language models
  Distillation distillation;
  // First token of every row, and T; in host memory, ascending. None: every row has `length` tokens.
  std::span<const std::int32_t> row_begin;
  std::int64_t filling = 0;         // tokens that pad the last row (DeviceBatch)
  ops::AttentionSegments segments;  // of all tokens: one per row, or one per document

  // Encoder-decoders: the two parts of the tokens, the source's first; both have the same `source`. Otherwise
  // none.
  const BatchView *source = nullptr, *target = nullptr;
  ops::AttentionSegments cross_segments;  // of a target: its tokens' queries, the source's keys
  std::int64_t source_tokens() const { return source && source->tokens ? source->tokens.rows() : 0; }

  // Context parallelism; none otherwise.
  parallel::ContextPlace context;
  TensorView to_attention, to_ranks;  // parallel::ContextOrder, int32
  // For the blocks of parallel::context_blocks(context), if there are several.
  std::vector<ops::AttentionSegments> context_segments;
};

// Keys and values of one layer during generation, in blocks, perhaps in a type of their own
// (ops/cache_rows.h): [blocks, heads, rows, cached_width(d)]. Latent attention has one "head" of [latent |
// rotated key] for both, under either name.
struct KvLayer {
  TensorView keys, values;
  // Linear attention has these instead: the last inputs of its convolution, and the states of its heads
  // (ops/short_conv.h, ops/gated_delta.h). They summarise the whole text, so tokens must come in order.
  TensorView convolved, state;
};
// Cache of all layers; segments of the pass refer to its blocks.
struct KvCache {
  std::vector<KvLayer> layers;  // by global layer number
  // int32: the rows of blocks where keys and values of the batch's tokens go (with an encoder-decoder: of its
  // targets' tokens), and those of the tokens of sources, for cross-attention, in the same tensors.
  TensorView own, source;
};

struct Fp8;
struct AdapterRun;

struct Pass {
  ops::OpContext& ops;
  const parallel::ParallelContext& parallel;
  ParamAccess& params;
  GradAccess* grads = nullptr;  // none in inference
  const BatchView& batch;
  TensorView state = {};                       // ops::StepSlot scalars; none in inference
  std::uint64_t seed = 0;                      // of dropout
  bool training = false;                       // dropout is active, activations are saved
  KvCache* cache = nullptr;                    // generation
  std::span<const TensorView> constants = {};  // of the chunk (rotary tables); set by it
  Probe* probe = nullptr;                      // none: no observation
  const Fp8* fp8 = nullptr;                    // linear layers in FP8 (nn/fp8.h); set by the chunk
  std::span<const AdapterRun> adapted = {};  // whose rows are whose (nn/adapted_rows.h); none: all are alike

  // The same pass over a part of its tokens.
  Pass on(const BatchView& part) const {
    return {.ops = ops,
            .parallel = parallel,
            .params = params,
            .grads = grads,
            .batch = part,
            .state = state,
            .seed = seed,
            .training = training,
            .cache = cache,
            .constants = constants,
            .probe = probe,
            .fp8 = fp8,
            .adapted = adapted};
  }

  // Show a tensor of a layer to the probe, if there is one.
  void show(std::string_view layer, std::string_view tensor, TensorView view, Columns columns = {}) const {
    if (probe) probe->forward(layer, tensor, view, columns);
  }
  void show_gradient(std::string_view layer, std::string_view tensor, TensorView view,
                     Columns columns = {}) const {
    if (probe) probe->gradient(layer, tensor, view, columns);
  }
};

// Which gradients a backward pass computes. kBoth = kInput then kWeight of the same microbatch, without a
// stash.
enum class Which : std::uint8_t { kBoth, kInput, kWeight };

}  // namespace stoa::nn
