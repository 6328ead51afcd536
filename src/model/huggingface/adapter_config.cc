#include "model/huggingface/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/nearest.h"
#include "model/huggingface/adapter_tensors.h"
#include "model/huggingface/bottleneck_files.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

// Initial values that change the model's own weights.
constexpr std::string_view kChangesBase[] = {"pissa", "olora", "eva", "corda", "loftq"};

struct PeftMethod {
  const char* name;
  PeftScheme scheme;
};
constexpr PeftMethod kPeftMethods[] = {{"LORA", PeftScheme::kLora},
                                       {"IA3", PeftScheme::kIa3},
                                       {"P_TUNING", PeftScheme::kPTuning},
                                       {"PROMPT_TUNING", PeftScheme::kPrompt},
                                       {"PREFIX_TUNING", PeftScheme::kPrefix}};

constexpr std::pair<const char*, Task> kPeftTasks[] = {{"SEQ_CLS", Task::kSequenceClassification},
                                                       {"TOKEN_CLS", Task::kTokenClassification},
                                                       {"QUESTION_ANS", Task::kQuestionAnswering},
                                                       {"FEATURE_EXTRACTION", Task::kEmbedding}};

PeftScheme read_method(JsonKeys& keys) {
  const std::string type = keys.text("peft_type").value_or("");
  std::vector<std::string> known;
  for (const PeftMethod& method : kPeftMethods) {
    if (type == method.name) return method.scheme;
    known.emplace_back(method.name);
  }
  fail<ConfigError>(
      "{}: peft_type '{}' is not supported{}; expected LORA, IA3, P_TUNING, PROMPT_TUNING or "
      "PREFIX_TUNING",
      kAdapterConfig, type, did_you_mean(type, known));
}

// PEFT's files hold what an encoder made, and no encoder.
void read_virtual_tokens(JsonKeys& keys, PeftConfig& c) {
  VirtualTokenConfig& v = c.virtual_tokens;
  const auto count = keys.integer("num_virtual_tokens", 1, 1 << 16);
  require<ConfigError>(count.has_value(), "{}: num_virtual_tokens is missing", kAdapterConfig);
  v.virtual_tokens = *count;
  if (const auto width = keys.integer("encoder_hidden_size", 1, 1 << 20)) v.bottleneck_dim = *width;
  if (c.peft_scheme != PeftScheme::kPTuning) return;
  const std::string type = keys.text("encoder_reparameterization_type").value_or("MLP");
  require<ConfigError>(type == "MLP" || type == "LSTM",
                       "{}: encoder_reparameterization_type '{}': expected MLP or LSTM", kAdapterConfig,
                       type);
  v.encoder_type = type == "LSTM" ? PromptEncoder::kLstm : PromptEncoder::kMlp;
  v.num_layers = keys.integer("encoder_num_layers", 1, 100).value_or(2);
}

// {"pattern": number} as "pattern=number".
std::vector<std::string> read_patterns(JsonKeys& keys, const char* key) {
  std::vector<std::string> out;
  const nlohmann::json* const object = keys.object(key);
  if (!object) return out;
  for (const auto& [pattern, value] : object->items()) {
    require<ConfigError>(value.is_number() && value.get<double>() > 0,
                         "{}: {} of '{}' is {}, expected a number above 0", kAdapterConfig, key, pattern,
                         value.dump());
    out.push_back(fmt::format("{}={}", pattern, value.get<double>()));
  }
  return out;
}

// A list of names, or a text: "all-linear", or a regular expression of whole paths.
void read_targets(const nlohmann::json& json, const char* key, std::vector<std::string>& targets) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return;
  if (found->is_string()) {
    const std::string text = found->get<std::string>();
    targets = {text == "all-linear" ? text : "(?:" + text + ")"};
    return;
  }
  targets.clear();
  for (const auto& name : *found) {
    require<ConfigError>(found->is_array() && name.is_string(),
                         "{}: {} is {}, expected a list of names or a text", kAdapterConfig, key,
                         found->dump());
    targets.push_back(name.get<std::string>());
  }
}

