// The shape of the model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/value.h"
#include "foreign/megatron/reading.h"

namespace stoa::foreign {
namespace {

// A list in Python's notation: brackets, +, * and parentheses.
class MegatronList {
 public:
  MegatronList(std::string_view name, std::string_view text) : name_(name), text_(text) {}
  std::vector<std::int64_t> read() {
    auto list = sum();
    if (at_ != text_.size()) fail();
    return list;
  }

 private:
  [[noreturn]] void fail() const {
    throw UsageError(fmt::format(
        "--from-megatron: --{} {}: expected a whole number or a list such as [0]*3+[1]*29", name_, text_));
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\'')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool skip(char c) {
    if (peek() != c) return false;
    ++at_;
    peek();
    return true;
  }
  std::int64_t integer() {
    std::string digits;
    if (peek() == '-') digits += text_[at_++];
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') digits += text_[at_++];
    const auto number = config::parse_integer(digits);
    if (!number) fail();
    return *number;
  }
  std::vector<std::int64_t> sum() {
    auto list = product();
    while (skip('+')) {
      const auto more = product();
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }
  std::vector<std::int64_t> product() {
    std::vector<std::int64_t> list;
    if (skip('(')) {
      list = sum();
      if (!skip(')')) fail();
    } else if (skip('[')) {
      while (!skip(']')) {
        list.push_back(integer());
        if (peek() != ']' && !skip(',')) fail();
      }
    } else {
      fail();
    }
    while (skip('*')) {
      const std::int64_t times = integer();
      if (times < 0 || times > 10000) fail();
      const auto once = list;
      list.clear();
      for (std::int64_t i = 0; i < times; ++i) list.insert(list.end(), once.begin(), once.end());
    }
    return list;
  }

  std::string_view name_, text_;
  std::size_t at_ = 0;
};

std::vector<std::int64_t> indices_of(const std::vector<std::int64_t>& list, std::int64_t value) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] == value) out.push_back(static_cast<std::int64_t>(i));
  return out;
}

std::string yaml_list(const std::vector<std::int64_t>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

}  // namespace

std::vector<std::int64_t> megatron_list(std::string_view name, std::string_view text) {
  return MegatronList(name, text).read();
}

// One entry a layer.
std::vector<std::int64_t> MegatronReading::layer_list(std::string_view name, const std::string& text) const {
  auto list = megatron_list(name, text);
  const std::int64_t layers = number("model.num_layers", 0);
  require<UsageError>(layers == 0 || static_cast<std::int64_t>(list.size()) == layers,
                      "--from-megatron: --{} {}: {} entries for {} layers", name, text, list.size(), layers);
  return list;
}

// Programs of other purposes, which take Megatron's arguments, too.
void MegatronReading::program() {
  constexpr const char* kExpected = "expected pretrain_gpt.py, pretrain_bert.py or pretrain_t5.py";
  const std::string &script = command_.script, &folder = command_.folder;
  const auto has_any = [&](std::initializer_list<const char*> parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const char* part) { return script.find(part) != std::string::npos; });
  };
  require<UsageError>(
      !has_any({"vlm", "vision", "ict", "retro", "multimodal", "mimo", "rl.py", "prefix_lm", "non_causal"}) &&
          folder != "multimodal" && folder != "mimo",
      "--from-megatron: {} trains a kind of model that Stoa does not have: {}",
      folder.empty() ? script : folder + "/" + script, kExpected);
  const bool pattern = has("hybrid-override-pattern") || has("hybrid-layer-pattern");
  require<UsageError>(
      pattern || !has_any({"mamba", "hybrid"}),
      "--from-megatron: {} trains a model with state-space layers, of which plans need the pattern: "
      "give --hybrid-layer-pattern",
      script);
  const bool pretrains = script.starts_with("pretrain");
  require<UsageError>(pretrains || (folder != "tasks" && folder != "msdp" &&
                                    !has_any({"evaluate", "generat", "inference", "analyze_data", "convert",
                                              "quantize", "prune", "export", "preprocess"})),
                      "--from-megatron: {} does not train a language model on next tokens: {}",
                      folder.empty() ? script : folder + "/" + script, kExpected);
  if (!script.starts_with("finetune_t0")) return;
  // BigScience's: several prompts in a sequence, apart from each other, and a loss on their targets.
  require<UsageError>(only_looked_at(),
                      "--from-megatron: {} trains on prompts and their targets, which its data files hold "
                      "apart. Such a command "
                      "can be planned (stoa plan); how Stoa trains on prompts and answers: docs/tuning.md",
                      script);
  note(script + " trains on prompts and their targets; 'stoa train' refuses it");
}

