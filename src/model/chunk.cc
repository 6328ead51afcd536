#include "model/chunk.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/arena.h"
#include "model/adapter_plan.h"
#include "model/freeze.h"
#include "model/mup.h"
#include "ops/elementwise.h"

namespace stoa::model {

namespace {

nn::Fp8 fp8_of(const Fp8Config& c) {
  return {.forward = DType::kE4M3,
          .gradient = c.fp8 == Fp8Format::kHybrid ? DType::kE5M2 : DType::kE4M3,
          .margin = static_cast<int>(c.fp8_margin),
          .weight_gradient = c.fp8_wgrad};
}

// Appends the parameters of the latest unit whose GEMMs may be in FP8.
void add_linears(const nn::ParamList& params, std::vector<nn::ParamId>& out) {
  for (std::size_t p = 0; p < params.specs().size(); ++p)
    if (const nn::ParamSpec& spec = params.specs()[p];
        !spec.products.empty() && spec.unit + 1 == params.units())
      out.push_back({static_cast<int>(p)});
}

}  // namespace

Chunk::Chunk(const ModelSpec& spec, ChunkOptions options, nn::ParamList* shared, nn::ParamId tied)
    : options_(std::move(options)),
      hidden_(spec.config.hidden_size),
      params_(shared ? shared : &own_params_) {
  const auto& o = options_;
  require<InternalError>(
      o.first_layer >= 0 && o.layers >= 0 && o.first_layer + o.layers <= spec.config.num_layers,
      "layers [{}, {}) of {}", o.first_layer, o.first_layer + o.layers, spec.config.num_layers);
  parallel::check_split(o.place, tensor_split(spec, o.tokens));
  const auto parts = make_architecture(spec, o);
  constants_ = parts->constants();
  params_->set_stored(spec.stored);
  if (spec.adapters) {
    params_->adapt(spec.adapters);
    params_->train_where(
        [plan = spec.adapters](const nn::ParamSpec& parameter) { return plan->trains(parameter); });
    params_->pack_where([kind = spec.adapters->base_kind()](const nn::ParamSpec&) { return kind; });
  } else if (!spec.config.freeze.empty())
    params_->train_where([freeze = spec.config.freeze](const nn::ParamSpec& parameter) {
      return is_trained(freeze, parameter);
    });
  parts->declare_shared(*params_);
  const std::size_t before = params_->grads().size();
  returns_gradient_ = !o.embedding && o.trained_before;
  if (o.embedding) {
    params_->begin_unit(false);
    embedding_ = parts->embedding();
    embedding_->declare(*params_, o.tied_apart);
    returns_gradient_ = params_->grads().size() > before;
  }
  if (o.fp8) fp8_ = fp8_of(spec.config.fp8);
  decisions_ = nn::decide_recompute(o.recompute, o.layers);
  for (std::int64_t i = 0; i < o.layers; ++i) {
    blocks_.push_back(parts->block(o.first_layer + i));
    nn::ActivationTable& table = tables_.emplace_back();
    params_->begin_unit(true);
    blocks_.back()->declare(*params_, table, o.tokens);
    auto& decision = decisions_[static_cast<std::size_t>(i)];
    const bool runs_backward = returns_gradient_ || params_->grads().size() > before;
    if (!runs_backward) {
      decision = nn::keeps_nothing();
      ++lowest_trained_;
    } else if (blocks_.size() == lowest_trained_ + 1) {
      decision.keep_input = true;  // it is not recomputed from that of a block before
    }
    in_fp8_.push_back(o.fp8 && spec.config.fp8.covers(o.first_layer + i, spec.config.num_layers));
    if (in_fp8_.back()) add_linears(*params_, eight_bit_layers_);
    table.resolve(nn::recompute_policy(decision), decision.input(), o.split_backward && runs_backward);
  }
  if (o.head) head_ = parts->head();
  if (head_) {
    params_->begin_unit(false);
    if (embedding_) tied = embedding_->tokens();
    if (!spec.config.ties_head())
      head_->declare(*params_, {});
    else if (tied)
      head_->declare(*params_, tied);
    else
      head_->declare_tied_copy(*params_);
  }
  apply_mup(spec.config, *params_);
}

TensorSpec Chunk::boundary() const {
  return {
      "residual stream", options_.precision.residual, {options_.place.stream_rows(options_.tokens), hidden_}};
}

TensorView Chunk::rows_of(const nn::BatchView& batch, TensorView boundary) const {
  return boundary ? boundary.slice(0, options_.place.stream_rows(batch.tokens.rows())) : boundary;
}

std::size_t Chunk::saved_bytes() const {
  std::size_t total = head_ ? aligned_bytes(boundary().bytes()) : 0;
  for (const auto& table : tables_) total += table.saved_bytes();
  return total;
}

std::size_t Chunk::offloaded_bytes() const {
  std::size_t total = 0;
  for (const auto& table : tables_) total += table.offloaded_bytes();
  return total;
}

std::int64_t Chunk::offloaded_blocks() const {
  return std::count_if(decisions_.begin(), decisions_.end(), [](const auto& d) { return d.offload; });
}

std::size_t Chunk::largest_offload() const {
  std::size_t largest = 0;
  for (const auto& table : tables_) largest = std::max(largest, table.offloaded_bytes());
  return largest;
}

std::size_t Chunk::stash_bytes() const {
  std::size_t total = 0;
  if (options_.split_backward)
    for (std::size_t i = lowest_trained_; i < tables_.size(); ++i) total += tables_[i].stash_bytes();
  return total;
}

void Chunk::bind_constants(std::vector<TensorView> views) {
  require<InternalError>(views.size() == constants_.size(), "{} constants are bound, expected {}",
                         views.size(), constants_.size());
  bound_ = std::move(views);
}

namespace {

TensorView cut(TensorView from, std::size_t offset, std::size_t bytes) {
  if (!from || bytes == 0) return {};
  void* data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(from.data) + offset);
  return TensorView(data, DType::kU8, {static_cast<std::int64_t>(bytes)}, from.device);
}

}  // namespace

