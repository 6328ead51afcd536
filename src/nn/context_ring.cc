#include "nn/context_ring.h"

#include <array>
#include <memory>
#include <utility>

#include "nn/key_values.h"
#include "parallel/routes.h"

namespace stoa::nn {
namespace {

using parallel::ContextBlock;

// Neighbours in the ring, and the messages in flight between them. Messages in both directions of a pair are
// posted in the same order on both sides.
class Ring {
 public:
  explicit Ring(Pass& pass)
      : pass_(pass),
        group_(pass.parallel.along(parallel::Axis::kContext)),
        ring_(parallel::context_ring(pass.batch.context)) {}
  int size() const { return ring_.size; }
  std::unique_ptr<Event> send(TensorView x) { return group_.send(x, ring_.next, pass_.ops.stream); }
  std::unique_ptr<Event> receive(TensorView x) { return group_.receive(x, ring_.previous, pass_.ops.stream); }

 private:
  Pass& pass_;
  comm::Communicator& group_;
  const parallel::ContextRing ring_;
};

void wait(std::unique_ptr<Event>& event) {
  if (event) event->wait();
  event.reset();
}

// A block's part of the sums of a chunk: the first that there is begins them.
void add_part(Pass& pass, const TensorView& part, const TensorView& sums, bool& begun) {
  if (std::exchange(begun, true))
    ops::run(pass.ops, ops::AddTo{.x = part, .y = sums});
  else
    ops::run(pass.ops, ops::Cast{.x = part, .y = sums});
}

// Calls body(block, its segments) for the blocks of a step in which some key is visible.
template <class Body>
void for_each_block(const Pass& pass, const std::vector<ContextBlock>& blocks, int step, Body&& body) {
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const ops::AttentionSegments& segments = pass.batch.context_segments[b];
    if (blocks[b].step == step && segments.longest_k > 0) body(blocks[b], segments);
  }
}

}  // namespace

void ring_attention(Pass& pass, const ops::AttentionForward& op, const Sinks& sinks) {
  Scratch::Frame frame(pass.ops.scratch);
  auto& scratch = pass.ops.scratch;
  const DType sums = accumulation_type(op.o.dtype);
  const std::vector<ContextBlock> blocks = parallel::context_blocks(pass.batch.context, pass.batch.length);
  Ring ring(pass);
  const TensorView o = op.o.dtype == sums ? op.o : scratch.allocate(sums, op.o.shape);
  const TensorView lse = op.lse ? op.lse : scratch.allocate(sums, {op.q.rows(), op.q.shape[1]});
  const TensorView part = scratch.allocate(op.o.dtype, chunk_of(op.o, 0).shape),
                   part_lse = scratch.allocate(sums, chunk_of(lse, 0).shape);
  PackedKeyValues held = PackedKeyValues::of(pass, op.k, op.v);
  PackedKeyValues arriving = PackedKeyValues::allocate(pass, op.k.dtype, op.k.rows(), op.k);
  std::array<bool, 2> begun{};  // by chunk of queries: `o` and `lse` have a part
  for (int step = 0; step < ring.size(); ++step) {
    std::unique_ptr<Event> sent, received;
    if (step + 1 < ring.size()) {
      received = ring.receive(arriving.both);
      sent = ring.send(held.both);
    }
    for_each_block(pass, blocks, step,
                   [&](const ContextBlock& block, const ops::AttentionSegments& segments) {
                     ops::AttentionForward run = op;
                     run.segments = segments;
                     run.q = chunk_of(op.q, block.q_chunk);
                     run.k = chunk_of(held.k(), block.k_chunk);
                     run.v = chunk_of(held.v(), block.k_chunk);
                     run.o = part;
                     run.lse = part_lse;
                     const TensorView to = chunk_of(o, block.q_chunk), to_lse = chunk_of(lse, block.q_chunk);
                     if (std::exchange(begun[static_cast<std::size_t>(block.q_chunk)], true)) {
                       ops::run(pass.ops, run);
                       ops::run(pass.ops, ops::AttentionMerge{part, part_lse, to, to_lse});
                       return;
                     }
                     run.lse = to_lse;
                     if (op.o.dtype == sums) run.o = to;
                     ops::run(pass.ops, run);
                     if (op.o.dtype != sums) ops::run(pass.ops, ops::Cast{.x = part, .y = to});
                   });
    wait(received);
    wait(sent);
    std::swap(held, arriving);
  }
  sinks.enter(pass, o, lse);
  if (op.o.dtype != sums) ops::run(pass.ops, ops::Cast{.x = o, .y = op.o});
}

