// Matrices in the numbers of the files (nn::ParamSpec::stored).
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

std::map<std::string, ModelFiles::PartPlace> ModelFiles::part_places() const {
  std::map<std::string, PartPlace> out;
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    for (std::size_t p = 0; p < wanted_[i].parts.size(); ++p)
      out.emplace(wanted_[i].parts[p].name, PartPlace{i, p});
  return out;
}

std::vector<const std::byte*> ModelFiles::stored_rows(const PartPlace& place) const {
  const hf::Tensor& tensor = wanted_[place.tensor];
  const auto blocks = blocks_of(place.tensor);
  require<InternalError>(blocks.has_value(), "'{}' is not in blocks", tensor.name);
  // The rows' numbers go the way that rows go: of experts, those of the one whose part it is.
  const std::int64_t inputs = tensor.shape.back(), outputs = tensor.shape[tensor.shape.rank() - 2];
  const std::size_t each = tensor.parts.size() / static_cast<std::size_t>(tensor.experts),
                    expert = place.part / each;
  const auto first_part = tensor.parts.begin() + static_cast<std::ptrdiff_t>(expert * each);
  hf::Tensor rows;
  rows.name = tensor.name;
  rows.shape = Shape{outputs, 1};
  rows.parts.assign(first_part, first_part + static_cast<std::ptrdiff_t>(each));
  rows.runs = tensor.runs;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(outputs));
  for (std::size_t r = 0; r < numbers.size(); ++r) numbers[r] = static_cast<std::int64_t>(r);
  std::vector<std::vector<std::int64_t>> scattered;
  scattered.reserve(each);
  hf::scatter(rows, DType::kI64, reinterpret_cast<const std::byte*>(numbers.data()),
              [&](const model::CanonicalTensor& to) {
                scattered.emplace_back(static_cast<std::size_t>(to.shape[0]));
                return reinterpret_cast<std::byte*>(scattered.back().data());
              });
  const std::int64_t bytes = blocks->format->row_bytes(inputs);
  const std::byte* const first = blocks->bytes.data() + static_cast<std::int64_t>(expert) * outputs * bytes;
  std::vector<const std::byte*> out;
  for (const std::int64_t row : scattered[place.part - expert * each]) out.push_back(first + row * bytes);
  return out;
}

void read_stored_weights(Machine& machine, const ModelFiles& files, const std::vector<nn::ParamSpec>& specs,
                         const std::function<TensorView(nn::ParamId)>& memory) {
  const auto places = files.part_places();
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const nn::ParamSpec& spec = specs[p];
    if (!spec.is_stored()) continue;
    std::vector<std::vector<const std::byte*>> rows;
    for (const ShardPiece& piece : spec.shard.pieces)
      rows.push_back(files.stored_rows(places.at(piece.name)));
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
