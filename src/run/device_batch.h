// One microbatch in device memory: declared once, refilled for each microbatch.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "data/batch.h"
#include "device/arena.h"
#include "infer/device_segments.h"
#include "nn/pass.h"

namespace stoa::run {

// For masked language models, whose rows may end early: padding is not copied to the device.
struct MaskedOptions {
  bool used = false;
  bool sentences = false;     // rows have a sentence label
  bool one_per_row = false;   // at most one token per row is to be predicted
  bool all_asked = false;     // logits are needed for all tokens, not only for predicted ones
  std::int64_t vector = 0;    // width of the vectors whose gradients a training pass gets; 0: there are none
  bool averaged = false;      // every token of a row is part of its vector, not only the predicted one
  std::int64_t multiple = 1;  // the number of tokens is padded to one: ranks split the stream
};

class DeviceBatch {
 public:
  // `packed`: attention stops at document ends, so that there may be as many segments as tokens. `context`:
  // which tokens of each row this rank holds. `source`: in an encoder-decoder, tokens of the source at the
  // start of a row (data/span_dataset.h); on the device the sources of all rows come before the targets.
  // `kept`: tokens that are kept of a teacher's predictions, of every token; 0: none.
  DeviceBatch(Arena& arena, std::int64_t rows, std::int64_t length, bool packed,
              const parallel::ContextPlace& context = {}, const MaskedOptions& masked = {},
              std::int64_t source = 0, std::int64_t kept = 0);

  // Copies rows [first, first + rows) of a host batch to the device. `first_sample`: global index of row
  // `first` in the run; `sentence_weight`: weight of a row's sentence loss (nn::MaskedTargets).
  const nn::BatchView& stage(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                             Stream& stream, double sentence_weight = 0);
  // What the head compares with in a distillation; what was kept of a teacher is there when it was staged.
  // The teacher's own passes ignore it.
  void teach(nn::Distillation how) {
    how.kept_ids = view_.distillation.kept_ids;
    how.kept_log_probabilities = view_.distillation.kept_log_probabilities;
    view_.distillation = how;
  }
  // Only shapes, for a dry run: one segment per row.
  const nn::BatchView& dry();

  std::int64_t rows() const { return rows_; }
  std::int64_t length() const { return length_; }

 private:
  void bind();  // views of the arena's tensors
  // Stages rows without their padding, and the inputs of the head.
  const nn::BatchView& stage_masked(const data::Batch& batch, std::int64_t first, Stream& stream,
                                    double sentence_weight);
  std::span<const std::int32_t> asked();  // nn::MaskedTargets::asked of the staged batch
  void bind_parts();
  void stage_parts(const data::Batch& batch, std::int64_t first, std::int64_t first_sample, Stream& stream);
  void stage_segments(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                      Stream& stream);
  void stage_kept(const data::Batch& batch, std::int64_t first, Stream& stream);

  Arena* arena_;
  std::int64_t rows_, length_, source_ = 0;
  const parallel::ContextPlace context_;
  std::vector<std::int32_t> kept_;  // tokens of the microbatch that this rank holds
  parallel::ContextOrder order_;    // with context parallelism
  const std::vector<parallel::ContextBlock> blocks_;
  std::vector<infer::DeviceSegments> segments_;  // by block
  const MaskedOptions masked_;
  const std::int64_t top_;  // kept tokens of a teacher's predictions
  Arena::Id tokens_, labels_, mask_, positions_, to_attention_, to_ranks_;
  Arena::Id kept_ids_, kept_log_probabilities_;
  Arena::Id types_, rows_id_, places_, sentence_labels_, sentence_weights_, vectors_;
  // Host buffers of a masked batch.
  struct HostMasked {
    std::vector<std::int32_t> tokens, positions, types, row_begin, rows, places, labels, sentence_labels, all;
    std::vector<float> mask, sentence_weights;
  } host_masked_;
  nn::BatchView view_;
  std::unique_ptr<std::array<nn::BatchView, 2>> parts_;  // source and target; the view refers to them
  bool bound_ = false, ordered_ = false;
  parallel::ContextSegments host_;
  std::vector<std::int32_t> host_ints_;
  std::vector<float> host_floats_;
};

}  // namespace stoa::run
