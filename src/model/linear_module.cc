#include "model/linear_module.h"

#include <charconv>
#include <map>
#include <string_view>

#include "model/chunk.h"

namespace stoa::model {

namespace hf = huggingface;

namespace {

std::optional<std::int64_t> number_after(std::string_view name, std::string_view word) {
  std::int64_t number = 0;
  if (!name.starts_with(word)) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + word.size(), name.data() + name.size(), number);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? std::optional(number)
                                                                                 : std::nullopt;
}

std::optional<std::int64_t> layer_of(std::string_view name) {
  for (const std::string_view word : {"layers.", "encoder.", "decoder."})
    if (const auto number = number_after(name, word)) return number;
  return std::nullopt;
}

std::string path_of(const hf::Tensor& tensor) {
  return tensor.module.empty() ? module_path(tensor.name) : tensor.module;
}

// "layers.0.attention.q-k-v": of what the pieces share.
std::string shared_name(const std::vector<LinearModule::Piece>& pieces) {
  std::string out = pieces.front().name;
  for (std::size_t i = 1; i < pieces.size(); ++i)
    out += "-" + pieces[i].name.substr(pieces[i].name.rfind('.') + 1);
  return out;
}

}  // namespace

std::string without_suffix(const std::string& name) { return name.substr(0, name.rfind('.')); }

std::string module_path(const std::string& tensor) {
  for (const std::string_view suffix : {".weight", ".bias"})
    if (tensor.ends_with(suffix)) return tensor.substr(0, tensor.size() - suffix.size());
  return tensor;  // packed experts have no ".weight"
}

ModelSpec base_of(const ModelSpec& spec) {
  ModelSpec base = spec;
  base.config.peft = {};
  base.adapters = nullptr;
  return base;
}

std::int64_t LinearModule::outputs() const {
  std::int64_t out = 0;
  for (const Piece& piece : pieces) out += piece.outputs;
  return out;
}

std::vector<std::string> LinearModule::piece_names() const {
  std::vector<std::string> out;
  for (const Piece& piece : pieces) out.push_back(piece.name);
  return out;
}

std::vector<LinearModule> linear_modules(const ModelSpec& spec, const hf::Family& family) {
  const ModelSpec base = base_of(spec);
  const std::vector<hf::Tensor> tensors = hf::tensors(base, family);
  std::map<std::string, std::pair<const hf::Tensor*, std::size_t>> holder;  // by piece: the tensor, the part
  for (const hf::Tensor& tensor : tensors)
    for (std::size_t p = 0; p < tensor.parts.size(); ++p) holder[tensor.parts[p].name] = {&tensor, p};
  const Chunk chunk = whole_chunk(base);
  std::vector<LinearModule> out;
  for (const nn::ParamSpec& parameter : chunk.params().specs()) {
    if (parameter.products.empty()) continue;
    const auto& pieces = parameter.shard.pieces;
    for (std::size_t p = 0; p < pieces.size();) {
      const auto [tensor, part] = holder.at(pieces[p].name);
      const std::size_t count = tensor->parts.size() / static_cast<std::size_t>(tensor->experts);
      LinearModule module;
      module.path = path_of(*tensor);
      module.layer = layer_of(pieces[p].name);
      module.inputs = pieces[p].global[1];
      module.rows = tensor->runs;
      module.transposed = tensor->transposed;
      module.experts = tensor->experts;
      bool whole = part % count == 0 && p + count <= pieces.size();
      for (std::size_t i = 0; whole && i < count; ++i) {
        whole = pieces[p + i].name == tensor->parts[part + i].name;
        module.pieces.push_back({without_suffix(pieces[p + i].name), pieces[p + i].global[0]});
      }
      // What only a part of a matrix in the files belongs to cannot be exchanged.
      if (!whole) {
        module.pieces = {{without_suffix(pieces[p].name), pieces[p].global[0]}};
        module.rows.clear();
      }
      module.name = shared_name(module.pieces);
      p += module.pieces.size();
      out.push_back(std::move(module));
    }
  }
  return out;
}

std::vector<LinearModule> token_modules(const ModelSpec& spec, const hf::Family& family) {
  ModelSpec base = base_of(spec);
  ModelConfig& c = base.config;
  if (c.kind == ModelKind::kT5) return {};
  // A tied head has a name in files that hold it.
  if (c.kind == ModelKind::kGpt && !c.task.labelled()) c.share_embeddings_and_output_weights = false;
  std::vector<LinearModule> out;
  for (const hf::Tensor& tensor : hf::tensors(base, family)) {
    const std::string& part = tensor.parts.front().name;
    const bool embedding = part == "embedding.tokens.weight";
    if (!embedding && (part != "head.weight" || c.kind != ModelKind::kGpt)) continue;
    LinearModule module;
    module.path = path_of(tensor);
    module.name = without_suffix(part);
    module.pieces = {{module.name, tensor.parts.front().shape[0]}};
    module.inputs = tensor.parts.front().shape[1];
    module.rows = tensor.runs;
    module.kind = embedding ? ModuleKind::kEmbedding : ModuleKind::kHead;
    out.push_back(std::move(module));
  }
  return out;
}

}  // namespace stoa::model
