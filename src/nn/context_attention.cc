#include "nn/context_attention.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "nn/context_ring.h"
#include "nn/key_values.h"
#include "nn/tensor_columns.h"

namespace stoa::nn {
namespace {

using parallel::Axis;
using parallel::ContextKind;
using parallel::ContextPlace;

TensorView matrix(TensorView x) { return x.reshape({x.rows(), x.shape.inner()}); }

comm::Communicator& group_of(Pass& pass) { return pass.parallel.along(Axis::kContext); }

// Keys and values of all ranks in the order of the sequence.
PackedKeyValues gather(Pass& pass, TensorView k, TensorView v) {
  const std::int64_t tokens = k.rows() * pass.batch.context.size;
  const PackedKeyValues out = PackedKeyValues::allocate(pass, k.dtype, tokens, k);
  Scratch::Frame frame(pass.ops.scratch);
  const PackedKeyValues own = PackedKeyValues::of(pass, k, v),
                        all = PackedKeyValues::allocate(pass, k.dtype, tokens, k);
  group_of(pass).all_gather(own.both, all.both, pass.ops.stream)->wait();
  copy_rows(pass, all.both, out.both, pass.batch.to_attention);
  return out;
}

void gather_forward(Pass& pass, const ops::AttentionForward& op, const Sinks& sinks) {
  Scratch::Frame frame(pass.ops.scratch);
  const PackedKeyValues all = gather(pass, op.k, op.v);
  for (int chunk = 0; chunk < 2; ++chunk) {
    ops::AttentionForward run = op;
    run.segments = pass.batch.context_segments[static_cast<std::size_t>(chunk)];
    run.k = all.k();
    run.v = all.v();
    run.q = chunk_of(op.q, chunk);
    run.o = chunk_of(op.o, chunk);
    run.lse = chunk_of(op.lse, chunk);
    ops::run(pass.ops, run);
  }
  sinks.enter(pass, op.o, op.lse);
}

void gather_backward(Pass& pass, const ops::AttentionBackward& op) {
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t tokens = op.k.rows() * pass.batch.context.size;
  const PackedKeyValues gradient = PackedKeyValues::allocate(pass, op.k.dtype, tokens, op.k);
  {
    Scratch::Frame inner(pass.ops.scratch);
    const PackedKeyValues all = gather(pass, op.k, op.v);
    const PackedKeyValues late = PackedKeyValues::allocate(pass, op.k.dtype, tokens, op.k);
    for (int chunk = 0; chunk < 2; ++chunk) {
      const PackedKeyValues& target = chunk == 0 ? gradient : late;
      ops::AttentionBackward run = of_queries(op, chunk);
      run.segments = pass.batch.context_segments[static_cast<std::size_t>(chunk)];
      run.k = all.k();
      run.v = all.v();
      run.dk = target.k();
      run.dv = target.v();
      ops::run(pass.ops, run);
    }
    ops::run(pass.ops, ops::AddTo{.x = late.both, .y = gradient.both});
  }
  const PackedKeyValues by_rank = PackedKeyValues::allocate(pass, op.k.dtype, tokens, op.k),
                        own = PackedKeyValues::allocate(pass, op.k.dtype, op.k.rows(), op.k);
  copy_rows(pass, gradient.both, by_rank.both, pass.batch.to_ranks);
  group_of(pass).reduce_scatter(by_rank.both, own.both, pass.ops.stream)->wait();
  own.copy_to(pass, op.dk, op.dv);
}

// Exchanges tokens for heads among neighbours. A tensor [tokens, H, d] of this rank's tokens becomes [tokens
// of all neighbours, H / ranks, d], in the order that attention needs, and back.
class HeadExchange {
 public:
  explicit HeadExchange(Pass& pass) : pass_(pass), place_(pass.batch.context), ranks_(place_.exchanging()) {}

  TensorView allocate_by_heads(const TensorView& x) const {
    return pass_.ops.scratch.allocate(x.dtype, {x.rows() * ranks_, x.shape[1] / ranks_, x.shape[2]});
  }

  TensorView to_heads(TensorView x) const {
    const TensorView out = allocate_by_heads(x);
    Scratch::Frame frame(pass_.ops.scratch);
    const std::int64_t rows = x.rows(), width = x.shape.inner() / ranks_;
    const TensorView send = pass_.ops.scratch.allocate(x.dtype, {rows * ranks_, width}),
                     received = pass_.ops.scratch.allocate(x.dtype, {rows * ranks_, width});
    for (int peer = 0; peer < ranks_; ++peer)
      copy_rows(pass_, matrix(x).columns(peer * width, width), send.slice(peer * rows, rows));
    exchange(send, received);
    copy_rows(pass_, received, matrix(out), pass_.batch.to_attention);
    return out;
  }

  void to_tokens(TensorView x, TensorView out) const {
    Scratch::Frame frame(pass_.ops.scratch);
    const std::int64_t rows = out.rows(), width = x.shape.inner();
    const TensorView send = pass_.ops.scratch.allocate(x.dtype, {rows * ranks_, width}),
                     received = pass_.ops.scratch.allocate(x.dtype, {rows * ranks_, width});
    copy_rows(pass_, matrix(x), send, pass_.batch.to_ranks);
    exchange(send, received);
    for (int peer = 0; peer < ranks_; ++peer)
      copy_rows(pass_, received.slice(peer * rows, rows), matrix(out).columns(peer * width, width));
  }