void MegatronReading::kind() {
  program();
  const std::string& script = command_.script;
  const auto* tokenizer = find("tokenizer-type");
  const bool word_piece =
      tokenizer && !tokenizer->values.empty() && tokenizer->values[0].starts_with("BertWordPiece");
  if (script.find("t5") != std::string::npos || (script.empty() && has("decoder-seq-length")))
    kind_ = Kind::kT5;
  else if (script.find("bert") != std::string::npos || (script.empty() && word_piece))
    kind_ = Kind::kBert;
  if (kind_ == Kind::kGpt) return;
  set("model.kind", kind_ == Kind::kT5 ? "t5" : "bert");
  if (script.empty())
    note(fmt::format("read as the arguments of pretrain_{}.py, because of {}",
                     kind_ == Kind::kT5 ? "t5" : "bert",
                     kind_ == Kind::kT5 ? "--decoder-seq-length" : "--tokenizer-type"));
  if (kind_ == Kind::kT5) {
    set("model.t5.scale_attention", "true");
    // Its head has a bias where it is tied.
    if (!has("untie-embeddings-and-output-weights")) set("model.lm_head_bias", "true");
    set("model.data.dataset_type", "t5_sentences");
  } else {
    set("model.bert.pre_norm", "true");
    set("model.bert.embedding_norm", "false");
    set("model.bert.head_activation", "gelu");
    if (take("bert-no-binary-head")) {  // nor types of segments, then
      set("model.bert.binary_head", "false");
      set("model.bert.num_token_types", "0");
    }
  }
}

// Layers of Mamba's hybrids: a letter each, stages apart by |.
void MegatronReading::state_space() {
  const char* const name = has("hybrid-layer-pattern") ? "hybrid-layer-pattern" : "hybrid-override-pattern";
  take("hybrid-override-pattern");
  const std::string text = value_unless_none(name).value_or("");
  const bool hybrid = !text.empty();
  if (const GivenArgument* spec = find("spec")) {
    const std::string module = spec->values.empty() ? "" : spec->values.front();
    if (module == "local" || (hybrid && (module == "megatron.core.models.hybrid.hybrid_layer_specs" ||
                                         module == "megatron.core.models.mamba.mamba_layer_specs")))
      take("spec");
    else
      refuse("spec", "layers built by Python code");
  }
  if (!hybrid) return;
  if (text.find_first_not_of("M*-|") != std::string::npos)
    return refuse(name, "expected M (a state-space layer), * (attention), - (an MLP) and | (between stages)");
  only_estimated(name, "layers of a state-space model (Mamba)");
  std::string pattern;
  std::vector<std::int64_t> parts(1, 0);
  for (const char c : text) {
    if (c == '|') {
      parts.push_back(0);
      continue;
    }
    pattern += c;
    ++parts.back();
  }
  set("model.num_layers", std::to_string(pattern.size()));  // whatever --num-layers says
  set("model.hybrid_override_pattern", "'" + pattern + "'");
  if (parts.size() > 1) {
    const auto chunks = static_cast<std::int64_t>(parts.size());
    const std::int64_t stages = number("model.pipeline_model_parallel_size", 1);
    require<UsageError>(chunks % stages == 0,
                        "--from-megatron: --{} {}: {} parts cannot be distributed over {} stages", name, text,
                        chunks, stages);
    if (chunks > stages) set("model.virtual_pipeline_model_parallel_size", std::to_string(chunks / stages));
    set("model.pipeline_layers", yaml_list(parts));
  }
  for (const char* size : {"mamba-head-dim", "mamba-num-groups", "mamba-num-heads", "mamba-state-dim"})
    if (const auto given = value_unless_none(size)) set(model_key(size), *given);
}

