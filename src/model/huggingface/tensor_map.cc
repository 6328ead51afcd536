#include "model/huggingface/tensor_map.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace stoa::model::huggingface {
namespace {

// Canonical parts (without ".weight" or ".bias") of a file's tensor, for one layer or the whole model.
struct Rule {
  std::string_view file;
  std::vector<std::string_view> parts;
  bool conv1d = false;
};

const std::vector<Rule>& layer_rules(Family family) {
  static const std::vector<Rule> gpt2{{"ln_1", {"norm1"}},
                                      {"attn.c_attn", {"attention.q", "attention.k", "attention.v"}, true},
                                      {"attn.c_proj", {"attention.out"}, true},
                                      {"ln_2", {"norm2"}},
                                      {"mlp.c_fc", {"mlp.up"}, true},
                                      {"mlp.c_proj", {"mlp.down"}, true}};
  static const std::vector<Rule> llama{{"input_layernorm", {"norm1"}},
                                       {"self_attn.q_proj", {"attention.q"}},
                                       {"self_attn.k_proj", {"attention.k"}},
                                       {"self_attn.v_proj", {"attention.v"}},
                                       {"self_attn.q_norm", {"attention.q_norm"}},
                                       {"self_attn.k_norm", {"attention.k_norm"}},
                                       {"self_attn.o_proj", {"attention.out"}},
                                       {"post_attention_layernorm", {"norm2"}},
                                       {"mlp.gate_proj", {"mlp.gate"}},
                                       {"mlp.up_proj", {"mlp.up"}},
                                       {"mlp.down_proj", {"mlp.down"}}};
  return family == Family::kGpt2 ? gpt2 : llama;
}

// Router and experts of a layer, after its other tensors. Per-expert names, which both versions of
// transformers write and read; packed ones (5.x in memory) are not written.
std::vector<std::pair<std::string, std::string>> expert_rules(const Gpt& gpt, Family family) {
  std::vector<std::pair<std::string, std::string>> out;  // file, canonical
  const bool mixtral = family == Family::kMixtral;
  const std::string block = mixtral ? "block_sparse_moe." : "mlp.";
  out.emplace_back(block + "gate", "moe.router");
  for (std::int64_t e = 0; e < gpt.config.moe.num_moe_experts.value_or(0); ++e) {
    const std::string file = fmt::format("{}experts.{}.", block, e), own = fmt::format("moe.experts.{}.", e);
    out.emplace_back(file + (mixtral ? "w1" : "gate_proj"), own + "gate");
    out.emplace_back(file + (mixtral ? "w3" : "up_proj"), own + "up");
    out.emplace_back(file + (mixtral ? "w2" : "down_proj"), own + "down");
  }
  return out;
}

const std::vector<Rule>& model_rules(Family family) {
  static const std::vector<Rule> gpt2{{"transformer.wte", {"embedding.tokens"}},
                                      {"transformer.wpe", {"embedding.positions"}},
                                      {"transformer.ln_f", {"final_norm"}},
                                      {"lm_head", {"head"}}};
  static const std::vector<Rule> llama{
      {"model.embed_tokens", {"embedding.tokens"}}, {"model.norm", {"final_norm"}}, {"lm_head", {"head"}}};
  return family == Family::kGpt2 ? gpt2 : llama;
}

std::string_view prefix_of(Family family) {
  return family == Family::kStoa ? "" : family == Family::kGpt2 ? "transformer." : "model.";
}
std::string layer_prefix(Family family) {
  return family == Family::kGpt2 ? "transformer.h." : "model.layers.";
}

std::string_view without_prefix(std::string_view name, Family family) {
  const std::string_view prefix = prefix_of(family);
  return !prefix.empty() && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// Buffers in files of older versions; their content follows from the configuration.
bool is_ignorable(std::string_view name, Family family) {
  if (family == Family::kGpt2)
    return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
  return family != Family::kStoa && name.ends_with("rotary_emb.inv_freq");
}

Tensor make_tensor(std::string name, std::vector<CanonicalTensor> parts, bool conv1d) {
  Tensor out{std::move(name), parts.front().shape, std::move(parts), false};
  std::int64_t rows = 0;
  for (const auto& part : out.parts) rows += part.shape[0];
  out.shape.set(0, rows);
  if (conv1d && out.shape.rank() == 2) {
    out.transposed = true;
    out.shape = {out.shape[1], rows};
  }
  return out;
}

std::string list(const std::vector<std::string>& names) {
  std::string out;
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kMost) out += fmt::format(" and {} more", names.size() - kMost);
  return out;
}

// Calls copy(file bytes, canonical bytes, count) for runs of elements that are neighbours in both.
template <class Copy>
void for_runs(const Tensor& tensor, std::size_t element, const Copy& copy) {
  std::int64_t row = 0;
  const std::int64_t file_rows = tensor.shape[0];
  const std::int64_t columns = tensor.shape.rank() == 2 ? tensor.shape[1] : 1;
  for (std::size_t p = 0; p < tensor.parts.size(); ++p) {
    const std::int64_t count = tensor.parts[p].shape[0];
    if (!tensor.transposed) {
      copy(p, static_cast<std::size_t>(row * columns) * element, std::size_t{0},
           static_cast<std::size_t>(count * columns));
    } else {
      // Tiles, so that both sides stay in cache. File [inputs, outputs]; canonical [outputs, inputs].
      constexpr std::int64_t kTile = 32;
      for (std::int64_t i0 = 0; i0 < file_rows; i0 += kTile)
        for (std::int64_t o0 = 0; o0 < count; o0 += kTile)
          for (std::int64_t i = i0; i < std::min(file_rows, i0 + kTile); ++i)
            for (std::int64_t o = o0; o < std::min(count, o0 + kTile); ++o)
              copy(p, static_cast<std::size_t>(i * columns + row + o) * element,
                   static_cast<std::size_t>(o * file_rows + i) * element, std::size_t{1});
    }
    row += count;
  }
}

}  // namespace