void read_lora(JsonKeys& keys, const nlohmann::json& json, LoraConfig& c) {
  c.adapter_dim = keys.integer("r", 1, 1 << 16).value_or(8);
  c.alpha = keys.number("lora_alpha").value_or(8);
  require<ConfigError>(*c.alpha > 0, "{}: lora_alpha {} switches the adapter off: expected a number above 0",
                       kAdapterConfig, *c.alpha);
  c.adapter_dropout = keys.number("lora_dropout").value_or(0);
  read_targets(json, "target_modules", c.target_modules);
  c.use_rslora = keys.boolean("use_rslora").value_or(false);
  c.use_dora = keys.boolean("use_dora").value_or(false);
  c.rank_pattern = read_patterns(keys, "rank_pattern");
  c.alpha_pattern = read_patterns(keys, "alpha_pattern");
  const std::string bias = keys.text("bias").value_or("none");
  require<ConfigError>(bias == "none" || bias == "all" || bias == "lora_only",
                       "{}: bias '{}': expected none, all or lora_only", kAdapterConfig, bias);
  c.bias = bias == "all" ? AdapterBias::kAll : bias == "none" ? AdapterBias::kNone : AdapterBias::kLoraOnly;
  for (const char* other : {"lora_bias", "use_qalora", "use_bdlora"}) keys.only(other, false);
  // Adapters that act only behind certain tokens, that are chosen by the input, or that have more parts.
  for (const char* other :
       {"layer_replication", "alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config"})
    require<ConfigError>(!keys.has(other), "{}: {} is not supported", kAdapterConfig, other);
  const auto init = json.find("init_lora_weights");
  if (init != json.end() && init->is_string())
    for (const std::string_view method : kChangesBase)
      require<ConfigError>(
          !init->get<std::string>().starts_with(method),
          "{}: init_lora_weights {} changed the weights of the model that this adapter belongs "
          "to: convert it in PEFT (save_pretrained with path_initial_model_for_weight_conversion)",
          kAdapterConfig, init->get<std::string>());
}

std::vector<std::int64_t> read_ids(const nlohmann::json& json) {
  std::vector<std::int64_t> out;
  for (const auto& id : json) {
    require<ConfigError>(id.is_number_integer() && id.get<std::int64_t>() >= 0,
                         "{}: trainable_token_indices has {}, expected the ids of tokens", kAdapterConfig,
                         id.dump());
    out.push_back(id.get<std::int64_t>());
  }
  return out;
}

// A list of ids, for the embedding and a head that is tied to it; or a list for each of them by name.
void read_token_rows(const nlohmann::json& json, PeftConfig& c) {
  const auto found = json.find("trainable_token_indices");
  if (found == json.end() || found->is_null()) return;
  require<ConfigError>(found->is_array() || found->is_object(),
                       "{}: trainable_token_indices is {}, expected a list of ids or lists by module",
                       kAdapterConfig, found->dump());
  c.trainable_token_head = found->is_object() && found->size() > 1;
  if (found->is_array()) {
    c.trainable_token_indices = read_ids(*found);
    return;
  }
  for (const auto& [module, ids] : found->items()) {
    std::vector<std::int64_t> own = read_ids(ids);
    require<ConfigError>(
        found->size() <= 2 && (c.trainable_token_indices.empty() || own == c.trainable_token_indices),
        "{}: trainable_token_indices: '{}' has other tokens than the module before; the "
        "embedding and the head take the same",
        kAdapterConfig, module);
    c.trainable_token_indices = std::move(own);
  }
}

}  // namespace

