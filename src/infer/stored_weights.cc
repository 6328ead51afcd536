// Matrices in the numbers of the files (nn::ParamSpec::stored).
#include <algorithm>

#include "infer/host_window.h"
#include "infer/model_files.h"
#include "infer/read_weights.h"
#include "nn/stored_weight.h"

namespace stoa::infer {

namespace hf = model::huggingface;

std::optional<ckpt::TensorSource::Blocks> ModelFiles::blocks_of(std::size_t i) const {
  const hf::Tensor& tensor = wanted_[i];
  const std::string& name = match_.names[i];
  if (tensor.shape.rank() != (tensor.experts > 1 ? 3 : 2) || tensor.transposed || tensor.zero_centered ||
      packed_.contains(name))
    return std::nullopt;
  auto blocks = tensors_->blocks(tensors_->entry(name));
  if (!blocks || !quant::matrix_layout(blocks->format->type)) return std::nullopt;
  return blocks;
}

std::shared_ptr<const nn::StoredTypes> ModelFiles::stored_types(bool experts) const {
  // A matrix of latent attention is read by its columns, too.
  if (model_.config.latent.multi_latent_attention) return nullptr;
  auto out = std::make_shared<nn::StoredTypes>();
  // Learned positions are added by a lookup in a table of numbers (nn::Embedding); a tied head multiplies
  // with the same table on whatever stage it is.
  const bool numbers = model_.config.position_embedding_type == model::PositionEmbedding::kLearnedAbsolute;
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    if (const auto blocks = wanted_[i].experts == 1 || experts ? blocks_of(i) : std::nullopt)
      for (const auto& part : wanted_[i].parts)
        if (!numbers || part.name != "embedding.tokens.weight") out->emplace(part.name, blocks->format->type);
  return out->empty() ? nullptr : out;
}

std::vector<const std::byte*> ModelFiles::stored_rows(const std::string& name) const {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const auto& parts = wanted_[i].parts;
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.name == name; });
    if (part == parts.end()) continue;
    const auto blocks = blocks_of(i);
    require<InternalError>(blocks.has_value(), "'{}' is not in blocks", name);
    // The rows' numbers go the way that rows go: of experts, those of the one whose part it is.
    hf::Tensor rows = wanted_[i];
    const std::int64_t inputs = rows.shape.back(), outputs = rows.shape[rows.shape.rank() - 2],
                       each = static_cast<std::int64_t>(parts.size()) / rows.experts,
                       expert = (part - parts.begin()) / each;
    rows.parts.assign(parts.begin() + expert * each, parts.begin() + (expert + 1) * each);
    rows.experts = 1;
    rows.shape = Shape{outputs, 1};
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows.shape[0]));
    for (std::size_t r = 0; r < numbers.size(); ++r) numbers[r] = static_cast<std::int64_t>(r);
    std::vector<std::vector<std::int64_t>> scattered;
    scattered.reserve(rows.parts.size());
    std::size_t mine = 0;
    hf::scatter(rows, DType::kI64, reinterpret_cast<const std::byte*>(numbers.data()),
                [&](const model::CanonicalTensor& to) {
                  if (to.name == name) mine = scattered.size();
                  scattered.emplace_back(static_cast<std::size_t>(to.shape[0]));
                  return reinterpret_cast<std::byte*>(scattered.back().data());
                });
    const std::int64_t bytes = blocks->format->row_bytes(inputs);
    const std::byte* const first = blocks->bytes.data() + expert * outputs * bytes;
    std::vector<const std::byte*> out;
    for (const std::int64_t row : scattered[mine]) out.push_back(first + row * bytes);
    return out;
  }
  fail<InternalError>("no tensor '{}'", name);
}

void read_stored_weights(Machine& machine, const ModelFiles& files, const std::vector<nn::ParamSpec>& specs,
                         const std::function<TensorView(nn::ParamId)>& memory) {
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const nn::ParamSpec& spec = specs[p];
    if (!spec.is_stored()) continue;
    std::vector<std::vector<const std::byte*>> rows;
    for (const ShardPiece& piece : spec.shard.pieces) rows.push_back(files.stored_rows(piece.name));
    write_tensor(machine, memory({static_cast<int>(p)}), [&](TensorView host) {
      nn::pack_stored(
          spec,
          [&](std::size_t piece, std::int64_t row) { return rows[piece][static_cast<std::size_t>(row)]; },
          [&](std::int64_t tasks, const std::function<void(std::int64_t)>& body) {
            machine.pool->run(tasks, [&](std::int64_t task, int) { body(task); });
          },
          static_cast<std::byte*>(host.data));
    });
  }
}

}  // namespace stoa::infer
