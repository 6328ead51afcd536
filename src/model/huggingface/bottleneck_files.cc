#include "model/huggingface/bottleneck_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/huggingface/adapter_config.h"
#include "model/huggingface/json_keys.h"
#include "nn/bottleneck.h"

namespace stoa::model::huggingface {
namespace {

constexpr std::string_view kAdapterPart = ".adapter.", kAdaptersPart = ".adapters.";

// Ends of canonical names, and of AdapterHub's.
constexpr std::pair<std::string_view, std::string_view> kBottleneckEnds[] = {
    {"down.weight", "adapter_down.0.weight"},
    {"down.bias", "adapter_down.0.bias"},
    {"up.weight", "adapter_up.weight"},
    {"up.bias", "adapter_up.bias"}};

bool is_number(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The path up to its first part that is a number, or to the last.
std::string up_to_number(const std::string& path, bool last) {
  std::string out;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (is_number(std::string_view(path).substr(begin, end - begin))) {
      out = path.substr(0, end);
      if (!last) break;
    }
    begin = end + 1;
  }
  return out;
}

// Where AdapterHub has the bottleneck of a branch of a block ("layers.0", "mlp"), without ".adapters".
std::string path_of_branch(const ModelSpec& spec, const std::vector<Tensor>& files, std::string_view type,
                           const std::string& block, bool attention) {
  const bool pair = spec.config.kind == ModelKind::kT5;
  for (const Tensor& tensor : files) {
    const std::string& part = tensor.parts.front().name;
    const auto is_of = [&](const char* branch) { return part.starts_with(block + branch); };
    // In T5 every sublayer has a number.
    const bool own = !pair       ? is_of(".")
                     : attention ? is_of(".attention.")
                                 : is_of(".mlp.") || is_of(".dense.");
    if (!own) continue;
    const std::string path = up_to_number(tensor.name, pair);
    if (pair) return path;
    if (spec.config.kind == ModelKind::kBert && type != "distilbert")
      return path + (attention ? ".attention.output" : ".output");
    return path + (attention ? ".attention_adapters" : ".output_adapters");
  }
  fail<InternalError>("no file has a tensor of '{}'", block);
}

// AdapterHub's names of functions are those of the key non_linearity, and silu for swish.
BottleneckActivation function_of(const std::string& name) {
  if (name == "silu") return BottleneckActivation::kSwish;
  for (const auto& known : enum_names(BottleneckActivation()))
    if (known.name == name) return known.value;
  fail<ConfigError>("{}: config.non_linearity '{}': expected relu, swish, gelu, gelu_new, tanh or sigmoid",
                    kAdapterConfig, name);
}

std::vector<std::int64_t> left_out(const ModelSpec& spec) {
  const auto& selected = spec.config.peft.bottleneck.layer_selection;
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < spec.config.num_layers && !selected.empty(); ++layer)
    if (std::find(selected.begin(), selected.end(), layer + 1) == selected.end()) out.push_back(layer);
  return out;
}

}  // namespace

std::vector<AdapterTensor> bottleneck_tensors(const ModelSpec& spec) {
  const Family& family = spec.adapters->family();
  const std::vector<Tensor> files = tensors(base_of(spec), family);
  std::map<std::string, std::string> paths;  // by canonical branch
  std::vector<AdapterTensor> out;
  for (const CanonicalTensor& tensor : canonical_tensors(spec)) {
    if (!tensor.adapter) continue;
    const std::size_t at = tensor.name.find(kAdapterPart);
    require<InternalError>(at != tensor.name.npos, "'{}' is not of a bottleneck", tensor.name);
    const std::string branch = tensor.name.substr(0, at), end = tensor.name.substr(at + kAdapterPart.size());
    std::string& path = paths[branch];
    if (path.empty()) {
      const std::size_t dot = branch.rfind('.');
      path = path_of_branch(spec, files, family.type, branch.substr(0, dot),
                            branch.substr(dot + 1) == "attention");
    }
    const auto name = std::find_if(std::begin(kBottleneckEnds), std::end(kBottleneckEnds),
                                   [&](const auto& pair) { return pair.first == end; });
    Tensor file;
    file.name = fmt::format("{}.adapters.{}.{}", path, kBottleneckName, name->second);
    file.parts = {tensor};
    file.shape = tensor.shape;
    file.runs = stacked(spec.config, file.parts);
    out.push_back({.key = fmt::format("{}.{}", path, name->second), .tensor = std::move(file)});
  }
  return out;
}

std::string bottleneck_key(const std::string& name) {
  const std::size_t at = name.find(kAdaptersPart);
  if (at == name.npos) return "";
  const std::size_t end = name.find('.', at + kAdaptersPart.size());
  return end == name.npos ? "" : name.substr(0, at) + name.substr(end);
}