std::vector<Tensor> tensors(const Gpt& gpt, Family family) {
  std::map<std::string, CanonicalTensor, std::less<>> canonical;
  std::vector<Tensor> out;
  for (auto& tensor : canonical_tensors(gpt)) {
    if (family == Family::kStoa) out.push_back(make_tensor(tensor.name, {tensor}, false));
    canonical.emplace(tensor.name, tensor);
  }
  if (family == Family::kStoa) return out;
  const auto add = [&](const Rule& rule, const std::string& file_prefix, const std::string& prefix) {
    for (const char* suffix : {".weight", ".bias"}) {
      std::vector<CanonicalTensor> parts;
      for (const auto part : rule.parts) {
        const auto found = canonical.find(prefix + std::string(part) + suffix);
        if (found == canonical.end()) continue;
        parts.push_back(found->second);
        canonical.erase(found);
      }
      if (parts.empty()) continue;
      require<InternalError>(parts.size() == rule.parts.size(), "'{}' has but some of its parts", rule.file);
      out.push_back(
          make_tensor(file_prefix + std::string(rule.file) + suffix, std::move(parts), rule.conv1d));
    }
  };
  for (const Rule& rule : model_rules(family)) add(rule, "", "");
  const auto experts = expert_rules(gpt, family);
  for (std::int64_t l = 0; l < gpt.config.num_layers; ++l) {
    const std::string file = layer_prefix(family) + std::to_string(l) + ".",
                      own = "layers." + std::to_string(l) + ".";
    for (const Rule& rule : layer_rules(family)) add(rule, file, own);
    if (gpt.config.moe.has_experts(l))
      for (const auto& [name, part] : experts) add({name, {part}}, file, own);
  }
  require<InternalError>(canonical.empty(), "family {} has no name for '{}'", model_type(family),
                         canonical.empty() ? "" : canonical.begin()->first);
  return out;
}

void gather(const Tensor& tensor, std::size_t element, const ReadPart& canonical, std::byte* file) {
  std::vector<const std::byte*> parts;
  for (const auto& part : tensor.parts) parts.push_back(canonical(part));
  for_runs(tensor, element, [&](std::size_t p, std::size_t in_file, std::size_t in_part, std::size_t count) {
    std::memcpy(file + in_file, parts[p] + in_part, count * element);
  });
}

void scatter(const Tensor& tensor, std::size_t element, const std::byte* file, const WritePart& canonical) {
  std::vector<std::byte*> parts;
  for (const auto& part : tensor.parts) parts.push_back(canonical(part));
  for_runs(tensor, element, [&](std::size_t p, std::size_t in_file, std::size_t in_part, std::size_t count) {
    std::memcpy(parts[p] + in_part, file + in_file, count * element);
  });
}

Match match(std::span<const Tensor> wanted, std::span<const FileTensor> file, Family family, bool tied) {
  std::map<std::string_view, const FileTensor*> offered;
  for (const auto& tensor : file) offered.emplace(without_prefix(tensor.name, family), &tensor);
  Match out;
  std::vector<std::string> missing, unexpected, misshapen;
  const auto head = offered.find("lm_head.weight");
  for (const auto& tensor : wanted) {
    auto found = offered.find(without_prefix(tensor.name, family));
    const bool embedding = tensor.parts.front().name == "embedding.tokens.weight";
    if (tied && embedding && found == offered.end()) found = head;
    if (found == offered.end() || !found->second) {
      missing.push_back(tensor.name);
      continue;
    }
    if (!(found->second->shape == tensor.shape))
      misshapen.push_back(fmt::format("{} {} (expected {})", found->second->name, found->second->shape.text(),
                                      tensor.shape.text()));
    out.names.push_back(found->second->name);
    found->second = nullptr;
  }
  for (const auto& [name, tensor] : offered) {
    if (!tensor) continue;
    if (is_ignorable(name, family))
      out.ignored.push_back(tensor->name);
    else if (tied && name == "lm_head.weight")
      out.head_beside_tied = tensor->name;
    else
      unexpected.push_back(tensor->name);
  }
  if (missing.empty() && unexpected.empty() && misshapen.empty()) return out;
  std::string message =
      fmt::format("the tensors in the file are not those of this {} model:", model_type(family));
  if (!missing.empty()) message += fmt::format(" missing: {}.", list(missing));
  if (!misshapen.empty()) message += fmt::format(" of another shape: {}.", list(misshapen));
  if (!unexpected.empty()) message += fmt::format(" unexpected: {}.", list(unexpected));
  throw DataError(message);
}

}  // namespace stoa::model::huggingface
