#include "optim/global_norm.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "ops/step_state.h"

namespace stoa::optim {
namespace {

constexpr std::int64_t kBlock = ops::SumSquares::kBlock;

std::span<const ShardPiece> trained_pieces(const nn::ParamSpec& spec) {
  return spec.trained ? std::span(spec.shard.pieces) : std::span<const ShardPiece>();
}

std::int64_t columns_of(const Shape& shape) { return shape.rank() >= 2 ? shape.inner() : 1; }

}  // namespace

GlobalNorm::GlobalNorm(Arena& arena, const ParameterStore& parameters, GradientStore& gradients,
                       std::vector<CanonicalTensor> tensors)
    : arena_(&arena),
      gradients_(gradients),
      layout_(parameters.layout()),
      parallel_(*parameters.data_parallel()) {
  const auto& specs = parameters.specs();
  cut_.resize(layout_.buckets().size());
  if (tensors.empty())
    for (const nn::ParamSpec& spec : specs)
      for (const ShardPiece& piece : trained_pieces(spec))
        tensors.push_back({piece.name, piece.global.elements()});
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::map<std::string, std::int64_t> begins;
  for (const CanonicalTensor& tensor : tensors) {
    if (!begins.emplace(tensor.name, blocks_).second) continue;  // held in several pieces
    const std::int64_t blocks = (tensor.elements + kBlock - 1) / kBlock;
    tensors_.push_back({blocks_, blocks});
    blocks_ += blocks;
  }
  for (std::size_t p = 0; p < specs.size(); ++p)
    for (const ShardPiece& piece : trained_pieces(specs[p])) {
      const auto begin = begins.find(piece.name);
      require<InternalError>(begin != begins.end(), "'{}' is not a tensor of the model", piece.name);
      if (specs[p].update == nn::UpdateRule::kGradient &&
          parameters.is_first_copy({static_cast<int>(p)}, piece))
        add_piece(specs[p], static_cast<int>(p), piece, begin->second);
    }
  std::sort(shared_.begin(), shared_.end(), [](const SharedBlock& a, const SharedBlock& b) {
    return std::tie(a.part.bucket, a.part.range.begin) < std::tie(b.part.bucket, b.part.range.begin);
  });
  sums_ = arena.declare(MemoryCategory::kScalars, {"block sums", DType::kF64, Shape{blocks_ + 1}});
}

void GlobalNorm::add_piece(const nn::ParamSpec& spec, int parameter, const ShardPiece& piece,
                           std::int64_t tensor_begin) {
  const std::int64_t columns = columns_of(piece.global), local = columns_of(spec.shard.local);
  const std::int64_t width = piece.column_count > 0 ? piece.column_count : columns - piece.column_begin;
  const std::int64_t origin = piece.begin * columns + piece.column_begin;
  const std::int64_t first = layout_.member(parameter).begin + piece.memory_row * local;
  const int bucket = layout_.bucket_of(parameter);
  if (width == local) {
    add_part({bucket, {first, first + piece.count * width}, {origin, 0, width, columns}, 0}, tensor_begin);
    return;
  }
  for (std::int64_t row = 0; row < piece.count; ++row)  // padded columns lie between the rows
    add_part(
        {bucket, {first + row * local, first + row * local + width}, {origin + row * columns, 0, 1, 1}, 0},
        tensor_begin);
}

bool GlobalNorm::is_cut(const Part& part) const {
  const auto [begin, end] = part.range;
  const std::int64_t share = layout_.share(part.bucket);
  for (std::int64_t at = (begin / share + 1) * share; at < end; at += share)
    if (part.cut.canonical(at - begin) / kBlock == part.cut.canonical(at - 1 - begin) / kBlock) return true;
  return false;
}

// Blocks are summed by the rank in whose share of the bucket they begin.
void GlobalNorm::add_part(const Part& part, std::int64_t tensor_begin) {
  const auto bucket = static_cast<std::size_t>(part.bucket);
  cut_[bucket] = cut_[bucket] || is_cut(part);
  ops::SumSquares probe;
  probe.x.shape = Shape{part.range.end - part.range.begin};
  probe.cut = part.cut;
  const std::int64_t share = layout_.share(part.bucket);
  const int self = parallel_.shard(layout_.bucket(part.bucket).copies);
  const auto slice = [&](std::int64_t begin, std::int64_t end) {
    Part cut = part;
    cut.range = {part.range.begin + begin, part.range.begin + end};
    cut.cut.skip += begin;
    cut.sums = tensor_begin + part.cut.canonical(begin) / kBlock;
    return cut;
  };
  std::int64_t run = -1;  // first element of a run of whole blocks that this rank sums
  const auto close = [&](std::int64_t end) {
    if (run >= 0) parts_.push_back(slice(run, end));
    run = -1;
  };
  // Blocks are in memory order, so those that overlap this rank's share are consecutive.
  const std::int64_t count = part.range.end - part.range.begin;
  const std::int64_t mine = self * share - part.range.begin;
  if (mine >= count) return;
  const std::int64_t blocks = probe.blocks();
  const std::int64_t first = mine <= 0 ? 0 : part.cut.canonical(mine) / kBlock - probe.first_block();
  for (std::int64_t b = first; b < blocks; ++b) {
    const std::int64_t begin = probe.begin(b), end = probe.begin(b + 1);
    if (begin >= mine + share) return close(begin);
    if (begin == end) continue;
    const std::int64_t from = part.range.begin + begin, to = part.range.begin + end;
    const int owner = static_cast<int>(from / share), last = static_cast<int>((to - 1) / share);
    if (owner != last && parallel_.sharded(1)) {
      close(begin);
      if (self < owner || self > last) continue;
      SharedBlock& block = shared_.emplace_back();
      block.part = slice(begin, end);
      block.owner = owner;
      for (int rank = 0; rank < layout_.bucket(part.bucket).shards; ++rank) {
        const FlatRange held = layout_.range(part.bucket, rank);
        const std::int64_t low = std::clamp(held.begin, from, to);
        block.pieces.push_back({low, std::clamp(held.end, low, to)});
      }
    } else if (owner == self) {
      if (run < 0) run = begin;
    } else {
      close(begin);
    }
  }
  close(count);
}

void GlobalNorm::sum(ops::OpContext& ops, const Part& part, TensorView x) {
  ops::SumSquares op;
  op.x = x;
  op.cut = part.cut;
  op.sums = arena_->view(sums_).slice(part.sums, op.blocks());
  ops::run(ops, op);
}

// Per bucket, at most one block extends into this rank's share from an earlier one, and at most one beyond
// it. One exchange for all ranks of the group: pairwise transfers would need a route for each pair of GPUs.
void GlobalNorm::sum_shared_blocks(ops::OpContext& ops) {
  if (!parallel_.sharded(1)) return;
  auto block = shared_.begin();
  for (int b = 0; b < static_cast<int>(layout_.buckets().size()); ++b) {
    if (!cut_[static_cast<std::size_t>(b)]) continue;
    comm::Communicator& group = parallel_.parallel.along(layout_.bucket(b).copies);
    const auto self = static_cast<std::size_t>(group.rank());
    std::vector<std::int64_t> sends(static_cast<std::size_t>(group.size())), receives(sends.size());
    const std::int64_t begin = layout_.range(b, group.rank()).begin;
    TensorView leaving = gradients_.reduced(b, {begin, begin}), arriving = leaving, whole;
    const Part* own = nullptr;
    Scratch::Frame frame(ops.scratch);
    for (; block != shared_.end() && block->part.bucket == b; ++block) {
      const TensorView held = gradients_.reduced(b, block->pieces[self]);
      if (block->owner != group.rank()) {
        sends[static_cast<std::size_t>(block->owner)] = held.elements();
        leaving = held;
        continue;
      }
      own = &block->part;
      whole = ops.scratch.allocate(held.dtype, {own->range.end - own->range.begin});
      ops::run(ops, ops::Cast{.x = held, .y = whole.slice(0, held.elements())});
      arriving = whole.slice(held.elements(), whole.elements() - held.elements());
      for (std::size_t rank = self + 1; rank < receives.size(); ++rank)
        receives[rank] = block->pieces[rank].end - block->pieces[rank].begin;
    }
    group.all_to_all_v(leaving, sends, arriving, receives, parallel_.stream)->wait();
    if (own) sum(ops, *own, whole);
  }
}

void GlobalNorm::run(ops::OpContext& ops, TensorView state) {
  const TensorView sums = arena_->view(sums_);
  ops::run(ops, ops::FillZero{sums});
  for (const Part& part : parts_) sum(ops, part, gradients_.reduced(part.bucket, part.range));
  sum_shared_blocks(ops);
  comm::Communicator& world = parallel_.parallel.along(parallel::Group::kWorld);
  if (world.size() > 1) {
    const TensorView loss = state.slice(static_cast<int>(ops::StepSlot::kLossSum), 1),
                     last = sums.slice(blocks_, 1);
    if (parallel_.parallel.coordinate(parallel::Axis::kTensor) == 0) ops::run(ops, ops::Cast{loss, last});
    world.all_reduce(sums, comm::ReduceOp::kSum, parallel_.stream)->wait();
    ops::run(ops, ops::Cast{last, loss});
  }
  for (const Tensor& tensor : tensors_)
    ops::run(ops, ops::AddSquares{sums.slice(tensor.begin, tensor.blocks), state});
}

}  // namespace stoa::optim
