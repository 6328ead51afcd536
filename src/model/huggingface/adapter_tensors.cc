#include "model/huggingface/adapter_tensors.h"

#include <algorithm>
#include <cstring>

#include "model/huggingface/bottleneck_files.h"
#include "model/huggingface/family.h"
#include "nn/low_rank.h"
#include "nn/low_rank_rows.h"
#include "nn/prompt_encoder.h"
#include "nn/rescaled.h"
#include "nn/token_rows.h"

namespace stoa::model::huggingface {
namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

std::string joined(const std::string& a, std::string_view b) { return a + std::string(b); }

// The matrices of modules that lie one below the other in the file: of one module, or of all packed experts.
struct ModuleGroup {
  std::vector<const AdaptedModule*> modules;
  std::string path;  // in the adapter's file, without prefix and suffix
  const AdaptedModule& first() const { return *modules.front(); }
};

AdapterTensor a_tensor(const ModuleGroup& group, const ModelConfig& config) {
  Tensor out;
  out.name = joined(std::string(kAdapterPrefix) + group.path, kA);
  for (const AdaptedModule* module : group.modules)
    out.parts.push_back({joined(module->linear.name, kA), {module->rank, module->linear.inputs}});
  out.shape = {group.first().rank * static_cast<std::int64_t>(group.modules.size()),
               group.first().linear.inputs};
  out.runs = stacked(config, out.parts);
  return {.key = joined(group.first().linear.path, kA), .tensor = std::move(out)};
}

AdapterTensor b_tensor(const ModuleGroup& group) {
  Tensor out;
  out.name = joined(std::string(kAdapterPrefix) + group.path, kB);
  const std::int64_t rank = group.first().rank, outputs = group.first().linear.outputs();
  for (const AdaptedModule* module : group.modules)
    for (const LinearModule::Piece& piece : module->linear.pieces)
      out.parts.push_back({joined(piece.name, kB), {piece.outputs, rank}});
  out.runs = group.first().linear.rows;
  out.experts = static_cast<std::int64_t>(group.modules.size());
  out.shape = out.experts > 1 ? Shape{out.experts, outputs, rank} : Shape{outputs, rank};
  const bool rank_major = out.experts > 1;
  return {.key = joined(group.first().linear.path, kB), .tensor = std::move(out), .rank_major = rank_major};
}

// A and B of the embedding, which are held transposed.
std::vector<AdapterTensor> embedding_tensors(const AdaptedModule& module, const ModelConfig& config) {
  const LinearModule& linear = module.linear;
  const auto tensor = [&](const char* end, const Shape& shape) {
    Tensor out;
    out.name = joined(std::string(kAdapterPrefix) + linear.path, end);
    out.parts = {{joined(linear.name, end), shape}};
    out.runs = stacked(config, out.parts);
    out.shape = {shape[1], shape[0]};
    out.transposed = true;
    return AdapterTensor{.key = joined(linear.path, end), .tensor = std::move(out)};
  };
  return {tensor(nn::LowRankRows::kA, {linear.outputs(), module.rank}),
          tensor(nn::LowRankRows::kB, {module.rank, linear.inputs})};
}

// Without ".weight", as PEFT saves it.
AdapterTensor magnitude_tensor(const AdaptedModule& module) {
  Tensor out;
  out.name = joined(std::string(kAdapterPrefix) + module.linear.path, nn::LowRank::kMagnitude);
  for (const LinearModule::Piece& piece : module.linear.pieces)
    out.parts.push_back({joined(piece.name, nn::LowRank::kMagnitude), {piece.outputs}});
  out.runs = module.linear.rows;
  out.shape = {module.linear.outputs()};
  return {.key = joined(module.linear.path, nn::LowRank::kMagnitude), .tensor = std::move(out)};
}

// [outputs, 1] or [1, inputs].
AdapterTensor factor_tensor(const AdaptedModule& module, const ModelConfig& config) {
  const LinearModule& linear = module.linear;
  Tensor out;
  out.name = joined(std::string(kAdapterPrefix) + linear.path, nn::Rescaled::kSuffix);
  if (module.inputs) {
    out.parts.push_back({joined(linear.name, nn::Rescaled::kSuffix), {1, linear.inputs}});
    out.runs = stacked(config, out.parts);
    out.shape = {1, linear.inputs};
  } else {
    for (const LinearModule::Piece& piece : linear.pieces)
      out.parts.push_back({joined(piece.name, nn::Rescaled::kSuffix), {piece.outputs}});
    out.runs = linear.rows;
    out.shape = {linear.outputs(), 1};
  }
  return {.key = joined(linear.path, nn::Rescaled::kSuffix), .tensor = std::move(out)};
}

// Rows of the tokens of `plan`, which `matrix` of the model's files holds among others.
AdapterTensor rows_tensor(const Tensor& matrix, const char* canonical, const AdapterPlan& plan,
                          const ModelConfig& config) {
  Tensor out;
  const std::string path = matrix.name.substr(0, matrix.name.rfind('.'));
  out.name = joined(std::string(kAdapterPrefix) + path, kTokenRows);
  out.shape = {static_cast<std::int64_t>(plan.token_rows().size()), config.hidden_size};
  out.parts = {{canonical, out.shape}};
  out.runs = stacked(config, out.parts);
  return {.key = joined(path, kTokenRows), .tensor = std::move(out)};
}

// PEFT adapts an embedding model as AutoModel, whose modules lack the prefix that those of a model with a
// head have.
void name_bare_modules(std::vector<AdapterTensor>& tensors, const Family& family) {
  const std::string headed = joined(std::string(kAdapterPrefix), family.names().prefix);
  for (AdapterTensor& tensor : tensors)
    if (tensor.tensor.name.starts_with(headed)) tensor.tensor.name.replace(0, headed.size(), kAdapterPrefix);
}

// Packed experts' parameters have no names of their own: the first that PEFT wraps is the base layer of the
// second.
std::string parameter_path(const std::string& path, bool first_of_two) {
  const std::string module = path.substr(0, path.rfind('.'));
  return first_of_two ? module + ".base_layer" : module;
}

}  // namespace

