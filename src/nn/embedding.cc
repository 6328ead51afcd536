#include "nn/embedding.h"

#include "nn/tensor_rows.h"

namespace stoa::nn {

VocabularyPart vocabulary_part(std::int64_t vocabulary, std::int64_t padded,
                               const parallel::TensorPlace& place) {
  return {parallel::part_of(vocabulary, place.size, place.rank), (padded + place.size - 1) / place.size};
}

ParamSpec vocabulary_matrix(std::string name, std::int64_t vocabulary, std::int64_t padded,
                            std::int64_t hidden, double deviation, const parallel::TensorPlace& place) {
  const VocabularyPart part = vocabulary_part(vocabulary, padded, place);
  ParamSpec spec;
  spec.name = name;
  spec.shard = ShardSpec::whole(std::move(name), {vocabulary, hidden});
  spec.shard.local = {part.rows, hidden};
  spec.shard.pieces[0].begin = part.ids.begin;
  spec.shard.pieces[0].count = part.ids.count;
  spec.init = {InitKind::kNormal, deviation};
  return spec;
}

Embedding::Embedding(const EmbeddingOptions& options)
    : options_(options),
      part_(vocabulary_part(options.vocabulary, options.padded_vocabulary, options.place)) {}

void Embedding::declare(ParamList& params, bool tied_apart) {
  const auto& o = options_;
  ParamSpec tokens = vocabulary_matrix("embedding.tokens.weight", o.vocabulary, o.padded_vocabulary, o.hidden,
                                       o.deviation, o.place);
  if (tied_apart) tokens.grad_partial_over.push_back(parallel::Axis::kPipeline);
  tokens_ = params.add(std::move(tokens));
  if (o.positions == 0) return;
  ParamSpec positions =
      vocabulary_matrix("embedding.positions.weight", o.positions, o.positions, o.hidden, o.deviation, {});
  positions.shard.pieces[0].shared = o.place.split();  // every rank sees every position: gradients are whole
  positions.shard.pieces[0].first_copy = o.place.rank == 0;
  positions_ = params.add(std::move(positions));
}

TensorView Embedding::ids_of(TensorView table) const {
  return options_.place.split() ? table.slice(0, part_.ids.count) : table;
}

DropoutRows Embedding::dropout(const Pass& pass) const {
  return dropout_of(pass, options_.dropout, RandomPurpose::kEmbeddingDropout, "embedding");
}

// Of every token one rank has the row: the sum over the ranks adds nothing but zeros to it.
void Embedding::forward(Pass& pass, TensorView out) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView partial = partial_rows(pass, options_.place, out);
  dropout(pass).each(partial.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    ops::EmbeddingForward op{.tokens = pass.batch.tokens.slice(begin, count),
                             .table = ids_of(pass.params.get(tokens_.value)),
                             .positions = {},
                             .position_table = {},
                             .dropout = run,
                             .y = partial.slice(begin, count)};
    if (positions_) {
      op.positions = pass.batch.positions.slice(begin, count);
      op.position_table = pass.params.get(positions_.value);
    }
    if (options_.place.split()) op.first_id = part_.ids.begin, op.vocabulary = options_.vocabulary;
    ops::run(pass.ops, op);
  });
  add_rows(pass, options_.place, partial, out).wait();
}

void Embedding::backward(Pass& pass, TensorView dout) const {
  Scratch::Frame frame(pass.ops.scratch);
  // The operation adds single rows: before the first microbatch of a step the others must be zero.
  const auto target = [&](GradId id) {
    const GradTarget out = pass.grads->target(id);
    if (!out.accumulate) ops::run(pass.ops, ops::FillZero{.y = out.tensor});
    return out.tensor;
  };
  const TensorView dy = gather_rows(pass, options_.place, dout).wait(), dtable = ids_of(target(tokens_.grad)),
                   dpositions = positions_ ? target(positions_.grad) : TensorView();
  dropout(pass).each(dy.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    ops::EmbeddingBackward op{.tokens = pass.batch.tokens.slice(begin, count),
                              .positions = {},
                              .dropout = run,
                              .dy = dy.slice(begin, count),
                              .dtable = dtable,
                              .dposition_table = dpositions};
    if (positions_) op.positions = pass.batch.positions.slice(begin, count);
    if (options_.place.split()) op.first_id = part_.ids.begin, op.vocabulary = options_.vocabulary;
    ops::run(pass.ops, op);
  });
  pass.grads->notify(tokens_.grad);
  if (positions_) pass.grads->notify(positions_.grad);
}

}  // namespace stoa::nn