Chunk::Slot Chunk::make_slot(TensorView memory, TensorView stash) const {
  require<InternalError>(memory.bytes() >= saved_bytes(), "a slot of {} bytes, expected {}", memory.bytes(),
                         saved_bytes());
  Slot slot;
  std::size_t saved = 0;
  for (const auto& table : tables_) {
    slot.blocks_.emplace_back(table, cut(memory, saved, table.saved_bytes()), TensorView());
    saved += table.saved_bytes();
  }
  if (head_) {
    const TensorSpec spec = boundary();
    slot.head_ = TensorView(cut(memory, saved, spec.bytes()).data, spec.dtype, spec.shape, memory.device);
  }
  set_stash(slot, stash);
  return slot;
}

void Chunk::set_offload(Slot& slot, TensorView host, nn::OffloadRing& ring) const {
  require<InternalError>(host.bytes() >= offloaded_bytes(), "{} bytes to offload to, expected {}",
                         host.bytes(), offloaded_bytes());
  slot.ring_ = &ring;
  slot.offloaded_.clear();
  std::size_t offset = 0;
  for (std::int64_t i = 0; i < offloaded_blocks(); ++i) {
    const std::size_t bytes = tables_[lowest_trained_ + static_cast<std::size_t>(i)].offloaded_bytes();
    slot.offloaded_.emplace_back().host = cut(host, offset, bytes);
    offset += bytes;
  }
}

void Chunk::set_stash(Slot& slot, TensorView stash) const {
  require<InternalError>(!stash || stash.bytes() >= stash_bytes(), "a stash of {} bytes, expected {}",
                         stash.bytes(), stash_bytes());
  std::size_t offset = 0;
  for (std::size_t i = lowest_trained_; i < tables_.size(); ++i) {
    slot.blocks_[i].set_stash(cut(stash, offset, tables_[i].stash_bytes()));
    offset += tables_[i].stash_bytes();
  }
}