bool describes_bottlenecks(const nlohmann::json& config) {
  return config.is_object() && !config.contains("peft_type") && config.contains("config") &&
         config["config"].is_object();
}

PeftConfig read_bottleneck_config(const nlohmann::json& json) {
  JsonKeys file(json, "", kAdapterConfig);
  JsonKeys keys(json["config"], "config.", kAdapterConfig);
  PeftConfig out;
  out.peft_scheme = PeftScheme::kAdapter;
  BottleneckConfig& c = out.bottleneck;
  const auto flag = [&](const char* key, bool otherwise) { return keys.boolean(key).value_or(otherwise); };
  for (const char* key :
       {"cross_adapter", "use_gating", "ln_before", "ln_after", "phm_layer", "adapter_residual_before_ln"})
    keys.only(key, false);
  for (const char* key : {"original_ln_after", "residual_before_ln"}) keys.only(key, true);
  require<ConfigError>(!keys.has("inv_adapter"),
                       "{}: config.inv_adapter (an adapter of the embedding) is not supported",
                       kAdapterConfig);
  const bool attention = flag("mh_adapter", false), parallel = flag("is_parallel", false),
             sum = flag("original_ln_before", false);
  require<ConfigError>(
      flag("output_adapter", true) && !(attention && (parallel || sum)) && (attention || parallel || sum),
      "{}: mh_adapter {}, output_adapter {}, is_parallel {}, original_ln_before {} is none of "
      "seq_bn (Pfeiffer), double_seq_bn (Houlsby) and par_bn (parallel)",
      kAdapterConfig, attention, flag("output_adapter", true), parallel, sum);
  c.type = attention  ? BottleneckType::kDoubleSequential
           : parallel ? BottleneckType::kParallel
                      : BottleneckType::kSequential;
  c.non_linearity = function_of(keys.text("non_linearity").value_or("relu"));
  const auto number = [&](const char* key, double otherwise) {
    const auto found = json["config"].find(key);
    require<ConfigError>(found == json["config"].end() || found->is_number(),
                         "{}: config.{} is {}, expected one number", kAdapterConfig, key,
                         found == json["config"].end() ? "" : found->dump());
    return found == json["config"].end() ? otherwise : found->get<double>();
  };
  c.scaling = number("scaling", 1);
  const double factor = number("reduction_factor", 16);
  const auto hidden = file.integer("hidden_size", 1, 1 << 24);
  require<ConfigError>(hidden && *c.scaling > 0 && factor > 0,
                       "{}: expected a hidden_size, a scaling and a reduction_factor above 0",
                       kAdapterConfig);
  c.adapter_dim = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(*hidden) / factor));
  c.leave_out = keys.integers("leave_out");
  return out;
}

std::string write_bottleneck_config(const ModelSpec& spec, const std::string& base) {
  const BottleneckConfig& c = spec.config.peft.bottleneck;
  const std::int64_t hidden = spec.config.hidden_size, width = c.width(hidden);
  const bool parallel = c.is_parallel(), both = c.type == BottleneckType::kDoubleSequential;
  // The library cuts hidden / factor to a whole number.
  const Json factor = hidden % width == 0
                          ? Json(hidden / width)
                          : Json(static_cast<double>(hidden) / (static_cast<double>(width) + 0.5));
  const Json config{{"adapter_residual_before_ln", false},
                    {"cross_adapter", false},
                    {"dropout", 0.0},
                    {"init_weights", parallel ? "mam_adapter" : "bert"},
                    {"inv_adapter", nullptr},
                    {"inv_adapter_reduction_factor", nullptr},
                    {"is_parallel", parallel},
                    {"leave_out", left_out(spec)},
                    {"ln_after", false},
                    {"ln_before", false},
                    {"mh_adapter", both},
                    {"non_linearity", config::enum_name(c.activation())},
                    {"original_ln_after", true},
                    {"original_ln_before", !parallel && !both},
                    {"output_adapter", true},
                    {"phm_layer", false},
                    {"reduction_factor", factor},
                    {"residual_before_ln", true},
                    {"scaling", c.scale()},
                    {"use_gating", false}};
  const Family& family = spec.adapters->family();
  const Json json{{"config", config},   {"hidden_size", hidden},     {"model_class", family.architecture},
                  {"model_name", base}, {"model_type", family.type}, {"name", kBottleneckName}};
  return json.dump(2) + "\n";
}

std::string bottleneck_text(const BottleneckConfig& config, std::int64_t hidden) {
  return fmt::format("{} bottlenecks of width {}, {}, scaling {}", config::enum_name(config.type),
                     config.width(hidden), config::enum_name(config.activation()), config.scale());
}

}  // namespace stoa::model::huggingface