// Layers that predict further tokens.
void MegatronReading::further_tokens() {
  if (number("model.mtp_num_layers", 0) > 0)
    only_estimated("mtp-num-layers", "multi-token prediction: Stoa's models predict one token ahead");
  const bool repeated = take("mtp-use-repeated-layer");
  if (repeated && number("model.mtp_num_layers", 0) > 1)
    refuse("mtp-use-repeated-layer", "one layer for several further tokens");
}

void MegatronReading::layers() {
  const auto count = whole("num-layers"), encoder = whole("encoder-num-layers");
  require<UsageError>(!count || !encoder || *count == *encoder,
                      "--from-megatron: --num-layers {} and --encoder-num-layers {} are both given: give one",
                      count.value_or(0), encoder.value_or(0));
  if (!count && !encoder && (has("hybrid-layer-pattern") || has("hybrid-override-pattern"))) return;
  if (!count && !encoder) {
    missing_.emplace_back("--num-layers");
    return;
  }
  const std::int64_t first = count ? *count : *encoder;
  if (kind_ != Kind::kT5) {
    set("model.num_layers", std::to_string(first));
    return;
  }
  const std::int64_t decoder = whole("decoder-num-layers").value_or(first);
  set("model.num_layers", std::to_string(first + decoder));
  set("model.t5.encoder_layers", std::to_string(first));
}

void MegatronReading::shape() {
  for (const char* name : {"seq-length", "encoder-seq-length"})
    if (const auto length = value(name)) set("model.encoder_seq_length", *length);
  constexpr std::pair<const char*, const char*> kNeeded[] = {
      {"model.hidden_size", "--hidden-size"},
      {"model.num_attention_heads", "--num-attention-heads"},
      {"model.encoder_seq_length", "--seq-length"}};
  for (const auto& [key, text] : kNeeded)
    if (!is_set(key)) missing_.emplace_back(text);
  if (const auto norm = value("normalization")) {
    // Megatron-DeepSpeed's words are those of Stoa.
    if (*norm == "RMSNorm" || *norm == "LayerNorm" || *norm == "rmsnorm" || *norm == "layernorm")
      set("model.normalization", norm->front() == 'R' || norm->front() == 'r' ? "rmsnorm" : "layernorm");
    else
      refuse("normalization", "expected LayerNorm or RMSNorm");
  }
  if (take("apply-layernorm-1p") &&
      (!is_set("model.normalization") || values_["model.normalization"] == "layernorm"))
    set("model.normalization", "layernorm1p");
  set_default("model.hidden_dropout", "0.1");
  set_default("model.attention_dropout", "0.1");
  if (!is_set("model.fp32_residual_connection")) set("model.fp32_residual_connection", "false");
  if (take("add-qkv-bias") && is_set("model.bias")) set("model.bias", "qkv");
}

