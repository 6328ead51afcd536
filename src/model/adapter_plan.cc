#include "model/adapter_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>
#include <set>

#include "base/nearest.h"
#include "model/chunk.h"

namespace stoa::model {

namespace hf = huggingface;

namespace {

constexpr std::string_view kWeight = ".weight";

std::string without_suffix(const std::string& name) { return name.substr(0, name.rfind('.')); }

// The module that has a tensor of the files: packed experts have no ".weight".
std::string module_path(const std::string& tensor) {
  for (const std::string_view suffix : {kWeight, std::string_view(".bias")})
    if (tensor.ends_with(suffix)) return tensor.substr(0, tensor.size() - suffix.size());
  return tensor;
}

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

// NeMo's and Megatron's names of linear layers, as ends of canonical ones.
struct FusedName {
  std::string_view name;
  std::vector<std::string_view> ends;
};
const std::vector<FusedName>& fused_names() {
  static const std::vector<std::string_view> qkv{".attention.q",     ".attention.k",      ".attention.v",
                                                 ".attention.gate",  ".self_attention.q", ".self_attention.k",
                                                 ".self_attention.v"},
      out{".attention.out", ".self_attention.out"}, up{".mlp.up", ".mlp.gate"}, down{".mlp.down"};
  static const std::vector<FusedName> names{{"attention_qkv", qkv},
                                            {"attention_dense", out},
                                            {"mlp_fc1", up},
                                            {"mlp_fc2", down},
                                            {"linear_qkv", qkv},
                                            {"linear_proj", out},
                                            {"linear_fc1", up},
                                            {"linear_fc2", down},
                                            {"attention", qkv},
                                            {"attention", out},
                                            {"mlp", up},
                                            {"mlp", down},
                                            {"all", qkv},
                                            {"all", out},
                                            {"all", up},
                                            {"all", down}};
  return names;
}

bool ends_with_name(std::string_view path, std::string_view name) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

bool is_glob(std::string_view text) {
  return text.find('*') != text.npos && text.find_first_of("\\()[]|^$+?{}") == text.npos;
}

bool is_expression(std::string_view text) { return text.find_first_of("\\()[]|^$+?{}") != text.npos; }

std::regex compiled(const std::string& text) {
  try {
    // Patterns come with adapters of others: matching must end in time that grows with the text alone.
    return std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    fail<ConfigError>("'{}' is not a regular expression: {}", text, error.what());
  }
}

// A text with * at the end of a path, after a dot or from its beginning.
bool matches_glob(std::string_view pattern, std::string_view path) {
  std::string expression = "(.*\\.)?";
  for (const char c : pattern) {
    if (c == '*')
      expression += ".*";
    else if (c == '.')
      expression += "\\.";
    else
      expression += c;
  }
  return std::regex_match(path.begin(), path.end(), compiled(expression));
}

// A key of rank_pattern or alpha_pattern: a name, or a regular expression of the end of a path, as in PEFT.
bool matches_pattern(const std::string& pattern, const LinearModule& module) {
  const bool glob = is_glob(pattern);
  const auto matches = [&](const std::string& path) {
    return glob ? matches_glob(pattern, path) : std::regex_match(path, compiled("(.*\\.)?(" + pattern + ")"));
  };
  const auto pieces = module.piece_names();
  return matches(module.path) || std::any_of(pieces.begin(), pieces.end(), matches);
}

// "pattern=value".
struct Setting {
  std::string pattern;
  double value = 0;
  bool used = false;
};
std::vector<Setting> settings_of(const std::vector<std::string>& texts, const char* key, bool whole) {
  std::vector<Setting> out;
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('=');
    Setting setting;
    const char* const end = text.data() + text.size();
    bool good = at != text.npos && at > 0 && at + 1 < text.size();
    if (good) {
      setting.pattern = text.substr(0, at);
      const auto [last, error] = std::from_chars(text.data() + at + 1, end, setting.value);
      good = error == std::errc() && last == end && setting.value > 0 &&
             (!whole || setting.value == std::floor(setting.value));
    }
    require<ConfigError>(good, "peft.lora_tuning.{}: '{}' is not PATTERN={}, as in q_proj=4", key, text,
                         whole ? "RANK (a whole number above 0)" : "ALPHA (a number above 0)");
    out.push_back(std::move(setting));
  }
  return out;
}
const Setting* find_setting(std::vector<Setting>& settings, const LinearModule& module) {
  for (Setting& setting : settings)
    if (matches_pattern(setting.pattern, module)) return setting.used = true, &setting;
  return nullptr;
}
void require_used(const std::vector<Setting>& settings, const char* key) {
  for (const Setting& setting : settings)
    require<ConfigError>(setting.used, "peft.lora_tuning.{}: '{}' matches no adapted layer", key,
                         setting.pattern);
}

// "layers.0.attention.q-k-v": of what the pieces share.
std::string shared_name(const std::vector<LinearModule::Piece>& pieces) {
  std::string out = pieces.front().name;
  for (std::size_t i = 1; i < pieces.size(); ++i)
    out += "-" + pieces[i].name.substr(pieces[i].name.rfind('.') + 1);
  return out;
}

// The last words of paths, and names that mean several.
std::vector<std::string> names_of_targets(const std::vector<LinearModule>& modules) {
  std::set<std::string> names{"all-linear"};
  for (const FusedName& fused : fused_names()) names.emplace(fused.name);
  for (const LinearModule& module : modules) names.insert(module.path.substr(module.path.rfind('.') + 1));
  return {names.begin(), names.end()};
}

}  // namespace

