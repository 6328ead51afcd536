#include "model/peft_config.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"

namespace stoa::model {

using config::EnumName;
using config::Section;

std::span<const EnumName<PeftScheme>> enum_names(PeftScheme) {
  static constexpr std::array<EnumName<PeftScheme>, 7> kNames{{{"none", PeftScheme::kNone},
                                                               {"lora", PeftScheme::kLora},
                                                               {"ia3", PeftScheme::kIa3},
                                                               {"ptuning", PeftScheme::kPTuning},
                                                               {"prompt", PeftScheme::kPrompt},
                                                               {"prefix", PeftScheme::kPrefix},
                                                               {"adapter", PeftScheme::kAdapter}}};
  return kNames;
}

std::span<const EnumName<LowRankInit>> enum_names(LowRankInit) {
  static constexpr std::array<EnumName<LowRankInit>, 4> kNames{{{"kaiming", LowRankInit::kKaiming},
                                                                {"xavier", LowRankInit::kXavier},
                                                                {"normal", LowRankInit::kNormal},
                                                                {"gaussian", LowRankInit::kGaussian}}};
  return kNames;
}

std::span<const EnumName<AdapterBias>> enum_names(AdapterBias) {
  static constexpr std::array<EnumName<AdapterBias>, 3> kNames{
      {{"none", AdapterBias::kNone}, {"all", AdapterBias::kAll}, {"lora_only", AdapterBias::kLoraOnly}}};
  return kNames;
}

std::span<const EnumName<PromptEncoder>> enum_names(PromptEncoder) {
  static constexpr std::array<EnumName<PromptEncoder>, 3> kNames{
      {{"mlp", PromptEncoder::kMlp}, {"lstm", PromptEncoder::kLstm}, {"tpmlp", PromptEncoder::kTensorMlp}}};
  return kNames;
}

std::span<const EnumName<BottleneckType>> enum_names(BottleneckType) {
  static constexpr std::array<EnumName<BottleneckType>, 7> kNames{
      {{"seq_bn", BottleneckType::kSequential},
       {"double_seq_bn", BottleneckType::kDoubleSequential},
       {"par_bn", BottleneckType::kParallel},
       {"pfeiffer", BottleneckType::kSequential},
       {"houlsby", BottleneckType::kDoubleSequential},
       {"parallel", BottleneckType::kParallel},
       {"parallel_adapter", BottleneckType::kParallel}}};
  return kNames;
}

std::span<const EnumName<BaseFormat>> enum_names(BaseFormat) {
  static constexpr std::array<EnumName<BaseFormat>, 3> kNames{
      {{"none", BaseFormat::kNone}, {"int8", BaseFormat::kInt8}, {"nf4", BaseFormat::kNf4}}};
  return kNames;
}

std::string_view name_of(BaseFormat format) { return config::enum_name(format); }

BaseFormat base_format(std::string_view name) {
  for (const auto& [known, format] : enum_names(BaseFormat::kNone))
    if (name == known) return format;
  fail<DataError>("an adapter was trained on a model in '{}': expected int8 or nf4", name);
}

std::span<const EnumName<BottleneckActivation>> enum_names(BottleneckActivation) {
  static constexpr std::array<EnumName<BottleneckActivation>, 6> kNames{
      {{"relu", BottleneckActivation::kRelu},
       {"swish", BottleneckActivation::kSwish},
       {"gelu", BottleneckActivation::kGelu},
       {"gelu_new", BottleneckActivation::kGeluNew},
       {"tanh", BottleneckActivation::kTanh},
       {"sigmoid", BottleneckActivation::kSigmoid}}};
  return kNames;
}

std::int64_t BottleneckConfig::width(std::int64_t hidden) const {
  if (adapter_dim) return *adapter_dim;
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(static_cast<double>(hidden) /
                                                          reduction_factor.value_or(is_parallel() ? 2 : 16)));
}

BottleneckActivation BottleneckConfig::activation() const {
  const bool both = type == BottleneckType::kDoubleSequential;
  return non_linearity.value_or(both ? BottleneckActivation::kSwish : BottleneckActivation::kRelu);
}