void MegatronReading::positions() {
  std::string type = value("position-embedding-type").value_or("learned_absolute");
  if (type == "rotary") type = "rope";  // BigScience's words
  if (type == "absolute") type = "learned_absolute";
  if (take("use-rotary-position-embeddings")) type = "rope";
  const bool disabled = take("no-position-embedding");
  if (disabled && type == "learned_absolute") type = "none";
  if (has("rotary-interleaved"))
    trains_differently("rotary-interleaved", "rotary positions of interleaved pairs: Stoa rotates halves");
  const bool yarn = type == "yarn";
  if (yarn) type = "rope";
  if (type == "mrope")
    refuse("position-embedding-type", "multimodal rotary positions");
  else if (type == "learned_absolute" && has("multi-latent-attention"))
    set("model.position_embedding_type", "rope");  // its own, whatever the embedding adds
  else
    set("model.position_embedding_type", type);
  if (const auto factor = real("rotary-seq-len-interpolation-factor"); factor && *factor != 1) {
    set("model.rope_scaling.type", "linear");
    set("model.rope_scaling.factor", fmt::format("{}", *factor));
  }
  if (take("use-rope-scaling")) {
    set("model.rope_scaling.type", "llama3");
    set("model.rope_scaling.factor", value("rope-scaling-factor").value_or("8"));
    set("model.rope_scaling.original_max_position_embeddings", "8192");
    set("model.rope_scaling.low_freq_factor", "1");
    set("model.rope_scaling.high_freq_factor", "4");
  }
  if (yarn) rope_scaling();
  if (take("enable-gpt-oss")) {  // ModelOpt's numbers
    set("model.position_embedding_type", "rope");
    set("model.rope_scaling.type", "yarn");
    for (const auto& [key, number] : {std::pair{"factor", "32"},
                                      {"original_max_position_embeddings", "131072"},
                                      {"beta_fast", "32"},
                                      {"beta_slow", "1"},
                                      {"truncate", "false"}})
      set(fmt::format("model.rope_scaling.{}", key), number);
  }
  if (const auto freq = value("no-rope-freq")) {
    std::vector<std::int64_t> without;
    if (const auto every = config::parse_integer(*freq)) {
      require<UsageError>(*every > 0, "--from-megatron: --no-rope-freq {}: expected at least 1", *freq);
      for (std::int64_t i = 0; i < number("model.num_layers", 0); ++i)
        if ((i + 1) % *every == 0) without.push_back(i);
    } else {
      without = indices_of(layer_list("no-rope-freq", *freq), 1);
    }
    set("model.no_rope_layers", yaml_list(without));
  }
}

void MegatronReading::rope_scaling() {
  const double factor = real("rotary-scaling-factor").value_or(1);
  for (const char* detail :
       {"mscale", "mscale-all-dim", "rope-type", "yarn-original-max-position-embeddings", "yarn-beta-fast",
        "yarn-beta-slow", "yarn-correction-range-round-to-int", "no-yarn-correction-range-round-to-int"})
    take(detail);
  if (factor <= 1) return;  // scales nothing
  set("model.rope_scaling.type", "yarn");
  set("model.rope_scaling.factor", fmt::format("{}", factor));
  set("model.rope_scaling.original_max_position_embeddings",
      value("yarn-original-max-position-embeddings").value_or("4096"));
  set("model.rope_scaling.beta_fast", value("yarn-beta-fast").value_or("32"));
  set("model.rope_scaling.beta_slow", value("yarn-beta-slow").value_or("1"));
  if (take("no-yarn-correction-range-round-to-int")) set("model.rope_scaling.truncate", "false");
  if (has("multi-latent-attention")) {
    set("model.rope_scaling.mscale", value("mscale").value_or("1"));
    set("model.rope_scaling.mscale_all_dim", value("mscale-all-dim").value_or("0"));
  }
}

void MegatronReading::attention() {
  if (take("group-query-attention")) set("model.num_query_groups", value("num-query-groups").value_or("1"));
  window();
  if (const auto softmax = value("softmax-type"); softmax && *softmax != "vanilla") {
    if (*softmax == "learnable")
      set("model.attention_sinks", "true");
    else
      refuse("softmax-type", "expected vanilla or learnable");
  }
  const auto channels = value("kv-channels");
  const bool norms = take("qk-layernorm");
  if (has("qk-l2-norm")) {
    trains_differently("qk-l2-norm",
                       "an L2 norm of queries and keys: the norms of qk_layernorm have weights");
    set("model.qk_layernorm", "true");
  }
  if (take("multi-latent-attention"))
    latent_attention();
  else if (channels)
    set("model.kv_channels", *channels);
  if (norms && !has("multi-latent-attention")) set("model.qk_layernorm", "true");
  linear_attention();
}

