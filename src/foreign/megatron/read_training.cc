// Batch, optimizer, schedules, data and vocabulary.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "config/value.h"
#include "foreign/megatron/reading.h"

namespace stoa::foreign {
namespace {

constexpr std::int64_t kUsualVocabulary =
    50257;  // GPT-2's, which the planner takes where there is no tokenizer

// Published sizes of tokenizers that are known by their type alone.
constexpr std::pair<std::string_view, std::int64_t> kVocabularies[] = {{"GPT2BPETokenizer", 50257},
                                                                       {"BertWordPieceLowerCase", 30522},
                                                                       {"BertWordPieceCase", 28996},
                                                                       {"Llama2Tokenizer", 32000},
                                                                       {"TikTokenizer", 131072}};

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

std::int64_t MegatronReading::model_parallel() const {
  return number("model.tensor_model_parallel_size", 1) * number("model.pipeline_model_parallel_size", 1) *
         number("model.context_parallel_size", 1);
}

void MegatronReading::batch() {
  const std::int64_t started = command_.devices.value_or(1) * command_.nodes.value_or(1);
  if (command_.devices && options_.ranks && *options_.ranks != started) {
    note(fmt::format("the command starts {} ranks: read for {}, as given", started, *options_.ranks));
  } else {
    if (command_.devices) set("trainer.devices", std::to_string(*command_.devices));
    if (command_.nodes) set("trainer.num_nodes", std::to_string(*command_.nodes));
  }
  set_default("model.micro_batch_size", "1");
  if (!is_set("model.global_batch_size")) {
    std::optional<std::int64_t> ranks = options_.ranks;
    if (!ranks && command_.devices) ranks = *command_.devices * command_.nodes.value_or(1);
    if (!ranks) ranks = options_.planned_ranks;
    const std::int64_t copies = std::max<std::int64_t>(1, ranks.value_or(1) / model_parallel()),
                       micro = number("model.micro_batch_size", 1);
    set("model.global_batch_size", std::to_string(micro * copies));
    note(fmt::format("--global-batch-size is not given: {} = micro-batch {} x {} data-parallel ranks{}",
                     micro * copies, micro, copies, ranks ? "" : "; the number of ranks is not known"));
  }
  if (const GivenArgument* ramp = find("rampup-batch-size")) {
    take("rampup-batch-size");
    require<UsageError>(ramp->values.size() == 3,
                        "--from-megatron: --rampup-batch-size takes three values, got {}",
                        ramp->values.size());
    set("model.rampup_batch_size", fmt::format("[{}]", fmt::join(ramp->values, ", ")));
  }
}

// Steps until that many samples are seen, with the ramp of the batch.
std::int64_t MegatronReading::steps_of(std::int64_t samples) const {
  const std::int64_t batch = std::max<std::int64_t>(1, number("model.global_batch_size", 1));
  const GivenArgument* ramp = find("rampup-batch-size");
  if (!ramp || ramp->values.size() != 3) return samples / batch;
  std::int64_t values[3];
  for (int i = 0; i < 3; ++i)
    values[i] = config::parse_integer(ramp->values[static_cast<std::size_t>(i)]).value_or(0);
  const auto [start, increment, over] = values;
  if (start <= 0 || increment <= 0 || start >= batch) return samples / batch;
  const double each = static_cast<double>(over) / static_cast<double>((batch - start) / increment);
  std::int64_t seen = 0, steps = 0;
  for (std::int64_t size = start; size < batch && seen < samples; size += increment) {
    const double level = static_cast<double>((size - start) / increment + 1) * each;  // where this size ends
    const double end = std::min(level, static_cast<double>(samples));
    const auto more = static_cast<std::int64_t>(
        std::max(0.0, (end - static_cast<double>(seen)) / static_cast<double>(size)));
    steps += more;
    seen += more * size;
    if (level < static_cast<double>(samples) && static_cast<double>(seen) < level) ++steps, seen += size;
  }
  return steps + std::max<std::int64_t>(0, samples - seen) / batch;
}

// Types of what Adam keeps, and of gradients.
void MegatronReading::state_types() {
  const bool aware = has("use-precision-aware-optimizer");
  for (const char* name : {"exp-avg-dtype", "exp-avg-sq-dtype", "main-params-dtype", "main-grads-dtype"}) {
    const auto type = value(name);
    if (!type || *type == "fp32") continue;
    if (!aware) {
      refuse(name, "Megatron-LM takes it with --use-precision-aware-optimizer only");
    } else if (*type == "bf16" || *type == "fp16" || *type == "fp8") {
      only_estimated(name, "optimizer state or gradients in fewer than 32 bits");
      set(model_key(name), *type);
    } else {
      refuse(name, "expected fp32, bf16, fp16 or fp8");
    }
  }
}

void MegatronReading::optimizer() {
  const std::string name = value("optimizer").value_or("adam");
  if (name == "adam" || name == "sgd" || name == "muon" || name == "dist_muon")
    set("model.optim.name", name == "adam" ? "adamw" : name == "sgd" ? "sgd" : "muon");
  else
    refuse("optimizer", "expected adam, sgd or muon");
  if (name.ends_with("muon")) {
    if (name == "dist_muon" && !is_set("model.zero_stage")) set("model.zero_stage", "1");
    set("model.optim.muon_momentum", value("muon-momentum").value_or("0.9"));
    const bool nesterov = take("muon-nesterov") || take("muon-use-nesterov");
    set("model.optim.muon_use_nesterov", nesterov ? "true" : "false");
  }
  set_default("model.optim.weight_decay", "0.01");
  const auto first = value("adam-beta1"), second = value("adam-beta2");
  if (first || second)
    set("model.optim.betas", fmt::format("[{}, {}]", first.value_or("0.9"), second.value_or("0.999")));
  else
    set_default("model.optim.betas", "[0.9, 0.999]");
}

void MegatronReading::schedule() {
  static const std::map<std::string, std::string> kShapes{
      {"linear", "WarmupAnnealing"},
      {"cosine", "CosineAnnealing"},
      {"constant", "Constant"},
      {"inverse-square-root", "InverseSquareRootAnnealing"},
      {"WSD", "WSD"}};
  if (const auto style = value("lr-decay-style")) {
    const auto shape = kShapes.find(*style);
    require<UsageError>(
        shape != kShapes.end(),
        "--from-megatron: --lr-decay-style {}: expected linear, cosine, constant, inverse-square-root "
        "or WSD",
        *style);
    set("model.optim.sched.name", shape->second);
  } else {
    set_default("model.optim.sched.name", "WarmupAnnealing");
  }
  const std::int64_t tokens = std::max<std::int64_t>(1, number("model.encoder_seq_length", 1));
  struct Counted {
    const char *name, *key;
    bool of_tokens;
    std::int64_t least;
  };
  constexpr Counted kCounted[] = {{"train-samples", "trainer.max_steps", false, 1},
                                  {"lr-warmup-samples", "model.optim.sched.warmup_steps", false, 0},
                                  {"lr-decay-samples", "model.optim.sched.decay_steps", false, 1},
                                  {"lr-wsd-decay-samples", "model.optim.sched.wsd_decay_steps", false, 1},
                                  {"lr-warmup-tokens", "model.optim.sched.warmup_steps", true, 0},
                                  {"lr-decay-tokens", "model.optim.sched.decay_steps", true, 1}};
  for (const Counted& c : kCounted)
    if (const auto n = whole(c.name))
      set(c.key, std::to_string(std::max(c.least, steps_of(c.of_tokens ? *n / tokens : *n))));
  if (is_set("trainer.max_tokens") && is_set("trainer.max_steps") && has("train-samples"))
    note("--train-samples and --train-tokens are both given: the first limit reached ends the run");
}

void MegatronReading::data() {
  if (const auto minutes = value("exit-duration-in-mins")) set("trainer.max_time", *minutes + "m");
  if (take("calculate-per-token-loss") && has("eod-mask-loss"))
    refuse("calculate-per-token-loss", "with --eod-mask-loss: a loss over all tokens of a batch");
}

void MegatronReading::vocabulary() {
  if (of_run()) return run_tokenizer();
  const std::int64_t extra = whole("vocab-extra-ids").value_or(0);
  for (const char* padded : {"padded-vocab-size", "pad-vocab-size-to"})
    if (const auto size = value(padded)) {
      set("model.vocab_size", *size);
      set("model.make_vocab_size_divisible_by", "1");
    }
  if (is_set("model.vocab_size")) return;
  if (const auto size = whole("vocab-size")) {
    set("model.vocab_size", std::to_string(*size + extra));
    return;
  }
  if (tokenizer_files() || counted_vocabulary()) return;
  const std::string type = value("tokenizer-type").value_or("");
  for (const auto& [name, size] : kVocabularies)
    if (name == type) {
      set("model.vocab_size", std::to_string(size + extra));
      note(fmt::format("--vocab-size is not given: {}, the published size of {}", size + extra, type));
      return;
    }
  std::string named;
  for (const char* name : {"tokenizer-model", "tokenizer-name-or-path", "vocab-file"})
    if (named.empty() && has(name)) named = find(name)->text();
  set("model.vocab_size", std::to_string(kUsualVocabulary + extra));
  note(fmt::format("--vocab-size is not given{}: {} assumed, as GPT-2 has",
                   named.empty() ? "" : " and " + named + " is not here", kUsualVocabulary + extra));
}

// True: the tokenizer's files are here.
bool MegatronReading::tokenizer_files() {
  const std::string type = value("tokenizer-type").value_or("");
  const auto set_all = [&](std::initializer_list<std::pair<const char*, std::string>> settings) {
    for (const auto& [key, text] : settings) set(fmt::format("model.tokenizer.{}", key), text);
    return true;
  };
  const auto vocab = value("vocab-file"), merges = value("merge-file");
  if (type == "GPT2BPETokenizer" && vocab && merges && is_file(*vocab) && is_file(*merges))
    return set_all(
        {{"library", "megatron"}, {"type", type}, {"vocab_file", *vocab}, {"merge_file", *merges}});
  // A file of pieces does not say that capitals count: of cased ones the tokenizer's directory is asked for.
  if (type == "BertWordPieceLowerCase" && vocab && is_file(*vocab) && vocab->ends_with("vocab.txt"))
    return set_all({{"library", "huggingface"}, {"type", *vocab}});
  for (const char* name : {"tokenizer-model", "tokenizer-name-or-path"}) {
    const auto model = value(name);
    std::error_code error;
    if (!model) continue;
    if (is_file(*model) && model->ends_with(".model"))
      return set_all({{"library", "sentencepiece"}, {"model", *model}});
    if (fs::is_directory(*model, error)) return set_all({{"library", "huggingface"}, {"type", *model}});
  }
  return false;
}

// True: a file of the vocabulary is here, whose entries are counted.
bool MegatronReading::counted_vocabulary() {
  const auto vocab = value("vocab-file");
  if (!vocab || !is_file(*vocab)) return false;
  const std::string text = read_text(*vocab);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const std::int64_t size = json.is_object() || json.is_array() ? static_cast<std::int64_t>(json.size())
                                                                : std::count(text.begin(), text.end(), '\n') +
                                                                      (!text.empty() && text.back() != '\n');
  set("model.vocab_size", std::to_string(size + whole("vocab-extra-ids").value_or(0)));
  note(fmt::format("--vocab-size is not given: {} has {} entries", *vocab, size));
  return true;
}

}  // namespace stoa::foreign