namespace {

// [tokens, 2 layers width]: of every layer the keys, then the values.
AdapterTensor prefix_tensor(const ModelSpec& spec, const std::vector<CanonicalTensor>& own) {
  Tensor out;
  out.name = kPromptEmbeddings;
  out.parts = own;
  const Shape& one = own.front().shape;
  out.shape = {one[0] * static_cast<std::int64_t>(own.size()), one[1]};
  out.runs = stacked(spec.config, out.parts);
  return {.key = out.name, .tensor = std::move(out), .side_by_side = true};
}

// The head that is trained with virtual tokens: PEFT puts no layer around the model that has them.
void add_head(const ModelSpec& spec, std::vector<AdapterTensor>& out) {
  for (Tensor& tensor : tensors(base_of(spec), spec.adapters->family())) {
    if (!spec.adapters->trains_base(tensor.parts.front().name)) continue;
    const std::string key = tensor.name;
    tensor.name = std::string(kVirtualPrefix) + key;
    out.push_back({.key = key, .tensor = std::move(tensor)});
  }
}

std::vector<AdapterTensor> virtual_tensors(const ModelSpec& spec) {
  std::vector<CanonicalTensor> own;
  for (const CanonicalTensor& tensor : canonical_tensors(spec))
    if (tensor.adapter) own.push_back(tensor);
  if (spec.adapters->prefix()) return {prefix_tensor(spec, own)};
  const auto single = [&](const std::string& name, const CanonicalTensor& part) {
    Tensor out;
    out.name = name;
    out.parts = {part};
    out.shape = part.shape;
    out.runs = stacked(spec.config, out.parts);
    return AdapterTensor{.key = name, .tensor = std::move(out)};
  };
  const nn::PromptOptions prompt = *spec.adapters->prompt();
  const bool encodes = prompt.encoder != nn::PromptEncoderKind::kNone;
  std::vector<AdapterTensor> out{
      single(kPromptEmbeddings, {nn::PromptEncoder::kTable, {prompt.tokens, spec.config.hidden_size}})};
  out.front().computed = encodes;
  if (encodes)
    for (const CanonicalTensor& tensor : own) out.push_back(single(tensor.name, tensor));
  return out;
}

// The head, as the embedding that was added last.
void add_tied_head(const ModelSpec& base, const AdapterPlan& plan, std::vector<AdapterTensor>& out) {
  const auto modules = token_modules(base, plan.family());
  const auto head = std::ranges::find(modules, ModuleKind::kHead, &LinearModule::kind);
  if (head == modules.end()) return;
  AdapterTensor tensor{.key = head->path + ".weight", .tensor = out.back().tensor, .repeats_embedding = true};
  tensor.tensor.name = std::string(kAdapterPrefix) + tensor.key;
  out.push_back(std::move(tensor));
}

}  // namespace

