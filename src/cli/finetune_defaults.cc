#include "cli/finetune_defaults.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "infer/adapter_files.h"
#include "infer/open_base.h"
#include "infer/sentence_files.h"
#include "model/architecture.h"
#include "tune/tuning_files.h"

namespace stoa::cli {
namespace {

using tune::TuningFiles;

constexpr std::int64_t kLongestRow = 2048;
constexpr double kBytesPerToken = 4;  // of JSON, roughly
constexpr std::int64_t kStepsPerEpoch = 30, kMostRows = 16, kEvaluations = 10, kQuestions = 2;
constexpr double kFewestSteps = 10;  // between evaluations
constexpr std::int64_t kMostCompared = 32, kComparedTokens = 512;

// Rates are relative to that of all weights: tenfold for low-rank adapters, as is usual; higher for virtual
// tokens, which are few and far from the loss (not measured yet: bench/tuning.py).
struct Method {
  const char* name;
  const char* scheme;
  double rate;
};
constexpr Method kMethods[] = {
    {"lora", "lora", 10},       {"full", "none", 1},      {"dora", "lora", 10},
    {"qlora", "lora", 10},      {"ia3", "ia3", 50},       {"prompt", "prompt", 50},
    {"p-tuning", "ptuning", 5}, {"prefix", "prefix", 50}, {"adapter", "adapter", 10}};

const Method& method_of(const std::string& name) {
  return *std::find_if(std::begin(kMethods), std::end(kMethods),
                       [&](const Method& method) { return name == method.name; });
}

// The largest up to `value` and `most`; 1 at least.
std::int64_t power_of_two(double value, std::int64_t most) {
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp(value, 1.0, static_cast<double>(most)))));
}

std::string list_of(const std::vector<std::string>& items) { return nlohmann::json(items).dump(); }

std::vector<fs::path> paths_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

// Texts of all records together.
double bytes_of(const TuningFiles& files) {
  double sum = 0;
  for (const auto& file : files.files())
    for (const auto& record : file.records()) sum += static_cast<double>(record.json.size());
  return sum;
}

// Another head, or none, in the place of the language model's, without what belongs to that alone.
void add_task(const model::ModelConfig& c, const char* task, std::vector<std::string>& out) {
  out.push_back(fmt::format("model.task={}", task));
  if (c.lm_head_bias) out.emplace_back("model.lm_head_bias=false");
  if (c.logit_scale != 1) out.emplace_back("model.logit_scale=1");
  if (c.final_logit_softcapping) out.emplace_back("model.final_logit_softcapping=null");
}

// A head of one label.
void add_score_head(const model::ModelConfig& c, const std::string& objective,
                    std::vector<std::string>& out) {
  add_task(c, "sequence_classification", out);
  out.push_back(fmt::format("model.labels=[{}]", objective == "reward" ? "reward" : "score"));
}

// Rows of a step, and steps of a run.
struct RowDefaults {
  std::int64_t length = 0, batch = 1, micro_batch = 1;
  double steps = 1;
  double held_back = 2;  // for validation, percent of the records
};

// Rows that are packed full of texts.
RowDefaults packed_rows(const FinetuneChoice& choice, const TuningFiles& files, const model::ModelConfig& c) {
  RowDefaults out;
  out.length = choice.length.value_or(std::min(c.max_positions(), kLongestRow));
  const double rows = std::max(1.0, bytes_of(files) / kBytesPerToken / static_cast<double>(out.length));
  out.batch = power_of_two(rows / kStepsPerEpoch, kMostRows);
  out.steps = std::max(1.0, std::ceil(choice.epochs * rows / static_cast<double>(out.batch)));
  return out;
}

// A row for each text of a record. A query is compared with the texts of its own step alone: with few of them
// it is too easy to tell which one belongs to it, and little is learnt. A step of at most half of the data
// meets no record twice.
RowDefaults compared_rows(const FinetuneChoice& choice, const TuningFiles& files, const model::ModelConfig& c,
                          const infer::SentenceOptions& said) {
  std::vector<std::string> skipped;
  const auto first = files.compared(0, 1, skipped);
  const std::int64_t texts = first.empty() ? 2 : std::max<std::int64_t>(2, std::ssize(first.front().texts));
  const auto records = static_cast<double>(files.records());
  const std::int64_t at_once = power_of_two(std::max(2.0, records / 2), kMostCompared);
  RowDefaults out;
  out.length = choice.length.value_or(
      std::min(c.max_positions(), said.max_length > 0 ? said.max_length : kComparedTokens));
  out.batch = at_once * texts;
  out.micro_batch = std::max<std::int64_t>(1, at_once / 4) * texts;
  out.steps = std::max(1.0, std::ceil(choice.epochs * records / static_cast<double>(at_once)));
  // A validation compares the records that are held back with each other: few are too easy.
  out.held_back = std::round(std::clamp(100.0 * static_cast<double>(kMostCompared) / records, 2.0, 10.0));
  return out;
}

