// What the keys of a recipe say together, and the command line that they are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "config/reader.h"
#include "config/value.h"
#include "config/yaml.h"
#include "foreign/megatron_arguments.h"
#include "foreign/nemo/translation.h"
#include "foreign/nemo2/reading.h"

namespace stoa::foreign {

using config::Node;
using S = Nemo2Section;

namespace {

bool is_bridge(const Node& root) {
  const Node* model = root.find("model");
  return model && model->is_map() && !model->find("config") && root.find("train") && root.find("optimizer");
}

// Keys of a recipe that are none of Stoa's, and the few that both have.
bool of_recipe(std::string_view key, const Node& root) {
  while (key.starts_with('+') || key.starts_with('~')) key.remove_prefix(1);
  const std::string_view path = key.substr(0, key.find('='));
  const auto below = [&](std::string_view part) {
    return path == part || (path.starts_with(part) && path[part.size()] == '.');
  };
  if (is_bridge(root)) {
    const std::string_view first = path.substr(0, path.find('.'));
    return first != "model" && root.find(first);
  }
  for (const char* part :
       {"model.config", "trainer.strategy", "trainer.plugins", "trainer.callbacks", "data", "optim", "log",
        "resume", "trainer.devices", "trainer.num_nodes", "trainer.max_steps"})
    if (below(part)) return true;
  return false;
}

std::string without_prefix(std::string text) {
  constexpr std::string_view kPrefix = "--from-megatron: ";
  return text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
}

}  // namespace

std::optional<std::string> Nemo2Reading::code(S section, std::string_view name) const {
  const auto it = code_.find(std::pair(section, std::string(name)));
  return it == code_.end() ? std::nullopt : std::optional(it->second.text);
}

std::optional<std::int64_t> Nemo2Reading::whole(S section, std::string_view name) const {
  const auto text = code(section, name);
  if (!text) return {};
  const auto number = config::parse_integer(*text);
  require<ConfigError>(number.has_value(), "{}: {}: expected a whole number",
                       code_.at(std::pair(section, std::string(name))).path, *text);
  return number;
}

bool Nemo2Reading::is_true(S section, std::string_view name) const { return code(section, name) == "true"; }

std::string Nemo2Reading::argument_text(std::string_view name) const {
  const auto it = arguments_.find(name);
  return it == arguments_.end() || it->second.values.empty() ? "" : it->second.values.front();
}

void Nemo2Reading::argument_of(S section, std::string_view key, std::string_view name,
                               std::vector<std::string> values) {
  const Given& given = code_.at(std::pair(section, std::string(key)));
  argument(name, std::move(values), fmt::format("{}: {}", given.path, given.text));
}

void Nemo2Reading::set(std::string_view key, std::string_view value) {
  out_.overrides.push_back(fmt::format("{}={}", key, value));
}

void Nemo2Reading::activation() {
  const std::string function = code(S::kModel, "activation_func").value_or("gelu");
  const bool gated = is_true(S::kModel, "gated_linear_unit");
  const auto given = code_.find(std::pair(S::kModel, std::string("activation_func")));
  const std::string path = given == code_.end() ? "model.activation_func" : given->second.path;
  if (gated && function == "silu")
    argument("swiglu", {}, path + ": silu");
  else if (gated && function == "quick_gelu")
    argument("quick-geglu", {}, path + ": quick_gelu");
  else if (gated && function == "gelu")
    set("model.activation", "geglu");
  else if (gated && (function == "openai_gelu" || function == "fast_gelu"))
    set("model.activation", "geglu_tanh");
  else if (!gated && (function == "openai_gelu" || function == "fast_gelu"))
    argument("openai-gelu", {}, path + ": " + function);
  else if (!gated && function == "squared_relu")
    argument("squared-relu", {}, path + ": squared_relu");
  else if (!gated && function == "relu")
    set("model.activation", "relu");
  else if (gated || function != "gelu")
    refuse(path, function,
           gated ? "expected silu, gelu or quick_gelu, as it is gated"
                 : "expected gelu, openai_gelu, relu or squared_relu");
}

void Nemo2Reading::lengths() {
  const auto of_model = whole(S::kModel, "seq_length");
  auto of_data = whole(S::kData, "seq_length");
  if (!of_data) of_data = whole(S::kData, "sequence_length");
  if (!of_model && !of_data) return;
  const std::int64_t length = of_data.value_or(of_model.value_or(0));
  const S from = of_data ? S::kData : S::kModel;
  const char* const name = code(from, "seq_length") ? "seq_length" : "sequence_length";
  argument_of(from, name, "seq-length", {std::to_string(length)});
  const std::int64_t positions =
      whole(S::kModel, "max_position_embeddings").value_or(std::max(length, of_model.value_or(0)));
  argument("max-position-embeddings", {std::to_string(std::max(positions, length))},
           fmt::format("model.max_position_embeddings: {}", positions));
  const auto chunk = whole(S::kModel, "attention_chunk_size");
  if (!chunk) return;
  if (length <= *chunk && !changed("model.encoder_seq_length"))
    note(fmt::format("attention within chunks of {} tokens: a sequence of {} is one", *chunk, length));
  else
    refuse(code_.at(std::pair(S::kModel, std::string("attention_chunk_size"))).path, std::to_string(*chunk),
           "attention within chunks of tokens");
}

// What NeMo's layers of Gemma are by their class.
void Nemo2Reading::gemma() {
  if (!class_.starts_with("Gemma") && !class_.starts_with("CodeGemma")) return;
  set("model.apply_embedding_scaling", "true");
  if (class_.starts_with("Gemma2")) {
    set("model.norm_placement", "both");
    set("model.window_attn_skip_freq", "2");
  }
  if (!class_.starts_with("Gemma3")) return;
  set("model.norm_placement", "both");
  set("model.qk_layernorm", "true");
  const auto per_kind = [&](const char* key) {
    Node list = config::parse_yaml(code(S::kModel, key).value_or("[]"), "recipe");
    std::vector<std::string> parts;
    for (const Node& item : list.items) parts.push_back(item.scalar);
    return parts;
  };
  const auto pattern = per_kind("interleaved_attn_pattern"), bases = per_kind("rotary_base");
  if (pattern.size() == 2 && config::parse_integer(pattern[0]) && pattern[1] == "1")
    set("model.window_attn_skip_freq", std::to_string(*config::parse_integer(pattern[0]) + 1));
  if (bases.size() == 2) {
    set("model.rope_local_base_freq", bases[0]);
    set("model.rotary_base", bases[1]);
  }
}

void Nemo2Reading::encoders() {
  const auto type = code(S::kModel, "bert_type");
  if (type) {
    script_ = "pretrain_bert.py";
    if (code(S::kModel, "add_lm_head") == "false") set("model.bert.lm_head", "false");
    if (*type == "huggingface") {
      set("model.bert.pre_norm", "false");
      set("model.bert.embedding_norm", "true");
    } else if (*type != "megatron") {
      refuse(code_.at(std::pair(S::kModel, std::string("bert_type"))).path, *type,
             "expected megatron or huggingface");
    }
    return;
  }
  const auto encoder = code(S::kModel, "encoder_num_layers");
  if (!encoder) return;
  script_ = "pretrain_t5.py";
  argument_of(S::kModel, "encoder_num_layers", "encoder-num-layers", {*encoder});
  argument("decoder-num-layers", {argument_text("num-layers")}, "model.config.num_layers");
  arguments_.erase("num-layers");
}

void Nemo2Reading::model() {
  activation();
  lengths();
  if (is_true(S::kModel, "layernorm_zero_centered_gamma") && argument_text("normalization") != "RMSNorm")
    argument_of(S::kModel, "layernorm_zero_centered_gamma", "apply-layernorm-1p");
  const auto groups = code(S::kModel, "num_query_groups");
  if (groups && *groups != argument_text("num-attention-heads")) {
    argument_of(S::kModel, "num_query_groups", "group-query-attention");
    argument_of(S::kModel, "num_query_groups", "num-query-groups", {*groups});
  }
  if (const auto window = code(S::kModel, "window_size"); window)
    argument_of(S::kModel, "window_size", "window-size", {*window});
  if (const auto base = code(S::kModel, "rotary_base"); base && !base->starts_with('['))
    argument_of(S::kModel, "rotary_base", "rotary-base", {*base});
  if (const auto factor = code(S::kModel, "scale_factor")) {
    set("model.rope_scaling.type", "llama3");
    set("model.rope_scaling.factor", *factor);
    set("model.rope_scaling.low_freq_factor", code(S::kModel, "low_freq_factor").value_or("1"));
    set("model.rope_scaling.high_freq_factor", code(S::kModel, "high_freq_factor").value_or("4"));
    set("model.rope_scaling.original_max_position_embeddings",
        code(S::kModel, "old_context_len").value_or("8192"));
  }
  if (const auto own = code(S::kModel, "embedding_init_method_std")) {
    const auto common = config::parse_real(argument_text("init-method-std"));
    if (config::parse_real(*own) != common.value_or(0.02))
      argument_of(S::kModel, "embedding_init_method_std", "embedding-init-method-std", {*own});
  }
  if (argument_text("recompute-granularity") == "full")
    if (const auto layers = code(S::kModel, "recompute_num_layers"))
      argument_of(S::kModel, "recompute_num_layers", "recompute-num-layers", {*layers});
  if (is_true(S::kModel, "cpu_offloading"))
    argument_of(S::kModel, "cpu_offloading_num_layers", "cpu-offloading-num-layers",
                {code(S::kModel, "cpu_offloading_num_layers").value_or("0")});
  for (const S section : {S::kModel, S::kStrategy})
    if (const auto chunks = whole(section, "virtual_pipeline_model_parallel_size"); chunks && *chunks > 1)
      argument_of(section, "virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank",
                  {std::to_string(*chunks)});
  gemma();
  encoders();
  vocabulary();
}

void Nemo2Reading::vocabulary() {
  if (const auto ids = whole(S::kModel, "vocab_size")) {
    // Rows as they are, which only a tokenizer's own size would be padded to.
    argument_of(S::kModel, "vocab_size", "padded-vocab-size", {std::to_string(*ids)});
    arguments_.erase("make-vocab-size-divisible-by");
    return;
  }
  if (of_run() && changed("model.tokenizer")) return;  // whose size counts
  if (const auto ids = whole(S::kTokenizer, "vocab_size"))
    return argument_of(S::kTokenizer, "vocab_size", "vocab-size", {std::to_string(*ids)});
  for (const char* name : {"pretrained_model_name", "model_name", "tokenizer_model"})
    if (const auto text = code(S::kTokenizer, name))
      if (const auto ids = known_vocabulary(*text)) {
        note(fmt::format("the tokenizer ({}) is not here: its {} ids are planned (model.vocab_size)", *text,
                         *ids));
        return argument_of(S::kTokenizer, name, "vocab-size", {std::to_string(*ids)});
      }
  if (const std::int64_t ids = published_vocabulary(class_); ids > 0) {
    note(
        fmt::format("{} ids, the published vocabulary of {}, which NeMo takes from the tokenizer "
                    "(model.vocab_size)",
                    ids, class_));
    argument("vocab-size", {std::to_string(ids)}, fmt::format("the vocabulary of {}", class_));
  }
}

void Nemo2Reading::precision() {
  std::string text = code(S::kPrecision, "precision").value_or(code(S::kTrainer, "precision").value_or(""));
  if (is_true(S::kPrecision, "bf16") || (text.empty() && is_true(S::kOptimizer, "bf16"))) text = "bf16";
  if (is_true(S::kPrecision, "fp16") || (text.empty() && is_true(S::kOptimizer, "fp16"))) text = "fp16";
  const bool bf16 = text.find("bf16") != std::string::npos;
  for (const char* name : {"bf16", "fp16"}) arguments_.erase(name);
  if (bf16)
    argument("bf16", {}, "precision: " + text);
  else if (text.find("16") != std::string::npos)
    argument("fp16", {}, "precision: " + text);
  else if (!text.empty() && text.find("32") == std::string::npos)
    refuse("precision", text, "expected bf16-mixed, bf16, 16-mixed or 32");
  for (const char* eight : {"fp8", "fp4"})  // bf16_with_fp8_…: a name of Megatron-Bridge for several settings
    if (text.find(eight) != std::string::npos)
      refuse("mixed_precision", text, "write its settings out: bf16, fp8, fp8_recipe");
  const bool has_plugin = code(S::kPrecision, "grad_reduce_in_fp32") || code(S::kPrecision, "precision");
  const auto reduced =
      has_plugin ? code(S::kPrecision, "grad_reduce_in_fp32") : code(S::kStrategy, "grad_reduce_in_fp32");
  if (bf16 && reduced == "false")
    argument_of(has_plugin ? S::kPrecision : S::kStrategy, "grad_reduce_in_fp32", "grad-reduce-in-bf16");
  eight_bits();
}

void Nemo2Reading::eight_bits() {
  for (const S section : {S::kModel, S::kPrecision})
    if (const auto format = code(section, "fp8"); format && *format != "false")
      argument_of(section, "fp8", "fp8-format", {*format});
  if (arguments_.contains("fp8-format")) return;
  // Details of 8 bits, which are not asked for.
  std::erase_if(arguments_, [](const auto& entry) {
    const std::string& name = entry.first;
    return name.starts_with("fp8-") || name == "no-fp8-wgrad" || name == "first-last-layers-bf16" ||
           name.starts_with("num-layers-at-") || name == "reuse-grad-buf-for-mxfp8-param-ag";
  });
}

void Nemo2Reading::sharding() {
  const auto fsdp = code(S::kStrategy, "fsdp");
  const char* by = fsdp == "megatron"                           ? "fsdp"
                   : is_true(S::kStrategy, "use_megatron_fsdp") ? "use_megatron_fsdp"
                   : is_true(S::kStrategy, "use_custom_fsdp")   ? "use_custom_fsdp"
                                                                : nullptr;
  if (by) {
    argument_of(S::kStrategy, by, "use-megatron-fsdp");
    if (const auto what = code(S::kStrategy, "data_parallel_sharding_strategy"))
      argument_of(S::kStrategy, "data_parallel_sharding_strategy", "data-parallel-sharding-strategy",
                  {*what});
  } else if (fsdp == "pytorch") {
    set("model.zero_stage", "3");
  } else if (fsdp && *fsdp != "false") {
    refuse("trainer.strategy.fsdp", *fsdp, "expected megatron or pytorch");
  }
}

void Nemo2Reading::schedule() {
  const Node* scheduler = root_.find_path("optim.lr_scheduler");
  const Node* target = scheduler ? scheduler->find("_target_") : nullptr;
  if (target) {
    const std::string name = last_name(target->scalar);
    constexpr std::string_view kEnd = "Scheduler";
    set("model.optim.sched.name", name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name);
    argument("lr-decay-style", {"constant"}, "optim.lr_scheduler: " + name);  // replaced by its name
    arguments_.erase("min-lr");
  }
  // NeMo puts the length of the run in where the recipe leaves it out.
  const auto steps = whole(S::kTrainer, "max_steps"), decay = whole(S::kSchedule, "max_steps");
  if (steps && *steps > 0) argument_of(S::kTrainer, "max_steps", "train-iters", {std::to_string(*steps)});
  if (decay && decay != steps) set("model.optim.sched.decay_steps", std::to_string(*decay));
}

// A scheduler that keeps weight decay constant sets it to its own value, whatever the optimizer's is.
void Nemo2Reading::weight_decay() {
  const std::string start = argument_text("start-weight-decay"), end = argument_text("end-weight-decay"),
                    style = argument_text("weight-decay-incr-style");
  if (start.empty() || (!style.empty() && style != "constant")) return;
  if (start != end)
    return refuse("scheduler.end_weight_decay", end, "with a constant style it is start_weight_decay");
  if (start != argument_text("weight-decay"))
    note(fmt::format("weight decay is {}, the scheduler's, and not the optimizer's {}", start,
                     argument_text("weight-decay")));
  argument("weight-decay", {start}, "scheduler.start_weight_decay: " + start);
  for (const char* name : {"start-weight-decay", "end-weight-decay", "weight-decay-incr-style"})
    arguments_.erase(name);
}

void Nemo2Reading::run() {
  if (const auto batches = code(S::kTrainer, "limit_val_batches")) {
    const auto number = config::parse_real(*batches);
    if (number && *number == static_cast<double>(static_cast<std::int64_t>(*number)))
      set("trainer.limit_val_batches", std::to_string(static_cast<std::int64_t>(*number)));
    else
      refuse("trainer.limit_val_batches", *batches, "a share of the batches: a number is expected");
  }
  if (const auto added = whole(S::kTrainer, "accumulate_grad_batches"); added && *added != 1)
    note(
        fmt::format("trainer.accumulate_grad_batches {}: a step is one global batch, as Megatron's data "
                    "sampler makes it",
                    *added));
}

Nemo2Config Nemo2Reading::read() {
  is_bridge(root_) ? bridge() : nemo();
  model();
  precision();
  sharding();
  schedule();
  weight_decay();
  run();
  files();
  std::string message = fmt::format("{}", fmt::join(problems_, "\n"));
  if (!refused_.empty())
    message += fmt::format("\nTo read the others without: {}=null", fmt::join(refused_, "=null "));
  require<ConfigError>(problems_.empty(), "{}", message);
  for (const char* size : {"hidden-size", "num-attention-heads"})
    if (!arguments_.contains(size) && script_ != "pretrain_t5.py")
      fail<ConfigError>(
          "the recipe's model is '{}', whose sizes Stoa does not know{}: give model.config.num_layers, "
          "model.config.hidden_size and model.config.num_attention_heads",
          class_.empty() ? "not named" : class_, did_you_mean(class_, nemo2_class_names()));

  std::vector<std::string> words{"torchrun"};
  const auto launched = [&](const char* name, const char* option) {
    if (const auto n = whole(S::kTrainer, name); n && *n > 0) {
      words.emplace_back(option);
      words.push_back(std::to_string(*n));
    }
  };
  launched("devices", "--nproc-per-node");
  launched("num_nodes", "--nnodes");
  words.push_back(script_);
  MegatronOptions options;
  options.changes = changes_;
  for (const auto& [name, given] : arguments_) {
    words.push_back("--" + name);
    words.insert(words.end(), given.values.begin(), given.values.end());
    options.shown.emplace(name, given.shown);
  }
  MegatronArguments megatron;
  try {
    megatron = read_megatron_words(words, options);
  } catch (const UsageError& error) {
    throw ConfigError(without_prefix(error.what()));
  }
  // A run's own tokenizer says how many ids there are, unless the recipe does.
  const bool counted = tokenizer_is_here() && !whole(S::kModel, "vocab_size");
  if (counted)
    std::erase_if(megatron.overrides,
                  [](const std::string& o) { return o.starts_with("model.vocab_size="); });
  out_.overrides.insert(out_.overrides.begin(), megatron.overrides.begin(), megatron.overrides.end());
  out_.ignored.insert(out_.ignored.end(), megatron.ignored.begin(), megatron.ignored.end());
  for (const std::string& said : megatron.notes) {
    if (counted && said.starts_with("--vocab-size is not given")) continue;
    if (!said.starts_with("Megatron's defaults")) out_.notes.push_back(said);
  }
  return std::move(out_);
}

bool is_nemo2(const Node& root) {
  const Node* target = root.find("_target_");
  if (target && target->scalar.starts_with("nemo.collections.")) return true;
  return root.is_map() &&
         (root.find_path("model.config") || root.find_path("trainer.strategy._target_") || is_bridge(root));
}

Nemo2Config read_nemo2(Node root, std::vector<std::string>& changes, Purpose purpose) {
  std::vector<std::string> own;
  for (const std::string& change : changes) {
    if (!of_recipe(change, root)) {
      own.push_back(change);
      continue;
    }
    const std::vector<std::string> one{change};
    const config::Overrides parsed = config::parse_overrides(one, 1);
    for (const std::string& removed : parsed.removed) root.make_path(removed) = Node();
    if (parsed.values.empty()) continue;
    const auto begin = change.find_first_not_of('+');
    const std::string path = change.substr(begin, change.find('=') - begin);
    if (const Node* value = parsed.values.front().find_path(path)) root.make_path(path) = *value;
  }
  changes = std::move(own);
  return Nemo2Reading(std::move(root), changes, purpose).read();
}

}  // namespace stoa::foreign