bool matches_target(const std::string& target, const std::string& path,
                    const std::vector<std::string>& pieces) {
  if (is_glob(target)) {
    if (matches_glob(target, path)) return true;
    return std::any_of(pieces.begin(), pieces.end(), [&](const auto& p) { return matches_glob(target, p); });
  }
  if (is_expression(target)) return std::regex_match(path, compiled(target));
  if (ends_with_name(path, target)) return true;
  for (const std::string& piece : pieces) {
    if (ends_with_name(piece, target)) return true;
    for (const FusedName& fused : fused_names())
      if (fused.name == target)
        for (const std::string_view end : fused.ends)
          if (piece.ends_with(end)) return true;
  }
  return false;
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
      module.path = tensor->module.empty() ? module_path(tensor->name) : tensor->module;
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
    module.path = tensor.module.empty() ? module_path(tensor.name) : tensor.module;
    module.name = without_suffix(part);
    module.pieces = {{module.name, tensor.parts.front().shape[0]}};
    module.inputs = tensor.parts.front().shape[1];
    module.rows = tensor.runs;
    module.kind = embedding ? ModuleKind::kEmbedding : ModuleKind::kHead;
    out.push_back(std::move(module));
  }
  return out;
}

ModelSpec base_of(const ModelSpec& spec) {
  ModelSpec base = spec;
  base.config.peft = {};
  base.adapters = nullptr;
  return base;
}

std::shared_ptr<const AdapterPlan> plan_adapters(const ModelSpec& base) {
  return base.config.peft.active() ? std::make_shared<AdapterPlan>(base) : nullptr;
}

AdapterPlan::AdapterPlan(const ModelSpec& base)
    : config_(base.config.peft),
      family_(config_.base_model_type ? &hf::family_for(*config_.base_model_type, base.config)
                                      : &hf::choose_family(base.config)),
      hidden_(base.config.hidden_size) {
  require<ConfigError>(
      base.config.freeze.empty(),
      "model.freeze with model.peft: the weights of the model are not trained; leave out "
      "freeze, or train biases and modules by peft.lora_tuning.bias and peft.modules_to_save");
  require<ConfigError>(!base.config.mup.use_mup,
                       "use_mup is for models that are trained from scratch: leave it out with model.peft");
  if (config_.has_virtual_tokens()) {
    check_virtual_tokens(base);
    return;
  }
  if (config_.is_bottleneck()) {
    check_bottlenecks(base);
    return;
  }
  if (config_.is_ia3())
    choose_rescaled(base);
  else
    choose_modules(base);
  choose_trained(base);
  choose_token_rows(base);
}