Shape AdapterTensor::shape() const {
  const Shape& own = tensor.shape;
  if (side_by_side) {
    const auto parts = static_cast<std::int64_t>(tensor.parts.size());
    return {own[0] / parts, own[1] * parts};
  }
  return rank_major ? Shape{own[1], own[2] * own[0]} : own;
}

std::vector<AdapterTensor> adapter_tensors(const ModelSpec& spec) {
  const AdapterPlan& plan = *spec.adapters;
  if (plan.config().is_bottleneck()) return bottleneck_tensors(spec);
  if (plan.virtual_tokens() > 0) {
    std::vector<AdapterTensor> out = virtual_tensors(spec);
    add_head(spec, out);
    return out;
  }
  const ModelSpec base = base_of(spec);
  std::vector<ModuleGroup> groups;
  std::map<std::string, std::size_t> packed;                 // by path: its group
  std::map<std::string, std::vector<std::size_t>> siblings;  // packed parameters of one module
  for (const AdaptedModule& module : plan.modules()) {
    if (module.linear.experts == 1) {
      groups.push_back({{&module}, module.linear.path});
      continue;
    }
    const auto [found, fresh] = packed.emplace(module.linear.path, groups.size());
    if (fresh) {
      siblings[parameter_path(module.linear.path, false)].push_back(groups.size());
      groups.push_back({{}, module.linear.path});
    }
    groups[found->second].modules.push_back(&module);
  }
  for (const auto& [path, members] : siblings)
    for (std::size_t i = 0; i < members.size(); ++i)
      groups[members[i]].path = parameter_path(groups[members[i]].path, i + 1 < members.size());
  std::vector<AdapterTensor> out;
  for (const ModuleGroup& group : groups) {
    if (plan.config().is_ia3()) {
      out.push_back(factor_tensor(group.first(), spec.config));
      continue;
    }
    if (group.first().linear.kind == ModuleKind::kEmbedding) {
      for (AdapterTensor& tensor : embedding_tensors(group.first(), spec.config))
        out.push_back(std::move(tensor));
      continue;
    }
    out.push_back(a_tensor(group, spec.config));
    out.push_back(b_tensor(group));
    if (plan.config().lora.use_dora) out.push_back(magnitude_tensor(group.first()));
  }
  for (Tensor& tensor : tensors(base, plan.family())) {
    const std::string& first = tensor.parts.front().name;
    if (!plan.token_rows().empty()) {
      if (first == "embedding.tokens.weight")
        out.push_back(rows_tensor(tensor, nn::TokenRows::kEmbedding, plan, spec.config));
      if (first == "head.weight" && plan.head_rows())
        out.push_back(rows_tensor(tensor, nn::TokenRows::kHead, plan, spec.config));
    }
    if (!plan.trains_base(tensor.parts.front().name)) continue;
    const std::string& part = tensor.parts.front().name;
    const std::string key = tensor.name;
    const std::size_t dot = key.rfind('.');
    // The bias of a layer that PEFT wraps.
    if (plan.adapts(part.substr(0, part.rfind('.')))) tensor.name.insert(dot, ".base_layer");
    tensor.name = std::string(kAdapterPrefix) + tensor.name;
    out.push_back({.key = key, .tensor = std::move(tensor)});
    if (part == "embedding.tokens.weight" && plan.saves_tied_embedding(base)) add_tied_head(base, plan, out);
  }
  if (spec.config.task.embeds()) name_bare_modules(out, plan.family());
  return out;
}