AdapterDescription read_adapter_config(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  require<DataError>(json.is_object(), "{} is not a JSON object", kAdapterConfig);
  JsonKeys keys(json, "", kAdapterConfig);
  AdapterDescription out;
  if (describes_bottlenecks(json)) {
    out.base = keys.text("model_name").value_or("");
    out.config = read_bottleneck_config(json);
    return out;
  }
  out.config.peft_scheme = read_method(keys);
  out.base = keys.text("base_model_name_or_path").value_or("");
  const std::string type = keys.text("task_type").value_or("");
  for (const auto& [name, task] : kPeftTasks)
    if (type == name) out.task = task;
  if (out.config.has_virtual_tokens()) {
    out.submodules = keys.integer("num_transformer_submodules", 1, 2).value_or(1);
    read_virtual_tokens(keys, out.config);
    if (const auto saved = keys.texts("modules_to_save")) out.config.modules_to_save = *saved;
    return out;
  }
  if (out.config.is_lora()) {
    read_lora(keys, json, out.config.lora);
    read_token_rows(json, out.config);
  } else {
    read_targets(json, "target_modules", out.config.ia3.target_modules);
    read_targets(json, "feedforward_modules", out.config.ia3.feedforward_modules);
  }
  if (const auto saved = keys.texts("modules_to_save")) out.config.modules_to_save = *saved;
  out.stays_tied = keys.boolean("ensure_weight_tying").value_or(false);
  return out;
}

namespace {

// The last words of paths.
std::set<std::string> last_words(const std::set<std::string>& paths) {
  std::set<std::string> words;
  for (const std::string& path : paths) words.insert(path.substr(path.rfind('.') + 1));
  return words;
}

// Whether the last words of these paths mean them and no other.
bool words_tell(const std::set<std::string>& paths, const std::set<std::string>& others) {
  const std::set<std::string> words = last_words(paths), taken = last_words(others);
  return std::none_of(words.begin(), words.end(), [&](const auto& word) { return taken.contains(word); });
}

// Names that mean these modules and no other: the last words of their paths if that is so, else the paths.
std::vector<std::string> target_names(const std::set<std::string>& adapted,
                                      const std::set<std::string>& others) {
  const std::set<std::string> names = words_tell(adapted, others) ? last_words(adapted) : adapted;
  return {names.begin(), names.end()};
}

Json task_type(const ModelConfig& c) {
  for (const auto& [name, task] : kPeftTasks)
    if (task == c.task.type) return name;
  if (c.kind == ModelKind::kBert) return Json();
  return c.kind == ModelKind::kT5 ? "SEQ_2_SEQ_LM" : "CAUSAL_LM";
}

Json whole_or_not(double number) {
  const auto whole = static_cast<std::int64_t>(number);
  return static_cast<double>(whole) == number ? Json(whole) : Json(number);
}

const char* bias_name(AdapterBias bias) {
  return bias == AdapterBias::kAll ? "all" : bias == AdapterBias::kNone ? "none" : "lora_only";
}

}  // namespace