namespace {

void declare_bottleneck(Section<BottleneckConfig>& s) {
  using C = BottleneckConfig;
  s.field("type", &C::type)
      .nemo_default("parallel_adapter")
      .help(
          "Where bottlenecks are and what they read, by the names of AdapterHub: seq_bn (or pfeiffer) after "
          "feed-forward layers, of the stream; double_seq_bn (or houlsby) after attention and feed-forward "
          "layers, of what these wrote; par_bn (or parallel, parallel_adapter) next to feed-forward layers, "
          "of the stream before them.");
  s.field("adapter_dim", &C::adapter_dim)
      .range(1, 1 << 20)
      .derived("hidden_size / reduction_factor")
      .nemo_default("32")
      .help("Width of a bottleneck.");
  s.field("reduction_factor", &C::reduction_factor)
      .above(0)
      .range(0, 1e6)
      .derived("16; 2 of par_bn")
      .help("hidden_size over the width, where adapter_dim is not given.");
  s.field("non_linearity", &C::non_linearity)
      .derived("relu; swish of double_seq_bn")
      .help("The function in a bottleneck.");
  s.field("scaling", &C::scaling)
      .above(0)
      .range(0, 1e6)
      .derived("1; 4 of par_bn")
      .help("What bottlenecks add is multiplied by it.");
  s.field("layer_selection", &C::layer_selection)
      .range(1, 10000)
      .help(
          "Layers of the model with bottlenecks, numbered from 1, those of an encoder before those of its "
          "decoder. Empty: all.");
  s.validate({"adapter_dim", "reduction_factor"}, [](const C& c) {
    require<ConfigError>(!c.adapter_dim || !c.reduction_factor,
                         "peft.adapter_tuning: adapter_dim and reduction_factor both give the width: leave "
                         "out one of them");
  });
}

void declare_virtual_tokens(Section<VirtualTokenConfig>& s) {
  using C = VirtualTokenConfig;
  s.field("virtual_tokens", &C::virtual_tokens)
      .range(1, 1 << 16)
      .help("How many stand in front of every text. They count among its tokens.");
  s.field("encoder_type", &C::encoder_type)
      .nemo_default("tpmlp")
      .help(
          "Of ptuning: mlp (PEFT's: three linear layers with ReLU), lstm (PEFT's: bidirectional, then two "
          "linear "
          "layers), tpmlp (NeMo's: two linear layers with GELU).");
  s.field("bottleneck_dim", &C::bottleneck_dim)
      .range(1, 1 << 20)
      .help("Hidden width of the encoder of ptuning (PEFT's encoder_hidden_size).");
  s.field("embedding_dim", &C::embedding_dim)
      .range(1, 1 << 20)
      .derived("hidden_size")
      .nemo_default("1024")
      .help("Columns of what an encoder of type tpmlp reads.");
  s.field("num_layers", &C::num_layers).range(1, 100).help("Layers of an encoder of type lstm.");
  s.field("init_std", &C::init_std)
      .range(0, 100)
      .help(
          "Deviation of the initial values: of the embeddings of scheme prompt, the keys and values of "
          "prefix, the weights of an encoder of type tpmlp.");
}

void declare_lora(Section<LoraConfig>& s) {
  using C = LoraConfig;
  s.field("adapter_dim", &C::adapter_dim)
      .range(1, 1 << 16)
      .nemo_default("32")
      .help("Rank of the branches (PEFT's r).");
  s.field("alpha", &C::alpha)
      .above(0)
      .derived("adapter_dim")
      .help("The branch is multiplied by alpha / adapter_dim (PEFT's lora_alpha).");
  s.field("adapter_dropout", &C::adapter_dropout)
      .range(0, 1)
      .below(1)
      .help("Dropout of what a branch reads. Adapters of experts take none.");
  s.field("target_modules", &C::target_modules)
      .not_empty()
      .nemo_default("[attention_qkv]")
      .help(
          "Linear layers with a branch: names of the model's files or what they end with (q_proj), Stoa's "
          "names (attention.q), NeMo's (attention_qkv, attention_dense, mlp_fc1, mlp_fc2, attention, mlp, "
          "linear_qkv, linear_proj, linear_fc1, linear_fc2); * stands for any text in names of layers; "
          "all-linear: all but the head. The embedding of tokens and the head (embed_tokens, lm_head) have a "
          "branch where they are named. A text with other marks is a regular expression of the whole path, "
          "as in PEFT.");
  s.field("exclude_modules", &C::exclude_modules).help("Layers without a branch, named in the same way.");
  s.field("layer_selection", &C::layer_selection)
      .range(1, 10000)
      .help("Layers of the model with branches, numbered from 1, as in NeMo. Empty: all.");
  s.field("use_rslora", &C::use_rslora)
      .help("Multiply by alpha / sqrt(adapter_dim) instead (rsLoRA, 2312.03732): for large ranks.");
  s.field("use_dora", &C::use_dora)
      .help(
          "Train the norm of every row of an adapted matrix apart from its direction, which the branch "
          "changes "
          "(DoRA, 2402.09353). Not of experts.");
  s.field("rank_pattern", &C::rank_pattern)
      .help("Other ranks of some layers, as in ['layers.1.*q_proj=4']: names or regular expressions.");
  s.field("alpha_pattern", &C::alpha_pattern).help("Other alphas of some layers, likewise.");
  s.field("column_init_method", &C::column_init_method)
      .nemo_default("xavier")
      .help(
          "Initial values of the matrix that reads: kaiming (uniform within 1 / sqrt(inputs), PEFT's), "
          "xavier, "
          "normal (deviation 0.2), gaussian (deviation 1 / adapter_dim). The other matrix is zero.");
  s.field("loraplus_lr_ratio", &C::loraplus_lr_ratio)
      .above(0)
      .range(0, 1e4)
      .help("Learning rate of the matrix that writes, relative to that of the one that reads (LoRA+).");
  s.field("bias", &C::bias)
      .help("Biases of the model that are trained besides: none, all, lora_only (of layers with a branch).");
}

void declare_ia3(Section<Ia3Config>& s) {
  using C = Ia3Config;
  s.field("target_modules", &C::target_modules)
      .help(
          "Linear layers with factors, named as those of lora_tuning. Empty: keys, values and what leaves "
          "the "
          "feed-forward layers, the last by their inputs.");
  s.field("feedforward_modules", &C::feedforward_modules)
      .help("Those of target_modules whose inputs have the factors; of the others outputs have them.");
  s.field("layer_selection", &C::layer_selection)
      .range(1, 10000)
      .help("Layers of the model with factors, numbered from 1, as in NeMo. Empty: all.");
  s.validate({"target_modules", "feedforward_modules"}, [](const C& c) {
    require<ConfigError>(!c.target_modules.empty() || c.feedforward_modules.empty(),
                         "peft.ia3_tuning.feedforward_modules is a part of target_modules: give those, too");
  });
}

}  // namespace

