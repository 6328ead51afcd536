#include "nn/embedding.h"

#include "nn/tensor_columns.h"
#include "nn/tensor_rows.h"
#include "ops/elementwise.h"
#include "ops/muon.h"
#include "ops/quantised_linear.h"

namespace stoa::nn {
namespace {

// Whether the tokens are an encoder-decoder's target.
bool is_target(const Pass& pass) { return pass.batch.source && pass.batch.source != &pass.batch; }

// Dropout masks of source and target are independent.
const char* layer_of(const Pass& pass) { return is_target(pass) ? "embedding.target" : "embedding"; }

// Rows of a table that begins with id `first`, in scratch of the current frame. Ids before it become rows
// below 0, which do not exist.
TensorView rows_of_ids(Pass& pass, TensorView ids, std::int64_t first) {
  if (first == 0) return ids;
  const TensorView out = pass.ops.scratch.allocate(ids.dtype, ids.shape);
  if (out.device == DeviceKind::kMeta) return out;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(ids.elements()));
  pass.ops.device->copy_to_host(rows.data(), ids.data, ids.bytes(), pass.ops.stream);
  pass.ops.stream.synchronize();
  for (std::int32_t& row : rows) row -= static_cast<std::int32_t>(first);
  pass.ops.device->copy_from_host(out.data, rows.data(), out.bytes(), pass.ops.stream);
  pass.ops.stream.synchronize();  // before the vector ends
  return out;
}

}  // namespace

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
      part_(vocabulary_part(options.vocabulary, options.padded_vocabulary, options.place)),
      low_rank_({options.vocabulary, options.padded_vocabulary, options.hidden, options.precision.compute,
                 options.place, part_.ids}) {
  require<InternalError>(options.scale == 1 || options.positions == 0, "words alone are scaled");
  if (options.norm)
    norm_.emplace("embedding.norm", *options.norm, options.hidden, options.place,
                  options.place.splits_stream());
}

ParamSpec Embedding::whole_table(const char* name, std::int64_t rows) const {
  ParamSpec spec = vocabulary_matrix(name, rows, rows, options_.hidden, options_.deviation, {});
  spec.shard.pieces[0].shared = options_.place.split();
  spec.shard.pieces[0].first_copy = options_.place.rank == 0;
  return spec;
}

void Embedding::declare(ParamList& params, bool tied_apart) {
  const auto& o = options_;
  ParamSpec tokens = vocabulary_matrix("embedding.tokens.weight", o.vocabulary, o.padded_vocabulary, o.hidden,
                                       o.deviation, o.place);
  if (tied_apart) tokens.grad_partial_over.push_back(parallel::Group::kEmbedding);
  params.hold_as_stored(tokens);
  require<InternalError>(o.positions == 0 || !tokens.is_stored(),
                         "positions are added by the lookup in a table of numbers");
  tokens_ = params.add(std::move(tokens));
  stored_ = params.spec(tokens_.value).stored;
  // Every rank sees all positions, so their gradients are complete; types only for its rows of the stream.
  if (o.positions > 0) positions_ = params.add(whole_table("embedding.positions.weight", o.positions));
  if (o.token_types > 0) {
    ParamSpec types = whole_table("embedding.types.weight", o.token_types);
    if (o.place.splits_stream()) types.grad_partial_over.push_back(parallel::Group::kTensor);
    types_ = params.add(std::move(types));
  }
  if (norm_) norm_->declare(params);
  low_rank_.declare(params);
  if (!params.adapters()) return;
  beyond_ = params.adapters()->virtual_tokens();
  if (const auto prompt = params.adapters()->prompt())
    prompt_.emplace(*prompt, o.hidden, o.place).declare(params);
  const auto& rows = params.adapters()->token_rows();
  if (rows.empty()) return;
  require<InternalError>(o.renumbered >= 0 && beyond_ == 0, "no ids for trained rows");
  beyond_ = static_cast<std::int64_t>(rows.size());
  token_rows_.emplace(rows, TokenRows::Options{o.hidden, o.deviation, o.place, part_.ids})
      .declare(params, TokenRows::kEmbedding, tied_apart);
}