namespace {

// PEFT fills in the sizes from the model where it trains; where it loads, it needs them.
std::string write_virtual_tokens(const ModelSpec& spec, const std::string& base) {
  const ModelConfig& m = spec.config;
  const PeftConfig& peft = spec.adapters->config();
  const VirtualTokenConfig& c = peft.virtual_tokens;
  const bool prefix = peft.peft_scheme == PeftScheme::kPrefix;
  const auto method = std::find_if(std::begin(kPeftMethods), std::end(kPeftMethods),
                                   [&](const PeftMethod& one) { return one.scheme == peft.peft_scheme; });
  Json json{{"peft_type", method->name},
            {"task_type", task_type(m)},
            {"base_model_name_or_path", base},
            {"inference_mode", true},
            {"num_virtual_tokens", c.virtual_tokens},
            {"token_dim", prefix ? m.query_groups() * m.head_size() : m.hidden_size},
            {"num_transformer_submodules", 1},
            {"num_attention_heads", prefix ? m.query_groups() : m.num_attention_heads},
            {"num_layers", m.num_layers}};
  if (m.task.labelled()) json["modules_to_save"] = Json{"classifier", "score"};  // as PEFT names every head
  switch (peft.peft_scheme) {
    case PeftScheme::kPrompt:
      json["prompt_tuning_init"] = "RANDOM";
      break;
    case PeftScheme::kPrefix:
      json["prefix_projection"] = false;
      json["encoder_hidden_size"] = m.query_groups() * m.head_size();
      break;
    default:
      json["encoder_reparameterization_type"] = c.encoder_type == PromptEncoder::kLstm ? "LSTM" : "MLP";
      json["encoder_hidden_size"] = c.bottleneck_dim;
      json["encoder_num_layers"] = c.num_layers;
      json["encoder_dropout"] = 0;
      break;
  }
  return json.dump(2) + "\n";
}

std::string write_ia3(const ModelSpec& spec, const std::string& base) {
  const AdapterPlan& plan = *spec.adapters;
  std::set<std::string> adapted, inputs, outputs, others;
  bool transposed = false;
  for (const AdaptedModule& module : plan.modules()) {
    adapted.insert(module.linear.path);
    (module.inputs ? inputs : outputs).insert(module.linear.path);
    transposed = transposed || module.linear.transposed;
  }
  for (const LinearModule& module : linear_modules(spec, plan.family()))
    if (!adapted.contains(module.path)) others.insert(module.path);
  // PEFT wants names of feedforward_modules to be among target_modules.
  const bool words = words_tell(adapted, others) && words_tell(inputs, outputs);
  const auto& saved = plan.config().modules_to_save;
  const Json json{{"peft_type", "IA3"},
                  {"task_type", task_type(spec.config)},
                  {"base_model_name_or_path", base},
                  {"inference_mode", true},
                  {"target_modules", words ? last_words(adapted) : adapted},
                  {"feedforward_modules", words ? last_words(inputs) : inputs},
                  {"fan_in_fan_out", transposed},
                  {"modules_to_save", saved.empty() ? Json() : Json(saved)},
                  {"ensure_weight_tying", plan.saves_tied_embedding(spec)}};
  return json.dump(2) + "\n";
}

// What PEFT must read of a model whose files hold experts one by one. Since transformers 5 it holds them as
// two parameters of a layer, and for most families it takes the names of their layers ("gate_proj") in
// target_modules for these parameters, whatever other layers have those names, as shared experts and dense
// layers do: such are named as parameters themselves. Of qwen2_moe it takes the names for other layers alone.
struct ExpertNames {
  std::set<std::string> words;  // last words of the experts' paths
  bool adapted = false;         // experts are
  bool joint = false;           // and are named as parameters
  bool others = false;          // adapted, with the same last words

  ExpertNames(const std::vector<LinearModule>& all, const AdapterPlan& plan) {
    for (const LinearModule& module : all)
      if (module.is_single_expert()) words.insert(module.last_word());
    const bool beside = std::any_of(all.begin(), all.end(), [&](const LinearModule& module) {
      return !module.is_single_expert() && words.contains(module.last_word());
    });
    for (const AdaptedModule& module : plan.modules()) {
      if (module.linear.is_single_expert())
        adapted = true;
      else if (words.contains(module.linear.last_word()))
        others = true;
    }
    joint = adapted && beside;
  }
  // Modules that are named as parameters.
  bool as_parameter(const LinearModule& module) const { return others && words.contains(module.last_word()); }
};

}  // namespace