// Gradients of the keys that a rank holds at a step arrive while it computes its part of them, and continue
// with it to the rank that has the keys next; the last of them sends them home.
void ring_attention(Pass& pass, const ops::AttentionBackward& op) {
  Scratch::Frame frame(pass.ops.scratch);
  auto& scratch = pass.ops.scratch;
  const DType type = op.q.dtype, sums = accumulation_type(type);
  const std::vector<ContextBlock> blocks = parallel::context_blocks(pass.batch.context, pass.batch.length);
  Ring ring(pass);
  const TensorView dq = scratch.allocate(sums, op.q.shape);
  const TensorView part = scratch.allocate(type, chunk_of(dq, 0).shape);
  const PackedKeyValues key_part = PackedKeyValues::allocate(pass, type, op.k.rows() / 2, op.k);
  PackedKeyValues held = PackedKeyValues::of(pass, op.k, op.v);
  PackedKeyValues arriving = PackedKeyValues::allocate(pass, type, op.k.rows(), op.k);
  PackedKeyValues gradient = PackedKeyValues::allocate(pass, sums, op.k.rows(), op.k);
  PackedKeyValues gradient_arriving = PackedKeyValues::allocate(pass, sums, op.k.rows(), op.k);
  std::array<bool, 2> dq_begun{}, gradient_begun{};  // in step 0 every chunk meets its own keys
  std::unique_ptr<Event> gradient_sent;
  for (int step = 0; step < ring.size(); ++step) {
    std::unique_ptr<Event> sent, received, gradient_received;
    if (step > 0) gradient_received = ring.receive(gradient.both);
    if (step + 1 < ring.size()) {
      received = ring.receive(arriving.both);
      sent = ring.send(held.both);
    }
    for_each_block(
        pass, blocks, step, [&](const ContextBlock& block, const ops::AttentionSegments& segments) {
          ops::AttentionBackward run = of_queries(op, block.q_chunk);
          run.segments = segments;
          run.k = chunk_of(held.k(), block.k_chunk);
          run.v = chunk_of(held.v(), block.k_chunk);
          run.dq = part;
          run.dk = key_part.k();
          run.dv = key_part.v();
          ops::run(pass.ops, run);
          const auto q = static_cast<std::size_t>(block.q_chunk), k = static_cast<std::size_t>(block.k_chunk);
          add_part(pass, part, chunk_of(dq, block.q_chunk), dq_begun[q]);
          wait(gradient_received);
          add_part(pass, key_part.both, chunk_of(gradient.both, block.k_chunk), gradient_begun[k]);
        });
    wait(gradient_received);  // where no block was visible
    wait(received);
    wait(sent);
    std::swap(held, arriving);
    wait(gradient_sent);
    gradient_sent = ring.send(gradient.both);
    std::swap(gradient, gradient_arriving);
  }
  ring.receive(gradient.both)->wait();
  wait(gradient_sent);
  {
    Scratch::Frame inner(scratch);
    const TensorView whole = type == sums ? dq : scratch.allocate(type, dq.shape);
    if (type != sums) ops::run(pass.ops, ops::Cast{.x = dq, .y = whole});
    ops::run(pass.ops, ops::CopyRows{.x = whole.reshape({whole.rows(), whole.shape.inner()}),
                                     .index = {},
                                     .y = op.dq.reshape({op.dq.rows(), op.dq.shape.inner()})});
  }
  if (type != sums) {
    ops::run(pass.ops, ops::Cast{.x = gradient.both, .y = held.both});
    held.copy_to(pass, op.dk, op.dv);
  } else {
    gradient.copy_to(pass, op.dk, op.dv);
  }
}

}  // namespace stoa::nn