void AdapterPlan::choose_token_rows(const ModelSpec& base) {
  token_rows_ = config_.trainable_token_indices;
  if (token_rows_.empty()) return;
  require<ConfigError>(base.config.kind == ModelKind::kGpt,
                       "peft.trainable_token_indices is for decoders alone");
  const std::int64_t last = *std::max_element(token_rows_.begin(), token_rows_.end());
  require<ConfigError>(last < base.vocabulary,
                       "peft.trainable_token_indices names token {}, the model has {}", last,
                       base.vocabulary);
  for (const char* whole : {"embedding.tokens.weight", "head.weight"})
    require<ConfigError>(
        !trains_base(whole),
        "peft.trainable_token_indices and modules_to_save both train rows of {}: leave it out "
        "of one of them",
        whole);
  require<ConfigError>(
      !adapts_tokens(),
      "peft.trainable_token_indices (the tokens that a chat template adds are among them) trains rows of the "
      "embedding and the head, which have a low-rank branch: leave them out of lora_tuning.target_modules, "
      "or take a template without new tokens");
}

void AdapterPlan::check_virtual_tokens(const ModelSpec& base) const {
  const ModelConfig& c = base.config;
  require<ConfigError>(
      c.kind == ModelKind::kGpt && !c.task.labelled(),
      "peft_scheme prompt, ptuning and prefix are for models that continue a text: take lora "
      "for an encoder, an encoder-decoder or a classification");
  require<ConfigError>(config_.modules_to_save.empty(),
                       "peft.modules_to_save is for peft_scheme lora: virtual tokens are trained alone");
  require<ConfigError>(virtual_tokens() < c.max_positions(),
                       "p_tuning.virtual_tokens {}: the model has {} positions", virtual_tokens(),
                       c.max_positions());
  require<ConfigError>(
      config_.peft_scheme != PeftScheme::kPrefix || (!c.latent.multi_latent_attention && !c.linear.any()),
      "peft_scheme prefix replaces keys and values, which {} does not keep: take prompt or ptuning",
      c.latent.multi_latent_attention ? "latent attention" : "linear attention");
}

std::optional<nn::PromptOptions> AdapterPlan::prompt() const {
  const VirtualTokenConfig& c = config_.virtual_tokens;
  if (config_.peft_scheme != PeftScheme::kPrompt && config_.peft_scheme != PeftScheme::kPTuning)
    return std::nullopt;
  const bool encodes = config_.peft_scheme == PeftScheme::kPTuning;
  const bool nemo = c.encoder_type == PromptEncoder::kTensorMlp;
  const auto encoder = nemo                                     ? nn::PromptEncoderKind::kTensorMlp
                       : c.encoder_type == PromptEncoder::kLstm ? nn::PromptEncoderKind::kLstm
                                                                : nn::PromptEncoderKind::kMlp;
  return nn::PromptOptions{.tokens = c.virtual_tokens,
                           .encoder = encodes ? encoder : nn::PromptEncoderKind::kNone,
                           .inputs = nemo ? c.embedding_dim.value_or(hidden_) : hidden_,
                           .width = c.bottleneck_dim,
                           .layers = c.num_layers,
                           .deviation = c.init_std};
}

std::optional<nn::PrefixOptions> AdapterPlan::prefix() const {
  if (config_.peft_scheme != PeftScheme::kPrefix) return std::nullopt;
  return nn::PrefixOptions{config_.virtual_tokens.virtual_tokens, config_.virtual_tokens.init_std};
}

namespace {

// Embedding and head are meant by their names and by regular expressions alone.
bool target_means(const std::string& target, const LinearModule& module) {
  return (module.kind == ModuleKind::kLayer || !is_glob(target)) &&
         matches_target(target, module.path, module.piece_names());
}

// A list of targets, which may have thousands of whole paths (an adapter of experts).
class TargetNames {
 public:
  explicit TargetNames(const std::vector<std::string>& targets)
      : exact_(targets.begin(), targets.end()), all_(targets) {}

