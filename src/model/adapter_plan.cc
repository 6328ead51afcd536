#include "model/adapter_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/nearest.h"
#include "model/adapter_targets.h"

namespace stoa::model {

namespace hf = huggingface;

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
  if (config_.quantize_base != BaseFormat::kNone) check_quantized(base);
  if (config_.has_virtual_tokens()) {
    check_virtual_tokens(base);
    choose_trained(base);
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

void AdapterPlan::check_quantized(const ModelSpec& base) const {
  const ModelConfig& c = base.config;
  require<ConfigError>(
      !lora().use_dora,
      "peft.quantize_base and lora_tuning.use_dora: the norms of rows are those of whole matrices; "
      "leave out one of them");
  require<ConfigError>(
      !c.fp8.fp8, "peft.quantize_base and model.fp8 both choose the bits of products: leave out one of them");
  require<ConfigError>(
      !c.latent.multi_latent_attention,
      "peft.quantize_base is not for latent attention, whose matrices are multiplied by each other");
}

quant::PackedKind AdapterPlan::base_kind() const {
  switch (config_.quantize_base) {
    case BaseFormat::kNone:
      return quant::PackedKind::kNone;
    case BaseFormat::kInt8:
      return quant::PackedKind::kInt8;
    case BaseFormat::kNf4:
      return quant::PackedKind::kNf4;
  }
  fail<InternalError>("unknown format of a base");
}

void AdapterPlan::check_virtual_tokens(const ModelSpec& base) const {
  const ModelConfig& c = base.config;
  const bool classifies =
      c.task.type == Task::kSequenceClassification || c.task.type == Task::kTokenClassification;
  require<ConfigError>(c.task.labelled() ? classifies && (c.kind == ModelKind::kBert || !c.task.regression())
                                         : c.kind != ModelKind::kBert,
                       "peft_scheme prompt, ptuning and prefix are for models that write a text, or classify "
                       "texts or words (model.task): take lora for {}",
                       c.task.embeds()       ? "an embedding model"
                       : !c.task.labelled()  ? "an encoder that predicts words"
                       : c.task.regression() ? "a reward model"
                                             : "the answers to questions");
  require<ConfigError>(c.kind != ModelKind::kBert || config_.peft_scheme != PeftScheme::kPrefix,
                       "peft_scheme prefix is not for encoders: PEFT has none for them with transformers 5; "
                       "take prompt or ptuning");
  require<ConfigError>(
      c.kind != ModelKind::kT5 || config_.peft_scheme != PeftScheme::kPrefix,
      "peft_scheme prefix is not for encoder-decoders: PEFT gives two layers of their decoder the same keys "
      "and values, and their encoder none; take prompt or ptuning");
  require<ConfigError>(
      config_.modules_to_save.empty() || c.task.labelled(),
      "peft.modules_to_save is for peft_scheme lora and classifications: virtual tokens are trained alone");
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

// Whether the head is trained and saved as a whole (save_task_head), as by PEFT, whose all-linear leaves it
// out: that of a decoder's labelled task, and of an encoder's with virtual tokens.
bool saves_head(const ModelConfig& c) {
  return c.task.labelled() && (c.kind == ModelKind::kGpt || c.peft.has_virtual_tokens());
}

// Whether PEFT trains a layer of an encoder's head (one before the classifier as well where it is a part of
// it, or named like it; others are frozen).
bool is_in_classifier(const std::string& path) {
  return path.substr(0, path.find('.')).ends_with("classifier");
}

}  // namespace

void AdapterPlan::check_bottlenecks(const ModelSpec& base) const {
  const ModelConfig& c = base.config;
  require<ConfigError>(config_.modules_to_save.empty() && (!c.task.labelled() || c.task.embeds()),
                       "peft_scheme adapter trains bottlenecks alone: take lora or ia3 for a {}",
                       c.task.labelled() ? "classification, whose head is trained with them"
                                         : "module that is trained in full (modules_to_save)");
  require<ConfigError>(
      c.norm_placement == NormPlacement::kBefore,
      "peft_scheme adapter is for layers that are normalised before, or after the sum (BERT): "
      "this model's are normalised after their branches; take lora");
  require<ConfigError>(
      family_->type != "gptj" || config_.bottleneck.type == BottleneckType::kDoubleSequential,
      "peft.adapter_tuning.type: AdapterHub's bottlenecks of this type read the stream between attention and "
      "MLP in GPT-J, which has none here, as the two run side by side; take double_seq_bn, or lora");
  require_known_layers(config_.bottleneck.layer_selection, c.num_layers, "adapter_tuning");
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
  if (!config_.is_bottleneck() || (branch.attention && !both) ||
      !is_selected(branch.layer, c.layer_selection))
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
  PatternValues ranks(c.rank_pattern, "rank_pattern", true), alphas(c.alpha_pattern, "alpha_pattern", false);
  require_known_layers(c.layer_selection, base.config.num_layers, "lora_tuning");
  require_known_targets(c.target_modules, all, "lora_tuning.target_modules");
  require_known_targets(c.exclude_modules, all, "lora_tuning.exclude_modules");
  const TargetNames targets(c.target_modules), excluded(c.exclude_modules);
  // As in PEFT, all-linear leaves out the modules of modules_to_save.
  std::vector<std::string> named = c.target_modules;
  std::erase(named, "all-linear");
  const TargetNames named_targets(named), saved(config_.modules_to_save);
  for (const LinearModule& module : all) {
    if (saves_head(base.config) && module.pieces.front().name.starts_with("head.")) continue;
    if (!targets.mean(module) || excluded.mean(module) || !is_selected(module.layer, c.layer_selection))
      continue;
    if (saved.mean(module) && !named_targets.mean(module)) continue;
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
    if (const auto rank = ranks.find(module)) adapted.rank = std::llround(*rank);
    adapted.alpha = alphas.find(module).value_or(c.alpha.value_or(static_cast<double>(c.adapter_dim)));
    const auto rank = static_cast<double>(adapted.rank);
    adapted.scale = adapted.alpha / (c.use_rslora ? std::sqrt(rank) : rank);
    for (const auto& piece : module.pieces) module_of_[piece.name] = modules_.size();
    modules_.push_back(std::move(adapted));
  }
  ranks.require_all_used();
  alphas.require_all_used();
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
  require_known_layers(c.layer_selection, base.config.num_layers, "ia3_tuning");
  require_known_targets(c.target_modules, all, "ia3_tuning.target_modules");
  require_known_targets(c.feedforward_modules, all, "ia3_tuning.feedforward_modules");
  const TargetNames targets(chosen ? c.target_modules : keys_values_down),
      inputs(chosen ? c.feedforward_modules : down);
  for (const LinearModule& module : all) {
    if (!is_selected(module.layer, c.layer_selection)) continue;
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
    const bool encoder = base.config.kind == ModelKind::kBert;
    if (tensor.parts.front().name.starts_with("head.") && (!encoder || is_in_classifier(path)) &&
        std::none_of(saved.begin(), saved.end(), [&](const auto& name) { return means(name, tensor); }))
      saved.push_back(encoder ? path : path.substr(path.rfind('.') + 1));
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

bool AdapterPlan::saves_tied_embedding(const ModelSpec& base) const {
  return base.config.ties_head() && trains_base("embedding.tokens.weight");
}

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