TensorView Embedding::ids_of(TensorView table) const {
  return is_part() ? table.slice(0, part_.ids.count) : table;
}

TensorView Embedding::positions_of(TensorView table) const {
  return table.slice(options_.first_position, options_.positions - options_.first_position);
}

TensorView Embedding::types_of(const Pass& pass, std::int64_t rows) const {
  return pass.batch.token_types.slice(options_.place.first_row(pass.batch.tokens.rows()), rows);
}

DropoutRows Embedding::dropout(const Pass& pass, const parallel::TensorPlace& place) const {
  return dropout_of(pass, has_late_dropout() ? 0 : options_.dropout, RandomPurpose::kEmbeddingDropout,
                    layer_of(pass), place);
}

DropoutRows Embedding::late_dropout(const Pass& pass) const {
  return dropout_of(pass, options_.dropout, RandomPurpose::kEmbeddingDropout, layer_of(pass), options_.place);
}

TensorView Embedding::target(Pass& pass, GradId id) const {
  const GradTarget out = pass.grads->target(id);
  if (!out.accumulate) ops::run(pass.ops, ops::FillZero{.y = out.tensor});
  return out.tensor;
}

void Embedding::look_up(Pass& pass, TensorView ids, const ops::Dropout& run, std::int64_t begin,
                        TensorView y) const {
  const TensorView table = pass.params.get(tokens_.value);
  if (stored_.count > 0) {
    Scratch::Frame frame(pass.ops.scratch);
    ops::run(pass.ops,
             ops::QuantisedRows{
                 .tokens = rows_of_ids(pass, ids, part_.ids.begin), .w = table, .shape = stored_, .y = y});
    return;
  }
  ops::EmbeddingForward op{
      .tokens = ids, .table = ids_of(table), .positions = {}, .position_table = {}, .dropout = run, .y = y};
  if (positions_) {
    op.positions = pass.batch.positions.slice(begin, y.rows());
    op.position_table = positions_of(pass.params.get(positions_.value));
  }
  set_part(op);
  ops::run(pass.ops, op);
}

// Exactly one rank holds the row of a token: the sum over the ranks only adds zeros to it.
void Embedding::add_tables(Pass& pass, TensorView out) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView partial = partial_rows(pass, options_.place, out), ids = looked_up(pass);
  dropout(pass).each(partial.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    look_up(pass, ids.slice(begin, count), run, begin, partial.slice(begin, count));
  });
  if (low_rank_) low_rank_.forward(pass, ids, dropout(pass), partial);
  add_rows(pass, options_.place, partial, out).wait();
  if (token_rows_) add_beyond(pass, ids, token_rows_->table(pass), out);
  if (options_.scale != 1) ops::run(pass.ops, ops::Combine{.a = options_.scale, .b = 0, .x = out, .y = out});
  // After the scale, which is that of words.
  if (has_prompt(pass)) add_beyond(pass, ids, prompt_->embeddings(pass), out);
}

bool Embedding::has_prompt(const Pass& pass) const { return prompt_ && !is_target(pass); }

TensorView Embedding::looked_up(Pass& pass) const {
  const TensorView tokens = pass.batch.tokens;
  if (!token_rows_) return tokens;
  const TensorView out = pass.ops.scratch.allocate(tokens.dtype, {tokens.rows(), 1});
  copy_rows(pass, pass.constants[static_cast<std::size_t>(options_.renumbered)], out, tokens);
  return out.reshape({tokens.rows()});
}

// The lookups of words left zeros where these ids are, and this one leaves zeros everywhere else.
void Embedding::add_beyond(Pass& pass, TensorView ids, TensorView table, TensorView out) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView rows = pass.ops.scratch.allocate(out.dtype, out.shape);
  const std::int64_t first = options_.place.first_row(pass.batch.tokens.rows());
  dropout(pass, options_.place)
      .each(rows.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
        ops::EmbeddingForward op{.tokens = ids.slice(first + begin, count),
                                 .table = table,
                                 .positions = {},
                                 .position_table = {},
                                 .dropout = run,
                                 .y = rows.slice(begin, count),
                                 .first_id = options_.vocabulary,
                                 .vocabulary = options_.vocabulary + beyond_};
        if (positions_) {
          op.positions = pass.batch.positions.slice(first + begin, count);
          op.position_table = positions_of(pass.params.get(positions_.value));
        }
        ops::run(pass.ops, op);
      });
  ops::run(pass.ops, ops::AddTo{.x = rows, .y = out});
}