// Of --kl.
std::string divergence_key(const std::string& name) { return name == "jsd" ? name : name + "_kl"; }

TuningFiles::Bad bad_records(const FinetuneChoice& choice) {
  return choice.skip_bad_records ? TuningFiles::Bad::kSkipped : TuningFiles::Bad::kRefused;
}

// The first questions of records that are held back.
std::vector<std::string> held_back_questions(const FinetuneChoice& choice, const TuningFiles& files) {
  const bool own = !choice.validation.empty();
  const TuningFiles* asked = &files;
  std::optional<TuningFiles> held_back;
  if (own) asked = &held_back.emplace(paths_of(choice.validation), bad_records(choice));
  const std::int64_t first = own ? 0 : asked->records() - std::max<std::int64_t>(1, asked->records() / 50);
  return asked->questions(first, kQuestions, choice.chat_template != "none");
}

// What makes the configuration describe an adapter that there is, and its tokenizer.
std::vector<std::string> keys_of_adapter(const FinetuneChoice& choice, const infer::ModelFiles& model,
                                         const fs::path& adapter) {
  const infer::AdapterFiles files(adapter, model.model(), model.description().family->type);
  const model::PeftConfig& peft = files.model().config.peft;
  const bool dora = peft.lora.use_dora;
  const bool quantised = choice.method == "qlora" && !dora;
  require<ConfigError>(peft.is_lora() && (quantised || choice.method == (dora ? "dora" : "lora")),
                       "{} is an adapter of method {}, which is trained further with --method {}{}",
                       choice.model,
                       peft.is_ia3()          ? "ia3"
                       : peft.is_bottleneck() ? "adapter"
                       : !peft.is_lora()      ? "prompt, p-tuning or prefix"
                       : dora                 ? "dora"
                                              : "lora",
                       dora ? "dora" : "lora",
                       peft.is_lora() ? "" : " alone: give its model, and model.peft.restore_from_path");
  const auto key = [](const char* name, const std::string& value) {
    return fmt::format("model.peft.{}={}", name, value);
  };
  const model::LoraConfig& c = peft.lora;
  const auto text = [](const auto& value) { return nlohmann::json(value).dump(); };
  std::vector<std::string> out{
      key("restore_from_path", text(adapter.string())),
      key("lora_tuning.adapter_dim", text(c.adapter_dim)),
      key("lora_tuning.alpha", text(c.alpha.value_or(static_cast<double>(c.adapter_dim)))),
      key("lora_tuning.use_rslora", text(c.use_rslora)),
      key("lora_tuning.target_modules", text(c.target_modules)),
      key("lora_tuning.rank_pattern", text(c.rank_pattern)),
      key("lora_tuning.alpha_pattern", text(c.alpha_pattern)),
      key("modules_to_save", text(peft.modules_to_save)),
      key("trainable_token_indices", text(peft.trainable_token_indices))};
  switch (c.bias) {
    case model::AdapterBias::kNone:
      break;
    case model::AdapterBias::kAll:
      out.push_back(key("lora_tuning.bias", "all"));
      break;
    case model::AdapterBias::kLoraOnly:
      out.push_back(key("lora_tuning.bias", "lora_only"));
      break;
  }
  if (fs::exists(adapter / "tokenizer_config.json"))
    out.push_back("model.tokenizer=" + text(adapter.string()));
  return out;
}

// Questions with their answers teach a language model to answer, and other models which texts belong
// together.
std::string objective_of(tune::RecordForm form, const ckpt::FoundCheckpoint& found,
                         const model::ModelConfig& config) {
  const bool compared = form == tune::RecordForm::kCompared ||
                        (form == tune::RecordForm::kQuestion &&
                         (model::traits(config).picks_tokens() ||
                          infer::is_sentence_folder(found.adapter.value_or(found.model))));
  return compared ? "contrastive" : "sft";
}

}  // namespace

std::vector<std::string> finetune_methods() {
  std::vector<std::string> out;
  for (const Method& method : kMethods) out.emplace_back(method.name);
  return out;
}

double full_tuning_rate(std::int64_t parameters) {
  const double rate = 2e-5 * std::sqrt(7e9 / static_cast<double>(std::max<std::int64_t>(parameters, 1)));
  // Two digits are all that the rule is worth.
  const double unit = std::pow(10, std::floor(std::log10(std::clamp(rate, 5e-6, 1e-3))) - 1);
  return std::round(std::clamp(rate, 5e-6, 1e-3) / unit) * unit;
}