void MegatronReading::window() {
  const auto text = value("window-size");
  if (!text) return;
  const auto begin = text->find_first_not_of("([ '");
  const std::string first =
      begin == std::string::npos ? "" : text->substr(begin, text->find_first_of(",)] ", begin) - begin);
  const auto keys = config::parse_integer(first);
  require<UsageError>(keys.has_value(),
                      "--from-megatron: --window-size {}: expected two numbers, such as 127,0", *text);
  if (*keys < 0) return;                                // -1: all of them
  set("model.window_size", std::to_string(*keys + 1));  // itself included
  if (const auto skip = value("window-attn-skip-freq")) {
    if (config::parse_integer(*skip))
      set("model.window_attn_skip_freq", *skip);
    else
      set("model.window_layers", yaml_list(indices_of(layer_list("window-attn-skip-freq", *skip), 1)));
  }
}

void MegatronReading::latent_attention() {
  set("model.multi_latent_attention", "true");
  const auto norm = values_.find("model.normalization");
  if (!has("qk-layernorm") || !is_set("model.bias") || norm == values_.end() || norm->second != "rmsnorm")
    refuse(
        "multi-latent-attention",
        "Stoa's has norms of its latent vectors, which are RMSNorms, and no biases: it needs --qk-layernorm, "
        "--normalization RMSNorm and --disable-bias-linear");
  constexpr std::pair<const char*, const char*> kWidths[] = {
      {"kv-lora-rank", "32"}, {"qk-head-dim", "128"}, {"qk-pos-emb-head-dim", "64"}, {"v-head-dim", "128"}};
  for (const auto& [name, otherwise] : kWidths)
    if (const auto width = value(name))
      set(model_key(name), *width);
    else
      set_default(model_key(name), otherwise);
  if (const auto width = value_unless_none("q-lora-rank")) set("model.q_lora_rank", *width);
  if (value("rope-type").value_or("yarn") == "yarn") rope_scaling();
}

void MegatronReading::linear_attention() {
  const auto variant = value("experimental-attention-variant");
  if (variant && *variant != "gated_delta_net" && *variant != "gdn") {
    refuse("experimental-attention-variant", "expected gated_delta_net");
    return;
  }
  const auto freq = value("linear-attention-freq");
  if (!freq) return;
  if (config::parse_integer(*freq))
    set("model.linear_attention_freq", *freq);
  else
    set("model.linear_attention_layers",
        yaml_list(indices_of(layer_list("linear-attention-freq", *freq), 1)));
  for (const char* name : {"linear-conv-kernel-dim", "linear-key-head-dim", "linear-value-head-dim",
                           "linear-num-key-heads", "linear-num-value-heads"})
    if (const auto width = value(name)) set(model_key(name), *width);
}

void MegatronReading::activation() {
  if (take("quick-geglu")) {
    const double offset = real("glu-linear-offset").value_or(0);
    if (offset != 1) {
      refuse("quick-geglu", "without --glu-linear-offset 1: a gate of x sigmoid(1.702 x) alone");
    } else {
      set("model.activation", "swiglu_oai");
      set("model.activation_limit", value("activation-func-clamp-value").value_or("1000000"));
    }
  } else {
    for (const char* name : {"glu-linear-offset", "activation-func-clamp-value"})
      if (has(name)) refuse(name, "with --quick-geglu only");
  }
  if (const auto gate = value("glu-activation")) {
    if (*gate == "swiglu" || *gate == "geglu" || *gate == "reglu")
      set("model.activation", *gate);
    else
      refuse("glu-activation", "expected swiglu, geglu or reglu");
  }
  // Its fused kernel of bias and GELU computes the tanh form; a recipe's classes do not use it by themselves.
  const bool unfused =
      take("no-bias-gelu-fusion") || is_set("model.bias") || has("num-experts") || !options_.shown.empty();
  if (!is_set("model.activation")) set("model.activation", unfused ? "gelu" : "gelu_tanh");
}