  bool mean(const LinearModule& module) const {
    const bool layer = module.kind == ModuleKind::kLayer;
    if ((layer && exact_.contains("all-linear")) || exact_.contains(module.path)) return true;
    const auto pieces = module.piece_names();
    if (std::any_of(pieces.begin(), pieces.end(), [&](const auto& p) { return exact_.contains(p); }))
      return true;
    return all_.size() <= kMostLooked &&
           std::any_of(all_.begin(), all_.end(), [&](const auto& t) { return target_means(t, module); });
  }

 private:
  static constexpr std::size_t kMostLooked = 1000;  // longer lists are of whole paths
  std::set<std::string> exact_;
  const std::vector<std::string>& all_;
};

void require_known(const std::vector<std::string>& targets, const std::vector<LinearModule>& all,
                   const std::string& key) {
  std::set<std::string> paths, words;
  for (const LinearModule& module : all) {
    paths.insert(module.path);
    for (const auto& piece : module.pieces) paths.insert(piece.name);
    words.insert(module.path.substr(module.path.rfind('.') + 1));
  }
  for (const std::string& target : targets)
    require<ConfigError>(
        target == "all-linear" || paths.contains(target) ||
            std::any_of(all.begin(), all.end(), [&](const auto& m) { return target_means(target, m); }),
        "peft.{}: '{}' is no linear layer of this model{}; it has {}", key, target,
        did_you_mean(target, names_of_targets(all)), fmt::join(words, ", "));
}

void require_layers(const std::vector<std::int64_t>& selected, std::int64_t layers, const char* section) {
  for (const auto layer : selected)
    require<ConfigError>(layer <= layers, "peft.{}.layer_selection names layer {}, expected 1 to {}", section,
                         layer, layers);
}

bool is_selected(const LinearModule& module, const std::vector<std::int64_t>& selected) {
  return selected.empty() ||
         (module.layer && std::find(selected.begin(), selected.end(), *module.layer + 1) != selected.end());
}

// Whether the head is trained and saved as a whole (save_task_head), as by PEFT, whose all-linear leaves it
// out: that of a decoder's labelled task.
bool saves_head(const ModelConfig& c) { return c.kind == ModelKind::kGpt && c.task.labelled(); }

}  // namespace

void AdapterPlan::check_bottlenecks(const ModelSpec& base) const {
  const ModelConfig& c = base.config;
  require<ConfigError>(config_.modules_to_save.empty() && !c.task.labelled(),
                       "peft_scheme adapter trains bottlenecks alone: take lora or ia3 for a {}",
                       c.task.labelled() ? "classification, whose head is trained with them"
                                         : "module that "
                                           "is trained in full (modules_to_save)");
  require<ConfigError>(
      c.norm_placement == NormPlacement::kBefore,
      "peft_scheme adapter is for layers that are normalised before, or after the sum (BERT): "
      "this model's are normalised after their branches; take lora");
  // AdapterHub's files for GPT-J mean the stream between attention and MLP, which run side by side here.
  require<ConfigError>(
      family_->type != "gptj" || config_.bottleneck.type == BottleneckType::kDoubleSequential,
      "peft.adapter_tuning.type: in layers of GPT-J a bottleneck of this kind reads what is "
      "between attention and MLP, which run side by side here; take double_seq_bn, or lora");
  require_layers(config_.bottleneck.layer_selection, c.num_layers, "adapter_tuning");
  const std::int64_t width = config_.bottleneck.width(hidden_);
  require<ConfigError>(
      width <= hidden_,
      "peft.adapter_tuning: a width of {} is above the model's of {}: a bottleneck is narrower", width,
      hidden_);
}

namespace {

ops::ActivationKind bottleneck_activation(BottleneckActivation activation) {
  switch (activation) {
    case BottleneckActivation::kRelu:
      return ops::ActivationKind::kRelu;
    case BottleneckActivation::kSwish:
      return ops::ActivationKind::kSilu;
    case BottleneckActivation::kGelu:
      return ops::ActivationKind::kGelu;
    case BottleneckActivation::kGeluNew:
      return ops::ActivationKind::kGeluTanh;
    case BottleneckActivation::kTanh:
      return ops::ActivationKind::kTanh;
    case BottleneckActivation::kSigmoid:
      return ops::ActivationKind::kSigmoid;
  }
  fail<InternalError>("unknown function of a bottleneck");
}

}  // namespace