void declare_peft(Section<PeftConfig>& s) {
  using C = PeftConfig;
  s.field("peft_scheme", &C::peft_scheme)
      .help(
          "Parameter-efficient tuning of a model (restore_from_path), whose own weights are not changed: "
          "lora adds low-rank branches to linear layers (LoRA, 2106.09685); ia3 multiplies what some of them "
          "write or read by factors (IA3, 2205.05638); adapter adds small networks between them "
          "(1902.00751); prompt puts trained embeddings in "
          "front of every text (prompt tuning, 2104.08691); ptuning likewise, made by a small network "
          "(p-tuning, 2103.10385); prefix puts trained keys and values there, in every layer (prefix tuning, "
          "2101.00190). none: everything is trained.");
  s.field("restore_from_path", &C::restore_from_path)
      .help("Start from this adapter: a directory of PEFT, a checkpoint or a run. null: a fresh one.");
  s.field("base_model_type", &C::base_model_type)
      .derived("that of restore_from_path")
      .help(
          "The model_type (llama, phi3) whose modules the adapter's files name: it says which matrices are "
          "one.");
  s.field("modules_to_save", &C::modules_to_save)
      .help(
          "Modules of the model that are trained in full and saved with the adapter, as in [lm_head, "
          "embed_tokens].");
  s.field("quantize_base", &C::quantize_base)
      .help(
          "How the frozen matrices of linear layers are held in memory and multiplied by: none (as "
          "trainer.precision has them), int8 (a scale per row), nf4 (4 bits in blocks of 64, doubly "
          "quantised, "
          "with the values of bitsandbytes: QLoRA, 2305.14314). Experts, embedding, head, norms and biases "
          "stay "
          "as they are.");
  s.field("trainable_token_indices", &C::trainable_token_indices)
      .range(0, 1LL << 31)
      .help(
          "Tokens whose rows of the embedding and the head are trained and saved with a low-rank adapter, "
          "while "
          "the other rows stay. Those that a chat template adds to the model are among them without being "
          "listed.");
  s.section("lora_tuning", &C::lora, declare_lora, "For peft_scheme lora.");
  s.section("ia3_tuning", &C::ia3, declare_ia3, "For peft_scheme ia3.");
  s.section("adapter_tuning", &C::bottleneck, declare_bottleneck, "For peft_scheme adapter.");
  s.section("p_tuning", &C::virtual_tokens, declare_virtual_tokens,
            "For peft_scheme ptuning, prompt, prefix.");
  s.validate({"peft_scheme", "trainable_token_indices"}, [](const C& c) {
    require<ConfigError>(c.is_lora() || c.trainable_token_indices.empty(),
                         "peft.trainable_token_indices is for peft_scheme lora");
    const std::set<std::int64_t> once(c.trainable_token_indices.begin(), c.trainable_token_indices.end());
    require<ConfigError>(once.size() == c.trainable_token_indices.size(),
                         "peft.trainable_token_indices names a token twice");
  });
  s.validate({"peft_scheme", "restore_from_path", "modules_to_save"}, [](const C& c) {
    require<ConfigError>(c.active() || !c.restore_from_path,
                         "peft.restore_from_path '{}' is an adapter: give its peft_scheme, too",
                         c.restore_from_path.value_or(""));
    require<ConfigError>(
        c.active() || c.modules_to_save.empty(),
        "peft.modules_to_save is used only with a peft_scheme; model.freeze trains a part of a "
        "model");
  });
}

}  // namespace stoa::model