std::string write_adapter_config(const ModelSpec& spec, const std::string& base) {
  const AdapterPlan& plan = *spec.adapters;
  if (plan.config().is_bottleneck()) return write_bottleneck_config(spec, base);
  if (plan.virtual_tokens() > 0) return write_virtual_tokens(spec, base);
  if (plan.config().is_ia3()) return write_ia3(spec, base);
  const LoraConfig& c = plan.config().lora;
  const double alpha = c.alpha.value_or(static_cast<double>(c.adapter_dim));
  Json json{{"peft_type", "LORA"},
            {"task_type", task_type(spec.config)},
            {"base_model_name_or_path", base},
            {"inference_mode", true},
            {"r", c.adapter_dim},
            {"lora_alpha", whole_or_not(alpha)},
            {"lora_dropout", c.adapter_dropout},
            {"bias", bias_name(c.bias)},
            {"use_rslora", c.use_rslora},
            {"use_dora", c.use_dora}};
  std::set<std::string> adapted, parameters, others;
  std::map<std::string, std::int64_t> ranks;
  std::map<std::string, double> alphas;
  bool transposed = false;
  const std::vector<LinearModule> all = linear_modules(spec, plan.family());
  const ExpertNames experts(all, plan);
  std::set<std::string> whole;  // names of parameters, complete
  for (const AdaptedModule& module : plan.modules()) {
    const LinearModule& linear = module.linear;
    transposed = transposed || linear.transposed;
    if (experts.joint && linear.is_single_expert()) {
      // Gate and up have a matrix B each and, one below the other, one matrix A of twice the rank.
      const bool narrow = linear.pieces.front().name.ends_with(".down");
      whole.insert(narrow ? kJointDown : kJointGateUp);
      const std::int64_t rank = (narrow ? 1 : 2) * module.rank;
      const auto root = static_cast<double>(rank);
      const double own = module.scale * (c.use_rslora ? std::sqrt(root) : root);
      const std::string pattern = std::string(".*\\.") + (narrow ? kJointDown : kJointGateUp);
      if (rank != c.adapter_dim) ranks[pattern] = rank;
      if (own != alpha) alphas[pattern] = own;
      continue;
    }
    const bool parameter = experts.as_parameter(linear);
    const std::string path = parameter ? linear.path + ".weight" : linear.path;
    (parameter ? whole : linear.experts > 1 ? parameters : adapted).insert(path);
    if (module.rank != c.adapter_dim) ranks[path] = module.rank;
    if (module.alpha != alpha) alphas[path] = module.alpha;
  }
  for (const LinearModule& module : all)
    if (!adapted.contains(module.path) && !(experts.joint && module.is_single_expert()) &&
        !whole.contains(module.path + ".weight"))
      others.insert(module.path);
  for (const LinearModule& module : token_modules(spec, plan.family()))
    if (!adapted.contains(module.path)) others.insert(module.path);
  json["target_modules"] = target_names(adapted, others);
  for (const std::string& name : target_names(parameters, {})) whole.insert(name);
  if (!whole.empty()) {
    json["target_parameters"] = whole;
    if (experts.joint || experts.others) json["lora_dropout"] = 0;  // which PEFT does not know of parameters
  }
  json["fan_in_fan_out"] = transposed;
  json["rank_pattern"] = Json::object();
  for (const auto& [path, rank] : ranks) json["rank_pattern"][path] = rank;
  json["alpha_pattern"] = Json::object();
  for (const auto& [path, value] : alphas) json["alpha_pattern"][path] = whole_or_not(value);
  const auto& saved = plan.config().modules_to_save;
  json["modules_to_save"] = saved.empty() ? Json() : Json(saved);
  json["ensure_weight_tying"] = plan.saves_tied_embedding(spec);
  if (const auto& rows = plan.token_rows(); !rows.empty()) {
    if (spec.config.ties_head() || !plan.head_rows())
      json["trainable_token_indices"] = rows;
    else
      for (const Tensor& tensor : tensors(base_of(spec), plan.family()))
        if (is_token_matrix(tensor.parts.front().name)) {
          const std::string path = tensor.name.substr(0, tensor.name.rfind('.'));
          json["trainable_token_indices"][path.substr(path.rfind('.') + 1)] = rows;
        }
  }
  return json.dump(2) + "\n";
}

}  // namespace stoa::model::huggingface