std::optional<nn::BottleneckOptions> AdapterPlan::bottleneck(const Branch& branch,
                                                             const parallel::TensorPlace& place) const {
  const BottleneckConfig& c = config_.bottleneck;
  const bool both = c.type == BottleneckType::kDoubleSequential;
  const auto& selected = c.layer_selection;
  if (!config_.is_bottleneck() || (branch.attention && !both) ||
      (!selected.empty() && std::find(selected.begin(), selected.end(), branch.layer + 1) == selected.end()))
    return std::nullopt;
  nn::BottleneckOptions out;
  out.name = fmt::format("{}.{}.adapter", branch.block, branch.attention ? "attention" : "mlp");
  out.reads = both              ? nn::BottleneckReads::kBranch
              : c.is_parallel() ? nn::BottleneckReads::kStream
                                : nn::BottleneckReads::kSum;
  out.hidden = hidden_;
  out.width = c.width(hidden_);
  out.activation = bottleneck_activation(c.activation());
  out.scale = c.scale();
  // Initial values as in AdapterHub: those of BERT, or a network that adds nothing yet.
  out.down = out.up = {nn::InitKind::kNormal, 0.02};
  if (c.is_parallel()) {
    out.down = {nn::InitKind::kUniform, 1 / std::sqrt(static_cast<double>(hidden_))};
    out.up = {nn::InitKind::kZeros, 0};
  }
  out.place = place;
  return out;
}

void AdapterPlan::choose_modules(const ModelSpec& base) {
  const LoraConfig& c = lora();
  std::vector<LinearModule> all = linear_modules(base, *family_);
  for (LinearModule& module : token_modules(base, *family_)) all.push_back(std::move(module));
  auto ranks = settings_of(c.rank_pattern, "rank_pattern", true);
  auto alphas = settings_of(c.alpha_pattern, "alpha_pattern", false);
  require_layers(c.layer_selection, base.config.num_layers, "lora_tuning");
  require_known(c.target_modules, all, "lora_tuning.target_modules");
  require_known(c.exclude_modules, all, "lora_tuning.exclude_modules");
  const TargetNames targets(c.target_modules), excluded(c.exclude_modules);
  for (const LinearModule& module : all) {
    if (saves_head(base.config) && module.pieces.front().name.starts_with("head.")) continue;
    if (!targets.mean(module) || excluded.mean(module) || !is_selected(module, c.layer_selection)) continue;
    require<ConfigError>(
        !module.rows.empty(),
        "peft.lora_tuning: '{}' is stored as one matrix with parts of other layers, which an "
        "adapter cannot split; exclude it (exclude_modules)",
        module.path);
    require<ConfigError>(!c.use_dora || module.kind == ModuleKind::kLayer,
                         "peft.lora_tuning.use_dora is not for the embedding or the head, as '{}': leave it "
                         "out of target_modules",
                         module.path);
    require<ConfigError>(!c.use_dora || module.pieces.front().name.find(".experts.") == std::string::npos,
                         "peft.lora_tuning.use_dora is not for experts, as '{}': exclude them "
                         "(exclude_modules=['*experts*'])",
                         module.path);
    AdaptedModule adapted;
    adapted.linear = module;
    adapted.rank = c.adapter_dim;
    if (const Setting* rank = find_setting(ranks, module)) adapted.rank = std::llround(rank->value);
    const Setting* const alpha = find_setting(alphas, module);
    adapted.alpha = alpha ? alpha->value : c.alpha.value_or(static_cast<double>(c.adapter_dim));
    const auto rank = static_cast<double>(adapted.rank);
    adapted.scale = adapted.alpha / (c.use_rslora ? std::sqrt(rank) : rank);
    for (const auto& piece : module.pieces) module_of_[piece.name] = modules_.size();
    modules_.push_back(std::move(adapted));
  }
  require_used(ranks, "rank_pattern");
  require_used(alphas, "alpha_pattern");
  require<ConfigError>(!modules_.empty(),
                       "peft.lora_tuning: no layer is left to adapt (target_modules without exclude_modules, "
                       "within layer_selection)");
}

