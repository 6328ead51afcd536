#include "infer/adapter_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "ckpt/adapter_directory.h"
#include "ckpt/convert.h"
#include "model/huggingface/adapter_tensors.h"
#include "model/huggingface/bottleneck_files.h"
#include "nn/low_rank.h"
#include "nn/low_rank_rows.h"
#include "nn/rescaled.h"

namespace stoa::infer {

namespace hf = model::huggingface;

namespace {

constexpr std::string_view kEndA = ".lora_A.weight", kEndB = ".lora_B.weight",
                           kEndMagnitude = nn::LowRank::kMagnitude, kEndFactors = nn::Rescaled::kSuffix;
constexpr std::string_view kExperts = ".experts", kWrapped = ".base_layer";

std::string without(std::string name, std::string_view part) {
  const std::size_t at = name.find(part);
  return at == std::string::npos ? name : name.erase(at, part.size());
}

// The name without what PEFT puts around it, in files of its versions and of those that save what it keeps in
// memory.
std::string plain_name(std::string name) {
  for (const std::string_view part : {".default", ".modules_to_save"}) name = without(std::move(name), part);
  return name.starts_with(hf::kAdapterPrefix) ? name.substr(hf::kAdapterPrefix.size()) : name;
}

bool ends_path(const std::string& path, const std::string& end) {
  return path.size() > end.size() && path.ends_with(end) && path[path.size() - end.size() - 1] == '.';
}

// Which of `paths` is meant: itself, or the longer or shorter one. Empty: none.
std::string same_path(const std::string& path, const std::set<std::string>& paths) {
  if (paths.contains(path)) return path;
  for (const std::string& known : paths)
    if (ends_path(known, path) || ends_path(path, known)) return known;
  return "";
}

// "layers.3." of a path; empty: it has none.
std::string layer_part(const std::string& path) {
  const std::size_t at = path.find("layers.");
  return at == std::string::npos ? "" : path.substr(at, path.find('.', at + 7) - at + 1);
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

FileValues values_of(const ckpt::TensorSource& source, const ckpt::TensorEntry& entry) {
  const auto type = ckpt::memory_type(entry.type);
  require<DataError>(type && is_float(*type), "{}: tensor '{}' is {}, expected floating-point numbers",
                     source.directory().string(), entry.name, ckpt::name_of(entry.type));
  std::vector<std::byte> scratch;
  const auto bytes = source.all_elements(entry, scratch);
  require<DataError>(
      ckpt::count_non_finite(bytes.data(), *type, entry.elements()) == 0,
      "{}: tensor '{}' has values that are infinite or not a number: the training that wrote it "
      "diverged; take an earlier checkpoint",
      source.directory().string(), entry.name);
  FileValues out{entry.shape, std::vector<float>(static_cast<std::size_t>(entry.elements()))};
  ckpt::convert_elements(bytes.data(), *type, reinterpret_cast<std::byte*>(out.values.data()), DType::kF32,
                         entry.elements());
  return out;
}

// Both matrices of all experts of a layer, which PEFT holds as one parameter: A is [experts x rank, inputs],
// B [outputs, rank x experts]: first a column of every expert, then the next column of every expert.
struct JointExperts {
  FileValues a, b;
};

// The rows of B that belong to outputs [begin, begin + count) of an expert.
FileValues expert_b(const FileValues& b, std::int64_t experts, std::int64_t expert, std::int64_t begin,
                    std::int64_t count) {
  const std::int64_t rank = b.shape[1] / experts;
  FileValues out{{count, rank}, {}};
  for (std::int64_t o = begin; o < begin + count; ++o)
    for (std::int64_t k = 0; k < rank; ++k)
      out.values.push_back(b.values[static_cast<std::size_t>((o * rank + k) * experts + expert)]);
  return out;
}
FileValues expert_a(const FileValues& a, std::int64_t experts, std::int64_t expert) {
  const std::int64_t rank = a.shape[0] / experts, columns = a.shape[1];
  const auto* const first = a.values.data() + expert * rank * columns;
  return {{rank, columns}, std::vector<float>(first, first + rank * columns)};
}

// Gives the matrices of `joint`, of the layer "layers.3.", to its modules. False: they fit none.
bool take_apart(const JointExperts& joint, const std::string& layer,
                const std::vector<model::LinearModule>& modules, std::map<std::string, FileValues>& out) {
  // An expert's matrices that widen, or the one that narrows, as PEFT stacks them.
  for (const bool narrows : {false, true}) {
    std::vector<const model::LinearModule*> own;
    for (const auto& module : modules) {
      const std::string& piece = module.pieces.front().name;
      if (piece.starts_with(layer) && piece.find(".experts.") != std::string::npos &&
          piece.ends_with(".down") == narrows)
        own.push_back(&module);
    }
    if (own.empty()) continue;
    const bool packed = own.front()->experts > 1;
    const std::string expert = ".experts.0.";
    std::int64_t outputs = 0;
    for (const auto* module : own)
      if (packed ? module == own.front() : module->pieces.front().name.find(expert) != std::string::npos)
        outputs += module->outputs();
    if (joint.a.shape.size() != 2 || joint.b.shape.size() != 2 || joint.b.shape[0] != outputs ||
        joint.a.shape[1] != own.front()->inputs || joint.a.shape[0] != joint.b.shape[1])
      continue;
    if (packed) {
      out[own.front()->path + std::string(kEndA)] = joint.a;
      out[own.front()->path + std::string(kEndB)] = joint.b;
      return true;
    }
    std::int64_t per_expert = 0;
    for (const auto* module : own)
      per_expert += module->pieces.front().name.find(expert) != std::string::npos ? 1 : 0;
    const std::int64_t experts = static_cast<std::int64_t>(own.size()) / per_expert;
    if (joint.a.shape[0] % experts != 0) continue;
    for (std::size_t m = 0; m < own.size(); ++m) {
      const std::int64_t e = static_cast<std::int64_t>(m) / per_expert;
      std::int64_t begin = 0;
      for (std::size_t before = static_cast<std::size_t>(e * per_expert); before < m; ++before)
        begin += own[before]->outputs();
      out[own[m]->path + std::string(kEndA)] = expert_a(joint.a, experts, e);
      out[own[m]->path + std::string(kEndB)] = expert_b(joint.b, experts, e, begin, own[m]->outputs());
    }
    return true;
  }
  return false;
}

}  // namespace

std::map<std::string, FileValues> read_adapter_values(const std::filesystem::path& directory,
                                                      const model::ModelSpec& base,
                                                      const hf::Family& family) {
  const std::vector<model::LinearModule> modules = model::linear_modules(base, family);
  std::set<std::string> paths, tensors;
  for (const auto& module : modules) paths.insert(module.path);
  for (const auto& tensor : hf::tensors(model::base_of(base), family)) tensors.insert(tensor.name);
  std::set<std::string> embedding;
  for (const auto& module : model::token_modules(base, family)) {
    (module.kind == model::ModuleKind::kEmbedding ? embedding : paths).insert(module.path);
    tensors.insert(module.path + ".weight");
  }

  const std::unique_ptr<ckpt::TensorSource> source = ckpt::open_adapter(directory);
  std::map<std::string, FileValues> out;
  std::map<std::string, JointExperts> joint;  // by path in the file
  std::vector<std::string> unknown;
  for (const ckpt::TensorEntry* entry : source->entries()) {
    const std::string name = plain_name(entry->name);
    const bool a = name.ends_with(kEndA), b = name.ends_with(kEndB);
    std::string key;
    if (a || b) {
      const std::string path = name.substr(0, name.size() - kEndA.size());
      if (const std::string known = same_path(path, paths); !known.empty()) {
        key = known + std::string(a ? kEndA : kEndB);
      } else if (without(path, kWrapped).ends_with(kExperts) && !layer_part(path).empty()) {
        (a ? joint[path].a : joint[path].b) = values_of(*source, *entry);
        continue;
      }
    } else if (const std::size_t at = name.find(kEndMagnitude); at != std::string::npos) {
      // PEFT saves it without ".weight" and holds it with.
      const std::string end = name.substr(at + kEndMagnitude.size());
      const std::string known = same_path(name.substr(0, at), paths);
      if (!known.empty() && (end.empty() || end == ".weight")) key = known + std::string(kEndMagnitude);
    } else if (const bool of_a = name.ends_with(nn::LowRankRows::kA);
               of_a || name.ends_with(nn::LowRankRows::kB)) {
      const std::string_view end = of_a ? nn::LowRankRows::kA : nn::LowRankRows::kB;
      const std::string known = same_path(name.substr(0, name.size() - end.size()), embedding);
      if (!known.empty()) key = known + std::string(end);
    } else if (name.ends_with(kEndFactors)) {
      const std::string known = same_path(name.substr(0, name.size() - kEndFactors.size()), paths);
      if (!known.empty()) key = known + std::string(kEndFactors);
    } else if (name.ends_with(hf::kTokenRows)) {
      std::string matrix =
          same_path(name.substr(0, name.size() - hf::kTokenRows.size()) + ".weight", tensors);
      if (!matrix.empty()) key = matrix.erase(matrix.rfind('.')) + std::string(hf::kTokenRows);
    } else {
      key = same_path(without(name, kWrapped), tensors);
    }
    if (key.empty())
      unknown.push_back(entry->name);
    else
      require<DataError>(out.emplace(key, values_of(*source, *entry)).second,
                         "'{}': two tensors belong to '{}'", directory.string(), key);
  }
  for (const auto& [path, experts] : joint)
    if (!take_apart(experts, layer_part(path), modules, out)) unknown.push_back(path);
  for (const std::string& name : unknown) {
    require<DataError>(name.find(".gate.lora_") == std::string::npos,
                       "'{}' adapts the routers of experts ({}), which take no branch here: train it without "
                       "'gate' in target_modules, or 'gate.weight' in target_parameters",
                       directory.string(), name);
    require<DataError>(
        name.find(".lora_embedding_") == std::string::npos,
        "'{}' adapts an embedding that takes no branch here ({}): that of tokens does, of decoders and "
        "encoders; train rows of tokens (trainable_token_indices) or all of them (modules_to_save)",
        directory.string(), name);
  }
  require<DataError>(
      unknown.empty(),
      "'{}' is no adapter of this model ({}, {} layers of width {}): it has {}; the model has {}",
      directory.string(), family.type, base.config.num_layers, base.config.hidden_size, some_of(unknown),
      some_of({paths.begin(), paths.end()}));
  return out;
}

std::map<std::string, FileValues> read_bottleneck_values(const std::filesystem::path& directory,
                                                         const model::ModelSpec& adapted) {
  std::set<std::string> keys;
  for (const hf::AdapterTensor& tensor : hf::bottleneck_tensors(adapted)) keys.insert(tensor.key);
  const std::unique_ptr<ckpt::TensorSource> source = ckpt::open_adapter(directory);
  std::map<std::string, FileValues> out;
  std::vector<std::string> unknown;
  for (const ckpt::TensorEntry* entry : source->entries()) {
    const std::string key = hf::bottleneck_key(entry->name), known = key.empty() ? "" : same_path(key, keys);
    if (known.empty())
      unknown.push_back(entry->name);
    else
      require<DataError>(out.emplace(known, values_of(*source, *entry)).second,
                         "'{}': two tensors belong to '{}'", directory.string(), known);
  }
  require<DataError>(unknown.empty(), "'{}' is no adapter of this model: it has {}; the model has {}",
                     directory.string(), some_of(unknown), some_of({keys.begin(), keys.end()}));
  return out;
}

std::map<std::string, FileValues> read_virtual_values(const std::filesystem::path& directory,
                                                      const model::ModelSpec& adapted) {
  const std::unique_ptr<ckpt::TensorSource> source = ckpt::open_adapter(directory);
  std::map<std::string, FileValues> out;
  for (const ckpt::TensorEntry* entry : source->entries()) {
    std::string name = plain_name(entry->name);
    if (name.starts_with(hf::kVirtualPrefix)) name.erase(0, std::strlen(hf::kVirtualPrefix));
    require<DataError>(out.emplace(name, values_of(*source, *entry)).second,
                       "'{}': two tensors belong to '{}'", directory.string(), name);
  }
  const auto made = out.find(hf::kPromptEmbeddings);
  const std::int64_t tokens = adapted.config.peft.virtual_count();
  if (adapted.config.kind != model::ModelKind::kT5 || made == out.end()) return out;
  if (FileValues& all = made->second; all.shape.size() == 2 && all.shape[0] == 2 * tokens) {
    all.shape[0] = tokens;
    all.values.resize(all.values.size() / 2);
  }
  return out;
}

}  // namespace stoa::infer