std::string Chunk::stream_maker() const {
  return embedding_ ? "embedding" : fmt::format("layers.{}", options_.first_layer - 1);
}

TensorView Chunk::stream(const nn::Pass& pass, std::int64_t tokens) const {
  return pass.ops.scratch.allocate(options_.precision.residual, {tokens, hidden_});
}

nn::Pass Chunk::in_block(const nn::Pass& pass, std::size_t i) const {
  nn::Pass out = pass;
  // A generated token's scales would depend on the other tokens of its pass.
  if (in_fp8_[i] && !pass.cache) out.fp8 = &fp8_;
  return out;
}

namespace {

// Prefetches offloaded activations during backward, as many blocks ahead as the ring has places.
class FetchAhead {
 public:
  FetchAhead(nn::OffloadRing* ring, std::vector<nn::Offloaded>& blocks)
      : ring_(ring), blocks_(blocks), next_(blocks.size()) {
    for (int i = 0; ring_ && i < ring_->places(); ++i) fetch();
  }
  TensorView await(nn::Offloaded& block, Stream& compute) { return ring_->await(block, compute); }
  void release(nn::Offloaded& block, Stream& compute) {
    ring_->release(block, compute);
    fetch();
  }

 private:
  void fetch() {
    if (next_ > 0) ring_->fetch(blocks_[--next_]);
  }

  nn::OffloadRing* ring_;
  std::vector<nn::Offloaded>& blocks_;
  std::size_t next_;  // blocks above are fetched
};

}  // namespace

void Chunk::forward(nn::Pass& pass, Slot& slot, TensorView in, TensorView out) const {
  require<InternalError>(pass.training, "forward() is training's; infer() saves nothing");
  pass.constants = bound_;
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t rows = options_.place.stream_rows(pass.batch.tokens.rows());
  for (auto& saved : slot.blocks_) saved.begin_forward(rows);
  slot.rows_ = rows;
  // Stream tensors that are not kept share one buffer: a block may write its output over its input.
  TensorView passing;
  for (const auto& decision : decisions_)
    if (!decision.keep_input && !passing) passing = stream(pass, rows);
  const auto place = [&](std::size_t i) {
    if (i == blocks_.size()) return head_ ? slot.head_.slice(0, rows) : out;
    return decisions_[i].keep_input ? slot.blocks_[i].input_slot(blocks_[i]->input()) : passing;
  };
  // A block's input is written by the block before it, so its slot is opened one block ahead.
  const auto open = [&](std::size_t i) {
    if (nn::Offloaded* away = offloaded(slot, i))
      slot.blocks_[i].set_slot(slot.ring_->open(*away, pass.ops.stream));
  };
  open(0);
  if (embedding_)
    embedding_->forward(pass, place(0));
  else if (in.data != place(0).data)
    ops::run(pass.ops, ops::Cast{.x = in, .y = place(0)});
  if (pass.probe) pass.probe->forward(stream_maker(), ".output", place(0), {});
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    Scratch::Frame block_frame(pass.ops.scratch);
    nn::Pass inner = in_block(pass, i);
    open(i + 1);
    std::optional<nn::Saved> temporary;  // of a block without a backward pass
    if (i < lowest_trained_) temporary.emplace(tables_[i], rows);
    nn::Saved& saved = temporary ? *temporary : slot.blocks_[i];
    saved.set(inner, blocks_[i]->input(), place(i));
    blocks_[i]->forward(inner, saved, place(i + 1));
    if (nn::Offloaded* away = offloaded(slot, i)) slot.ring_->store(*away, pass.ops.stream);
  }
  if (head_) head_->train(pass, place(blocks_.size()));
}