void AdapterPlan::choose_rescaled(const ModelSpec& base) {
  const Ia3Config& c = config_.ia3;
  // PEFT's choice for most families (its constants.py), by the names of canonical matrices.
  static const std::vector<std::string> keys_values_down{"*attention.k", "*attention.v", "mlp.down"},
      down{"mlp.down"};
  const bool chosen = !c.target_modules.empty();
  const std::vector<LinearModule> all = linear_modules(base, *family_);
  require_layers(c.layer_selection, base.config.num_layers, "ia3_tuning");
  require_known(c.target_modules, all, "ia3_tuning.target_modules");
  require_known(c.feedforward_modules, all, "ia3_tuning.feedforward_modules");
  const TargetNames targets(chosen ? c.target_modules : keys_values_down),
      inputs(chosen ? c.feedforward_modules : down);
  for (const LinearModule& module : all) {
    if (!is_selected(module, c.layer_selection)) continue;
    if (!targets.mean(module)) {
      require<ConfigError>(!chosen || !inputs.mean(module),
                           "peft.ia3_tuning.feedforward_modules: '{}' is not among target_modules",
                           module.path);
      continue;
    }
    require<ConfigError>(module.pieces.front().name.find(".experts.") == std::string::npos,
                         "peft.ia3_tuning is not for experts, as '{}': leave them out of target_modules",
                         module.path);
    require<ConfigError>(!module.rows.empty(),
                         "peft.ia3_tuning: '{}' is stored as one matrix with parts of other layers, which an "
                         "adapter cannot split; leave it out of target_modules",
                         module.path);
    for (const auto& piece : module.pieces) module_of_[piece.name] = modules_.size();
    modules_.push_back({.linear = module, .inputs = inputs.mean(module)});
  }
  require<ConfigError>(!modules_.empty(),
                       "peft.ia3_tuning: this model has no layer that is chosen without target_modules: give "
                       "them, of {}",
                       fmt::join(names_of_targets(all), ", "));
}

namespace {

// The head of a labelled task is trained with an adapter, as PEFT does for SEQ_CLS and TOKEN_CLS: appends its
// module to those that are saved. PEFT lists both names that heads have, whichever the model knows.
void save_task_head(const ModelSpec& base, const hf::Family& family, std::vector<std::string>& saved) {
  if (!saves_head(base.config)) return;
  const std::vector<hf::Tensor> tensors = hf::tensors(base_of(base), family);
  const auto means = [&](const std::string& name, const hf::Tensor& tensor) {
    return matches_target(name, module_path(tensor.name), {without_suffix(tensor.parts.front().name)});
  };
  std::erase_if(saved, [&](const std::string& name) {
    const bool usual = name == "classifier" || name == "score";
    return usual && std::none_of(tensors.begin(), tensors.end(),
                                 [&](const auto& tensor) { return means(name, tensor); });
  });
  for (const hf::Tensor& tensor : tensors) {
    const std::string path = module_path(tensor.name);
    if (tensor.parts.front().name.starts_with("head.") &&
        std::none_of(saved.begin(), saved.end(), [&](const auto& name) { return means(name, tensor); }))
      saved.push_back(path.substr(path.rfind('.') + 1));
  }
}

}  // namespace

void AdapterPlan::choose_trained(const ModelSpec& base) {
  save_task_head(base, *family_, config_.modules_to_save);
  std::set<std::string> found;
  for (const hf::Tensor& tensor : hf::tensors(base_of(base), *family_)) {
    const std::string path = module_path(tensor.name);
    for (std::size_t p = 0; p < tensor.parts.size(); ++p) {
      const std::string& name = tensor.parts[p].name;
      const std::string piece = without_suffix(name);
      bool trained = lora().bias != AdapterBias::kNone && name.ends_with(".bias") &&
                     (lora().bias == AdapterBias::kAll || module_of_.contains(piece));
      for (const std::string& saved : config_.modules_to_save)
        if (matches_target(saved, path, {piece})) {
          trained = true;
          found.insert(saved);
          require<ConfigError>(!module_of_.contains(piece),
                               "peft.modules_to_save: '{}' is adapted already; exclude it (exclude_modules)",
                               saved);
        }
      if (trained) trained_[name] = true;
    }
  }
  for (const std::string& saved : config_.modules_to_save) {
    if (found.contains(saved)) continue;
    std::set<std::string> words;
    for (const hf::Tensor& tensor : hf::tensors(base_of(base), *family_)) {
      const std::string path = module_path(tensor.name);
      words.insert(path.substr(path.rfind('.') + 1));
    }
    const std::vector<std::string> names(words.begin(), words.end());
    fail<ConfigError>("peft.modules_to_save: '{}' is no module of this model{}; it has {}{}", saved,
                      did_you_mean(saved, names), fmt::join(names, ", "),
                      base.config.ties_head() ? " (its head is tied to the embedding)" : "");
  }
}