  // The log-sum-exp [tokens, H] has as many elements by tokens as by heads; it is kept by heads.
  TensorView lse_by_heads(TensorView lse) const {
    return lse ? lse.reshape({lse.rows() * ranks_, lse.shape[1] / ranks_}) : lse;
  }
  // Columns of a relative bias [offsets, H] that belong to this rank's heads.
  TensorView of_heads(TensorView table) const {
    if (!table) return table;
    const std::int64_t heads = table.shape[1] / ranks_;
    return table.columns(place_.rank % ranks_ * heads, heads);
  }
  Sinks of_heads(const Sinks& sinks) const {
    const std::int64_t heads = sinks ? sinks.values.shape[0] / ranks_ : 0;
    return sinks.of_heads(place_.rank % ranks_ * heads, heads);
  }
  ops::AttentionOptions options(ops::AttentionOptions options, const TensorView& q) const {
    options.first_head += place_.rank % ranks_ * (q.shape[1] / ranks_);
    return options;
  }

 private:
  // Equal numbers of rows for each neighbour, none for other ranks.
  void exchange(TensorView send, TensorView received) const {
    comm::Communicator& group = group_of(pass_);
    if (ranks_ == place_.size) return group.all_to_all(send, received, pass_.ops.stream)->wait();
    std::vector<std::int64_t> rows(static_cast<std::size_t>(place_.size), 0);
    const int first = place_.rank / ranks_ * ranks_;
    std::fill_n(rows.begin() + first, ranks_, send.rows() / ranks_);
    group.all_to_all_v(send, rows, received, rows, pass_.ops.stream)->wait();
  }

  Pass& pass_;
  const ContextPlace place_;
  const int ranks_;
};

// Core attention after the exchange: on the rank's tokens alone, or in a ring of the remaining ranks.
void after_exchange(Pass& pass, ops::AttentionForward op, const Sinks& sinks) {
  op.segments = pass.batch.segments;
  if (pass.batch.context.outer().split()) return ring_attention(pass, op, sinks);
  ops::run(pass.ops, op);
  sinks.enter(pass, op.o, op.lse);
}
void after_exchange(Pass& pass, ops::AttentionBackward op, const Sinks& sinks) {
  op.segments = pass.batch.segments;
  sinks.add_gradient(pass, op);
  if (pass.batch.context.outer().split()) return ring_attention(pass, op);
  ops::run(pass.ops, op);
}

void exchange_forward(Pass& pass, const ops::AttentionForward& op, const Sinks& sinks) {
  Scratch::Frame frame(pass.ops.scratch);
  const HeadExchange exchange(pass);
  ops::AttentionForward run = op;
  run.options = exchange.options(op.options, op.q);
  run.q = exchange.to_heads(op.q);
  run.k = exchange.to_heads(op.k);
  run.v = exchange.to_heads(op.v);
  run.o = exchange.allocate_by_heads(op.o);
  run.lse = exchange.lse_by_heads(op.lse);
  run.relative_bias = exchange.of_heads(op.relative_bias);
  after_exchange(pass, run, exchange.of_heads(sinks));
  exchange.to_tokens(run.o, op.o);
}

void exchange_backward(Pass& pass, const ops::AttentionBackward& op, Sinks sinks) {
  Scratch::Frame frame(pass.ops.scratch);
  const HeadExchange exchange(pass);
  if (sinks.gradient &&
      !std::exchange(sinks.accumulate, true))  // other ranks have the gradients of other heads
    ops::run(pass.ops, ops::FillZero{sinks.gradient});
  ops::AttentionBackward run = op;
  run.options = exchange.options(op.options, op.q);
  run.dq = exchange.allocate_by_heads(op.q);
  run.dk = exchange.allocate_by_heads(op.k);
  run.dv = exchange.allocate_by_heads(op.v);
  run.relative_bias = exchange.of_heads(op.relative_bias);
  run.drelative_bias = exchange.of_heads(op.drelative_bias);
  {
    Scratch::Frame inner(pass.ops.scratch);
    run.q = exchange.to_heads(op.q);
    run.k = exchange.to_heads(op.k);
    run.v = exchange.to_heads(op.v);
    run.o = exchange.to_heads(op.o);
    run.dout = exchange.to_heads(op.dout);
    run.lse = exchange.lse_by_heads(op.lse);
    after_exchange(pass, run, exchange.of_heads(sinks));
  }
  exchange.to_tokens(run.dq, op.dq);
  exchange.to_tokens(run.dk, op.dk);
  exchange.to_tokens(run.dv, op.dv);
}

}  // namespace

void context_attention(Pass& pass, const ops::AttentionForward& op, const Sinks& sinks) {
  if (pass.batch.context.exchanging() > 1) return exchange_forward(pass, op, sinks);
  if (pass.batch.context.kind == ContextKind::kAllGather) return gather_forward(pass, op, sinks);
  ring_attention(pass, op, sinks);
}

void context_attention(Pass& pass, const ops::AttentionBackward& op, const Sinks& sinks) {
  if (pass.batch.context.exchanging() > 1) return exchange_backward(pass, op, sinks);
  sinks.add_gradient(pass, op);
  if (pass.batch.context.kind == ContextKind::kAllGather) return gather_backward(pass, op);
  ring_attention(pass, op);
}

}  // namespace stoa::nn