void Embedding::prompt_backward(Pass& pass, TensorView dstream) const {
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView dy = gather_rows(pass, options_.place, dstream).wait();
  prompt_->backward(pass, [&](TensorView dtable) {
    dropout(pass).each(dy.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
      ops::run(pass.ops, ops::EmbeddingBackward{.tokens = pass.batch.tokens.slice(begin, count),
                                                .positions = {},
                                                .dropout = run,
                                                .dy = dy.slice(begin, count),
                                                .dtable = dtable,
                                                .dposition_table = {},
                                                .first_id = options_.vocabulary,
                                                .vocabulary = options_.vocabulary + beyond_});
    });
  });
}

void Embedding::token_rows_backward(Pass& pass, TensorView ids, TensorView dy) const {
  const TensorView target = token_rows_->target(pass);
  dropout(pass).each(dy.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    for (const TokenRows::Run& rows : token_rows_->runs())
      ops::run(pass.ops, ops::EmbeddingBackward{.tokens = ids.slice(begin, count),
                                                .positions = {},
                                                .dropout = run,
                                                .dy = dy.slice(begin, count),
                                                .dtable = target.slice(rows.row, rows.count),
                                                .dposition_table = {},
                                                .first_id = options_.vocabulary + rows.row,
                                                .vocabulary = options_.vocabulary + beyond_});
  });
  token_rows_->notify(pass);
}

TensorView Embedding::type_rows(Pass& pass, DType type, Shape shape) const {
  const TensorView out = pass.ops.scratch.allocate(type, shape);
  ops::run(pass.ops, ops::EmbeddingForward{.tokens = types_of(pass, out.rows()),
                                           .table = pass.params.get(types_.value),
                                           .positions = {},
                                           .position_table = {},
                                           .dropout = {},
                                           .y = out});
  return out;
}

void Embedding::norm(Pass& pass, TensorView sum, TensorView normed, TensorView stats) const {
  add_tables(pass, sum);
  if (!types_) return norm_->forward(pass, sum, normed, stats);
  Scratch::Frame frame(pass.ops.scratch);
  const TensorView types = type_rows(pass, pass.params.get(types_.value).dtype, sum.shape);
  norm_->add_forward(pass, sum, types, {}, sum, normed, stats);
}

template <class F>
void Embedding::each_part(Pass& pass, TensorView stream, F&& f) const {
  if (!pass.batch.target) return f(pass, stream);
  std::int64_t row = 0;
  for (const BatchView* part : {pass.batch.source, pass.batch.target}) {
    if (!part->tokens) continue;
    const std::int64_t rows = options_.place.stream_rows(part->tokens.rows());
    Pass own = pass.on(*part);
    f(own, stream.slice(row, rows));
    row += rows;
  }
}

void Embedding::forward(Pass& pass, TensorView out) const {
  each_part(pass, out, [&](Pass& part, TensorView rows) { forward_part(part, rows); });
}
void Embedding::backward(Pass& pass, TensorView dout) const {
  if (!trains()) return;
  const TensorView dtable = tokens_.trained() ? target(pass, tokens_.grad) : TensorView(),
                   dpositions = positions_.trained() ? target(pass, positions_.grad) : TensorView();
  each_part(pass, dout, [&](Pass& part, TensorView rows) { backward_part(part, rows, dtable, dpositions); });
  if (tokens_.trained()) pass.grads->notify(tokens_.grad);
  if (positions_.trained()) pass.grads->notify(positions_.grad);
}