void MegatronReading::experts() {
  const GivenArgument* given = find("num-experts");
  if (!given) return;
  take("num-experts");
  if (std::any_of(given->values.begin(), given->values.end(),
                  [&](const std::string& v) { return v != given->values.front(); })) {
    refuse("num-experts", "another number of experts in each layer");
    return;
  }
  const std::int64_t experts = whole_of(*given), layers = number("model.num_layers", 0);
  if (experts <= 1) return;
  set("model.num_moe_experts", std::to_string(experts));
  if (const auto k = value("topk")) set("model.moe_router_topk", *k);
  if (const auto freq = value("moe-layer-freq")) {
    if (config::parse_integer(*freq))
      set("model.moe_layer_freq", *freq);
    else
      set("model.moe_dense_layers", yaml_list(indices_of(layer_list("moe-layer-freq", *freq), 0)));
  }
  if (const auto interval = whole("expert-interval")) {
    std::vector<std::int64_t> dense;
    for (std::int64_t i = 0; i < layers; ++i)
      if (*interval > 0 && (i + 1) % *interval != 0) dense.push_back(i);
    set("model.moe_dense_layers", yaml_list(dense));
  }
  if (has("moe-apply-probs-on-input"))
    trains_differently("moe-apply-probs-on-input",
                       "experts' inputs, not outputs, multiplied by the router weight");
  if (const auto score = value("moe-router-score-function")) {
    if (*score == "softmax" || *score == "sigmoid")
      set("model.moe_router_score_function", *score);
    else
      refuse("moe-router-score-function", "expected softmax or sigmoid");
  }
}

// Stoa balances by a loss per sequence, which is that of a microbatch of one sequence.
void MegatronReading::balancing() {
  if (!is_set("model.num_moe_experts")) return;
  const GivenArgument* given = find("moe-router-load-balancing-type");
  const std::string type = value("moe-router-load-balancing-type").value_or("aux_loss");
  if (given && given->values.size() > 1) {
    refuse("moe-router-load-balancing-type", "several kinds at once");
    return;
  }
  const GivenArgument* coefficient = find("moe-aux-loss-coeff");
  const double weight = real("moe-aux-loss-coeff").value_or(0);
  if (coefficient) set("model.moe_aux_loss_coeff", coefficient->values.front());
  if (type == "none") {
    set("model.moe_router_load_balancing_type", "none");
  } else if (type == "seq_aux_loss" || (type == "aux_loss" && number("model.micro_batch_size", 1) == 1)) {
    set("model.moe_router_load_balancing_type", "seq_aux_loss");
  } else if (type == "aux_loss" || type == "global_aux_loss") {
    if (weight != 0)
      trains_differently(
          given ? "moe-router-load-balancing-type" : "moe-aux-loss-coeff",
          type == "aux_loss"
              ? "a loss over microbatches of several sequences: Stoa's is per sequence, seq_aux_loss"
              : "a loss over the global batch: Stoa's is per sequence, seq_aux_loss");
  } else if (type == "sinkhorn") {
    set("model.moe_router_load_balancing_type", "none");
    trains_differently(
        "moe-router-load-balancing-type",
        "tokens are assigned by the optimal transport of Sinkhorn: Stoa's router takes the best "
        "experts of each");
  } else {
    refuse("moe-router-load-balancing-type",
           "expected seq_aux_loss, aux_loss, none, or for a plan global_aux_loss or sinkhorn");
  }
  if (has("moe-expert-capacity-factor") && number("model.micro_batch_size", 1) > 1)
    refuse("moe-expert-capacity-factor",
           "a capacity over microbatches of several sequences: Stoa's is per sequence");
}

}  // namespace stoa::foreign