namespace {

// Element [o, k, e] of the file is [e, o, k] of the stacked matrices. `to_file`: from these.
void permute(const Tensor& tensor, DType type, std::byte* file, std::byte* stacked, bool to_file) {
  const std::int64_t experts = tensor.shape[0], outputs = tensor.shape[1], rank = tensor.shape[2];
  const std::size_t bytes = size_of(type);
  for (std::int64_t e = 0; e < experts; ++e)
    for (std::int64_t o = 0; o < outputs; ++o)
      for (std::int64_t k = 0; k < rank; ++k) {
        std::byte* const in_file = file + static_cast<std::size_t>((o * rank + k) * experts + e) * bytes;
        std::byte* const own = stacked + static_cast<std::size_t>((e * outputs + o) * rank + k) * bytes;
        std::memcpy(to_file ? in_file : own, to_file ? own : in_file, bytes);
      }
}

// Row p of part s of the stacked parts is columns [s W, (s + 1) W) of the file's row p.
void side_by_side(const AdapterTensor& tensor, DType type, std::byte* file, std::byte* stacked,
                  bool to_file) {
  const std::int64_t rows = tensor.shape()[0];
  const std::size_t parts = tensor.tensor.parts.size(),
                    bytes = static_cast<std::size_t>(tensor.tensor.shape[1]) * size_of(type);
  for (std::size_t s = 0; s < parts; ++s)
    for (std::size_t p = 0; p < static_cast<std::size_t>(rows); ++p) {
      std::byte* const in_file = file + (p * parts + s) * bytes;
      std::byte* const own = stacked + (s * static_cast<std::size_t>(rows) + p) * bytes;
      std::memcpy(to_file ? in_file : own, to_file ? own : in_file, bytes);
    }
}

void reorder(const AdapterTensor& tensor, DType type, std::byte* file, std::byte* stacked, bool to_file) {
  if (tensor.side_by_side) return side_by_side(tensor, type, file, stacked, to_file);
  permute(tensor.tensor, type, file, stacked, to_file);
}

std::vector<std::byte> buffer_of(const AdapterTensor& tensor, DType type) {
  return std::vector<std::byte>(static_cast<std::size_t>(tensor.tensor.shape.elements()) * size_of(type));
}

}  // namespace

void gather_adapter(const AdapterTensor& tensor, DType type, const ReadPart& canonical, std::byte* file) {
  if (!tensor.rank_major && !tensor.side_by_side) return gather(tensor.tensor, type, canonical, file);
  std::vector<std::byte> own = buffer_of(tensor, type);
  gather(tensor.tensor, type, canonical, own.data());
  reorder(tensor, type, file, own.data(), true);
}

void scatter_adapter(const AdapterTensor& tensor, DType type, const std::byte* file,
                     const WritePart& canonical) {
  if (!tensor.rank_major && !tensor.side_by_side) return scatter(tensor.tensor, type, file, canonical);
  std::vector<std::byte> own = buffer_of(tensor, type),
                         copy(file, file + own.size());  // reorder() takes both ways
  reorder(tensor, type, copy.data(), own.data(), false);
  scatter(tensor.tensor, type, own.data(), canonical);
}

}  // namespace stoa::model::huggingface