void Chunk::backward(nn::Pass& pass, Slot& slot, nn::Which which, TensorView dout, TensorView din) const {
  pass.constants = bound_;
  TensorView gradient = head_ ? slot.head_.slice(0, slot.rows_) : dout;
  const TensorView target = din ? din : gradient;  // in place if there is no previous stage
  FetchAhead ahead(slot.ring_, slot.offloaded_);
  for (std::size_t end = blocks_.size(); end > lowest_trained_;) {
    // Blocks [begin, end) share one kept input; the streams between them are recomputed.
    std::size_t begin = end - 1;
    while (!decisions_[begin].keep_input) --begin;
    nn::Offloaded* const away = offloaded(slot, begin);
    if (away) slot.blocks_[begin].set_slot(ahead.await(*away, pass.ops.stream));
    Scratch::Frame frame(pass.ops.scratch);
    std::vector<TensorView> inputs{slot.blocks_[begin].input_slot(blocks_[begin]->input())};
    if (which != nn::Which::kWeight)
      for (std::size_t i = begin; i + 1 < end; ++i) {
        inputs.push_back(stream(pass, slot.rows_));
        Scratch::Frame block_frame(pass.ops.scratch);
        nn::Pass inner = in_block(pass, i);
        nn::Saved& saved = slot.blocks_[i];
        saved.begin_forward(slot.rows_);
        saved.set(inner, blocks_[i]->input(), inputs[i - begin]);
        blocks_[i]->forward(inner, saved, inputs.back());
      }
    for (std::size_t i = end; i-- > begin;) {
      Scratch::Frame block_frame(pass.ops.scratch);
      nn::Pass inner = in_block(pass, i);
      nn::Saved& saved = slot.blocks_[i];
      saved.begin_backward(which);
      if (which != nn::Which::kWeight) saved.set(inner, blocks_[i]->input(), inputs[i - begin]);
      blocks_[i]->backward(inner, saved, which, gradient, target);
      gradient = target;
    }
    if (away) ahead.release(*away, pass.ops.stream);
    end = begin;
  }
  if (which == nn::Which::kWeight || !returns_gradient_) return;
  if (pass.probe) pass.probe->gradient(stream_maker(), ".output", gradient, {});
  if (embedding_)
    embedding_->backward(pass, gradient);
  else if (blocks_.empty() && gradient.data != din.data)
    ops::run(pass.ops, ops::Cast{.x = gradient, .y = din});
}

void Chunk::infer(nn::Pass& pass, TensorView in, const Outputs& outputs) const {
  require<InternalError>(!pass.training, "infer() saves nothing: pass.training must be false");
  pass.constants = bound_;
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t rows = embedding_ ? options_.place.stream_rows(pass.batch.tokens.rows()) : in.rows();
  const TensorView x = stream(pass, rows);
  if (embedding_)
    embedding_->forward(pass, x);
  else
    ops::run(pass.ops, ops::Cast{.x = in, .y = x});
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    Scratch::Frame block_frame(pass.ops.scratch);
    nn::Pass inner = in_block(pass, i);
    nn::Saved saved(tables_[i], rows);
    saved.set(inner, blocks_[i]->input(), x);
    blocks_[i]->forward(inner, saved, x);
  }
  if (outputs.stream) ops::run(pass.ops, ops::Cast{.x = x, .y = outputs.stream});
  if (outputs.losses) head_->evaluate(pass, x, outputs.losses);
  if (outputs.normed) head_->normed_rows(pass, x, outputs.normed);
  if (!outputs.rows.empty()) head_->logits(pass, x, outputs.rows, outputs.logits);
  if (!outputs.pairs.empty()) head_->sentence_logits(pass, x, outputs.pairs, outputs.follows);
}

void Chunk::project(nn::Pass& pass, TensorView normed, TensorView logits) const {
  pass.constants = bound_;
  head_->project(pass, normed, logits);
}

Chunk whole_chunk(const ModelSpec& spec) {
  ChunkOptions options;
  options.layers = spec.config.num_layers;
  options.fp8 = true;
  return Chunk(spec, options);
}

}  // namespace stoa::model