std::vector<std::string> finetune_defaults(const FinetuneChoice& choice, const ckpt::FoundCheckpoint& found,
                                           Console& console) {
  const infer::ModelFiles model = infer::open_base(found.model, found.adapter);
  const model::ModelSpec spec = model.model();
  const TuningFiles files(paths_of(choice.data), bad_records(choice));
  const std::string objective =
      !choice.objective.empty() ? choice.objective : objective_of(files.form(0), found, spec.config);
  const bool embeds = objective == "contrastive";
  infer::SentenceOptions said;
  if (embeds) said = infer::read_sentence_files(found.adapter.value_or(found.model), true);
  const RowDefaults row =
      embeds ? compared_rows(choice, files, spec.config, said) : packed_rows(choice, files, spec.config);
  const auto interval = static_cast<std::int64_t>(
      std::max(kFewestSteps, std::floor(row.steps / static_cast<double>(kEvaluations))));
  // Preferences move a model that answers already: a fortieth of the rate that teaches it to. Vectors take an
  // eighth: about 2e-5 for all weights of BERT-base, as is usual.
  const bool scores = objective == "reward" || objective == "regression",
             compares = objective != "sft" && !scores && !embeds;
  const Method& method = method_of(choice.method);
  const bool adapts = choice.method != "full";
  const double rate = full_tuning_rate(model::parameter_count(spec)) * method.rate /
                      (compares ? 40
                       : embeds ? 8
                                : 1);
  std::vector<std::string> out{
      "model.data.chat=true",
      fmt::format("model.data.train_ds.file_names={}", list_of(choice.data)),
      fmt::format("model.data.splits_string='{:.0f},{:.0f},0'", 100 - row.held_back, row.held_back),
      fmt::format("model.encoder_seq_length={}", row.length),
      fmt::format("model.micro_batch_size={}", row.micro_batch),
      fmt::format("model.global_batch_size={}", row.batch),
      fmt::format("trainer.max_epochs={}", choice.epochs),
      fmt::format("trainer.val_check_interval={}", interval),
      "trainer.limit_val_batches=10",
      fmt::format("trainer.log_every_n_steps={}", std::max<std::int64_t>(1, interval / 5)),
      "model.optim.name=adamw",
      fmt::format("model.optim.lr={}", rate),
      "model.optim.weight_decay=0",
      "model.optim.sched.name=CosineAnnealing",
      "model.optim.sched.warmup_ratio=0.03",
      fmt::format("model.optim.sched.min_lr={}", rate / 10)};
  if (adapts) out.push_back(fmt::format("model.peft.peft_scheme={}", method.scheme));
  if (choice.method == "dora") out.push_back("model.peft.lora_tuning.use_dora=true");
  if (choice.method == "qlora") out.push_back("model.peft.quantize_base=nf4");
  if (found.adapter) {
    require<ConfigError>(scores == spec.config.task.regression(),
                         "{} is an adapter of a {}: to train a {} of it, merge the two before (stoa "
                         "checkpoint merge {} --output DIR)",
                         choice.model, spec.config.task.regression() ? "reward model" : "language model",
                         scores ? "reward model" : "language model", choice.model);
    const std::vector<std::string> keys = keys_of_adapter(choice, model, *found.adapter);
    out.insert(out.end(), keys.begin(), keys.end());
    console.line(fmt::format("the adapter of {} is trained further", choice.model));
  }
  if (scores && (!spec.config.task.regression() || found.adapter))  // the adapter has it, its model has not
    add_score_head(spec.config, objective, out);
  if (embeds) {
    add_task(spec.config, "embedding", out);
    if (said.pooling) out.push_back(fmt::format("model.pooling={}", config::enum_name(*said.pooling)));
    console.line("texts that belong together: the model's vectors are trained (objective contrastive)");
  }
  if (compares || scores || embeds) {
    out.push_back("model.objective.name=" + objective);
    for (const char* part : {"hidden", "attention", "embedding"})
      out.push_back(fmt::format("model.{}_dropout=0", part));
  }
  if (!choice.teacher.empty())
    out.push_back("model.distill.teacher=" + nlohmann::json(choice.teacher).dump());
  if (!choice.kept_logits.empty())
    out.push_back("model.distill.kept_logits=" + nlohmann::json(choice.kept_logits).dump());
  if (!choice.teacher.empty() || !choice.kept_logits.empty()) {
    if (!choice.divergence.empty()) out.push_back("model.distill.loss=" + divergence_key(choice.divergence));
    if (choice.temperature) out.push_back(fmt::format("model.distill.temperature={}", *choice.temperature));
    if (choice.cross_entropy_weight)
      out.push_back(fmt::format("model.distill.cross_entropy_weight={}", *choice.cross_entropy_weight));
  }
  if (choice.skip_bad_records) out.emplace_back("model.data.skip_bad_records=true");
  if (!choice.validation.empty())
    out.push_back(fmt::format("model.data.validation_ds.file_names={}", list_of(choice.validation)));
  if (!choice.chat_template.empty())
    out.push_back(fmt::format("model.data.chat_template={}", nlohmann::json(choice.chat_template).dump()));
  if (!scores && !embeds)
    out.push_back("trainer.sample_prompts=" + list_of(held_back_questions(choice, files)));
  console.line(fmt::format("{} weights, {}: rate {}, {} rows of {} tokens per step",
                           format_count(static_cast<double>(model::parameter_count(spec))),
                           adapts ? "an adapter trained" : "all trained", rate, row.batch, row.length));
  return out;
}

}  // namespace stoa::cli