bool AdapterPlan::adapts_tokens() const { return adapts("embedding.tokens") || adapts("head"); }

bool AdapterPlan::trains_base(const std::string& name) const { return trained_.contains(name); }

bool AdapterPlan::trains(const nn::ParamSpec& spec) const {
  if (spec.adapter) return true;
  const auto& pieces = spec.shard.pieces;
  const bool trained = trains_base(pieces.front().name);
  for (const ShardPiece& piece : pieces)
    require<ConfigError>(
        trains_base(piece.name) == trained,
        "model.peft trains '{}' and freezes '{}', which are held in one tensor: train both or "
        "none",
        trained ? pieces.front().name : piece.name, trained ? piece.name : pieces.front().name);
  return trained;
}

std::vector<const AdaptedModule*> AdapterPlan::modules_of(const std::vector<std::string>& pieces) const {
  std::vector<const AdaptedModule*> out;
  for (std::size_t p = 0; p < pieces.size();) {
    const auto found = module_of_.find(pieces[p]);
    if (found == module_of_.end()) {
      ++p;
      continue;
    }
    out.push_back(&modules_[found->second]);
    p += out.back()->linear.pieces.size();
  }
  return out;
}

std::vector<nn::Rescaling> AdapterPlan::rescalings(const std::vector<std::string>& pieces) const {
  std::vector<nn::Rescaling> out;
  if (!config_.is_ia3()) return out;
  for (const AdaptedModule* found : modules_of(pieces)) {
    const AdaptedModule& module = *found;
    const std::vector<std::string> own = module.linear.piece_names();
    require<ConfigError>(
        !module.inputs || own.size() == pieces.size(),
        "peft.ia3_tuning: '{}' and others are held as one matrix and read the same: its inputs "
        "cannot be scaled alone; leave it out of feedforward_modules",
        module.linear.path);
    out.push_back({.name = module.linear.name, .pieces = own, .inputs = module.inputs});
  }
  return out;
}

std::vector<nn::LowRankBranch> AdapterPlan::branches(const std::vector<std::string>& pieces) const {
  std::vector<nn::LowRankBranch> out;
  if (!config_.is_lora()) return out;
  const LoraConfig& c = lora();
  for (const AdaptedModule* found : modules_of(pieces)) {
    const AdaptedModule& module = *found;
    const auto inputs = static_cast<double>(module.linear.inputs), rank = static_cast<double>(module.rank);
    nn::LowRankBranch branch{.name = module.linear.name,
                             .pieces = module.linear.piece_names(),
                             .rank = module.rank,
                             .scale = module.scale,
                             .dropout = static_cast<float>(c.adapter_dropout),
                             .init = {},
                             .b_rate = c.loraplus_lr_ratio,
                             .magnitude = c.use_dora};
    switch (c.column_init_method) {
      case LowRankInit::kKaiming:
        branch.init = {nn::InitKind::kUniform, 1 / std::sqrt(inputs)};
        break;
      case LowRankInit::kXavier:
        branch.init = {nn::InitKind::kNormal, std::sqrt(2 / (inputs + rank))};
        break;
      case LowRankInit::kNormal:
        branch.init = {nn::InitKind::kNormal, 0.2};
        break;
      case LowRankInit::kGaussian:
        branch.init = {nn::InitKind::kNormal, 1 / rank};
        break;
    }
    out.push_back(std::move(branch));
  }
  return out;
}

}  // namespace stoa::model