void Embedding::forward_part(Pass& pass, TensorView out) const {
  if (!has_late_dropout()) return add_tables(pass, out);
  Scratch::Frame frame(pass.ops.scratch);
  const DropoutRows dropout = late_dropout(pass);
  TensorView sum;
  if (norm_ || dropout.dropout.p > 0) sum = pass.ops.scratch.allocate(out.dtype, out.shape);
  if (norm_) {
    norm(pass, sum, out, {});
  } else {
    add_tables(pass, out);
    Scratch::Frame inner(pass.ops.scratch);
    ops::run(pass.ops, ops::AddTo{.x = type_rows(pass, out.dtype, out.shape), .y = out});
  }
  if (dropout.dropout.p == 0) return;
  // Dropout is linear: its backward pass applies the same mask.
  dropout_backward(pass, dropout, out, sum);
  ops::run(pass.ops, ops::Cast{.x = sum, .y = out});
}

void Embedding::backward_part(Pass& pass, TensorView dout, TensorView dtable, TensorView dpositions) const {
  Scratch::Frame frame(pass.ops.scratch);
  TensorView dstream = dout;
  const DropoutRows late = late_dropout(pass);
  const bool drops = has_late_dropout() && late.dropout.p > 0;
  if (norm_) {
    Scratch& scratch = pass.ops.scratch;
    dstream = scratch.allocate(dout.dtype, dout.shape);
    Scratch::Frame inner(scratch);
    const TensorView sum = scratch.allocate(dout.dtype, dout.shape),
                     stats = scratch.allocate(options_.precision.vectors(), {dout.rows(), 2});
    norm(pass, sum, dstream, stats);  // the normed rows are not wanted again
    TensorView dnormed = dout;
    if (drops) {
      dnormed = dstream;
      dropout_backward(pass, late, dout, dnormed);
    }
    norm_->backward(
        pass,
        {.x = sum, .stats = stats, .dy = dnormed, .dresidual = {}, .dx = sum, .dropout = {}, .dbranch = {}});
    ops::run(pass.ops, ops::Cast{.x = sum, .y = dstream});
  } else if (drops) {
    dstream = pass.ops.scratch.allocate(dout.dtype, dout.shape);
    dropout_backward(pass, late, dout, dstream);
  }
  if (types_.trained()) {
    ops::run(pass.ops, ops::EmbeddingBackward{.tokens = types_of(pass, dstream.rows()),
                                              .positions = {},
                                              .dropout = {},
                                              .dy = dstream,
                                              .dtable = target(pass, types_.grad),
                                              .dposition_table = {}});
    pass.grads->notify(types_.grad);
  }
  if (has_prompt(pass) && prompt_->trains()) prompt_backward(pass, dstream);
  const bool rows = token_rows_ && token_rows_->trains();
  if (!dtable && !dpositions && !rows && !low_rank_.trains()) return;
  if (options_.scale != 1) {
    const TensorView scaled = pass.ops.scratch.allocate(dstream.dtype, dstream.shape);
    ops::run(pass.ops, ops::Cast{.x = dstream, .y = scaled});
    ops::run(pass.ops, ops::Combine{.a = options_.scale, .b = 0, .x = scaled, .y = scaled});
    dstream = scaled;
  }
  const TensorView dy = gather_rows(pass, options_.place, dstream).wait(), tokens = looked_up(pass),
                   ids = dtable ? ids_of(dtable) : dtable,
                   places = dpositions ? positions_of(dpositions) : dpositions;
  if (rows) token_rows_backward(pass, tokens, dy);
  if (low_rank_.trains()) low_rank_.backward(pass, tokens, dropout(pass), dy);
  if (!dtable && !dpositions) return;
  dropout(pass).each(dy.rows(), [&](std::int64_t begin, std::int64_t count, const ops::Dropout& run) {
    if (!ids) {  // positions alone
      ops::run(pass.ops, ops::EmbeddingBackward{.tokens = pass.batch.positions.slice(begin, count),
                                                .positions = {},
                                                .dropout = run,
                                                .dy = dy.slice(begin, count),
                                                .dtable = places,
                                                .dposition_table = {}});
      return;
    }
    ops::EmbeddingBackward op{.tokens = tokens.slice(begin, count),
                              .positions = {},
                              .dropout = run,
                              .dy = dy.slice(begin, count),
                              .dtable = ids,
                              .dposition_table = places};
    if (places) op.positions = pass.batch.positions.slice(begin, count);
    set_part(op);
    ops::run(pass.ops, op);
  });
}

}  // namespace stoa::nn
