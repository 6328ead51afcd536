#include "model/huggingface/task_keys.h"

#include <algorithm>
#include <array>

#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr std::array<std::pair<Task, std::string_view>, 3> kSuffixes{{
    {Task::kSequenceClassification, "ForSequenceClassification"},
    {Task::kTokenClassification, "ForTokenClassification"},
    {Task::kQuestionAnswering, "ForQuestionAnswering"},
}};

// Names of the classes: those of id2label, or LABEL_0, LABEL_1 ... as transformers calls them.
std::vector<std::string> read_labels(JsonKeys& keys) {
  const auto count = keys.integer("num_labels", 1, 1 << 20);
  const nlohmann::json* names = keys.object("id2label");
  std::vector<std::string> out;
  if (!names) {
    for (std::int64_t i = 0; i < count.value_or(2); ++i) out.push_back(fmt::format("LABEL_{}", i));
    return out;
  }
  for (std::size_t i = 0; i < names->size(); ++i) {
    const auto name = names->find(std::to_string(i));
    require<ConfigError>(name != names->end() && name->is_string(),
                         "config.json: id2label has {} entries, but no name for class {}", names->size(), i);
    out.push_back(name->get<std::string>());
  }
  require<ConfigError>(
      count.value_or(static_cast<std::int64_t>(out.size())) == static_cast<std::int64_t>(out.size()),
      "config.json: num_labels is {}, id2label names {}", count.value_or(0), out.size());
  return out;
}

// Families of transformers 5 whose heads differ from those of most others (`score` for texts and for tokens).
struct DecoderHeads {
  std::string_view family;
  std::string_view text = "score", tokens = "score";  // names of the linear layer; "": no such class
};
constexpr DecoderHeads kHeads[] = {
    {.family = "gpt2", .tokens = "classifier"},
    {.family = "gpt_neox", .tokens = "classifier"},
    {.family = "gpt_neo", .tokens = "classifier"},
    {.family = "gpt_bigcode", .tokens = "classifier"},
    {.family = "bloom", .tokens = "classifier"},
    {.family = "mpt", .tokens = "classifier"},
    {.family = "falcon", .tokens = "classifier"},
    {.family = "olmo", .tokens = ""},
    {.family = "olmo2", .tokens = ""},
    {.family = "olmo3", .tokens = ""},
    {.family = "gemma3_text", .tokens = ""},
    {.family = "opt", .tokens = ""},
    {.family = "hunyuan_v1_dense", .tokens = ""},
    {.family = "gptj", .tokens = ""},
    {.family = "deepseek_v2", .tokens = ""},
    {.family = "gemma3", .text = "", .tokens = ""},
    {.family = "qwen3_5", .text = "", .tokens = ""},
    {.family = "qwen3_5_text", .text = "", .tokens = ""},
    {.family = "qwen3_5_moe", .text = "", .tokens = ""},
    {.family = "qwen3_5_moe_text", .text = "", .tokens = ""},
    {.family = "granite", .text = "", .tokens = ""},
    {.family = "granitemoe", .text = "", .tokens = ""},
    {.family = "cohere", .text = "", .tokens = ""},
    {.family = "cohere2", .text = "", .tokens = ""},
    {.family = "olmoe", .text = "", .tokens = ""},
    {.family = "glm4_moe", .text = "", .tokens = ""},
    {.family = "dots1", .text = "", .tokens = ""},
    {.family = "ernie4_5", .text = "", .tokens = ""},
    {.family = "minimax_m2", .text = "", .tokens = ""},
    {.family = "internlm2", .text = "", .tokens = ""},
    {.family = "kimi_k2", .text = "", .tokens = ""},
    {.family = "minicpm", .text = "", .tokens = ""},
};

// LlamaModel, GPT2Model.
bool is_bare(std::string_view architecture) {
  return architecture.ends_with("Model") && !architecture.ends_with("LMHeadModel");
}

}  // namespace

std::string_view head_layer(const Family& family, Task task) {
  const auto* const found =
      std::find_if(std::begin(kHeads), std::end(kHeads),
                   [&](const DecoderHeads& heads) { return heads.family == family.type; });
  const DecoderHeads heads = found == std::end(kHeads) ? DecoderHeads{} : *found;
  if (task == Task::kSequenceClassification) return heads.text;
  return task == Task::kTokenClassification ? heads.tokens : "";
}

std::string_view task_suffix(Task task) {
  for (const auto& [known, suffix] : kSuffixes)
    if (known == task) return suffix;
  return "";
}

Task task_of_architecture(std::string_view architecture) {
  for (const auto& [task, suffix] : kSuffixes)
    if (architecture.ends_with(suffix)) return task;
  return Task::kLanguageModel;
}

void read_classes(JsonKeys& keys, TaskConfig& task) {
  task.labels = read_labels(keys);
  task.classifier_dropout = keys.number("classifier_dropout");
  if (task.type == Task::kTokenClassification) return;
  // transformers infers it from the number of labels.
  const char* inferred = task.regression() ? "regression" : "single_label_classification";
  const std::string problem = keys.text("problem_type").value_or(inferred);
  require<ConfigError>(problem == inferred,
                       "config.json: problem_type {} with {} labels is not supported, expected "
                       "single_label_classification of 2 or more, or regression of 1",
                       problem, task.labels.size());
}

void write_classes(const TaskConfig& task, Json& json) {
  if (task.labels.empty()) return;
  Json names = Json::object(), numbers = Json::object();
  for (std::size_t i = 0; i < task.labels.size(); ++i) {
    names[std::to_string(i)] = task.labels[i];
    numbers[task.labels[i]] = i;
  }
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(numbers);
  if (task.type == Task::kSequenceClassification)
    json["problem_type"] = task.regression() ? "regression" : "single_label_classification";
  json["classifier_dropout"] = task.classifier_dropout ? Json(*task.classifier_dropout) : Json();
}

bool has_head(const Family& family, Task task) {
  return task == Task::kLanguageModel || task == Task::kEmbedding || !head_layer(family, task).empty();
}

void read_decoder_task(JsonKeys& keys, const Family& family, ModelConfig& c) {
  const std::vector<std::string> all = keys.texts("architectures").value_or(std::vector<std::string>());
  TaskConfig task;
  if (!all.empty()) task.type = task_of_architecture(all.front());
  // A bare decoder predicts tokens by its embedding where the two are tied.
  if (!all.empty() && is_bare(all.front()) && !c.share_embeddings_and_output_weights) {
    task.type = Task::kEmbedding;
    return set_task(c, task);
  }
  if (!task.labelled()) return;
  require<ConfigError>(has_head(family, task.type),
                       "config.json: architecture '{}' is not supported: family {} has no such head in "
                       "transformers, or none that is read",
                       all.front(), family.type);
  read_classes(keys, task);
  // Heads of texts have no dropout; that of tokens is 0.1 by default.
  if (task.type == Task::kSequenceClassification) task.classifier_dropout.reset();
  if (task.type == Task::kTokenClassification && !task.classifier_dropout) task.classifier_dropout = 0.1;
  set_task(c, task);
}

void set_task(ModelConfig& c, const TaskConfig& task) {
  c.task = task;
  if (c.kind != ModelKind::kGpt || !task.labelled()) return;
  c.lm_head_bias = false;
  c.logit_scale = 1;
  c.final_logit_softcapping.reset();
}

void write_decoder_task(const ModelConfig& c, const Family& family, Json& json) {
  std::string_view name = family.architecture;
  for (const std::string_view end : {"ForCausalLM", "LMHeadModel"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  json["architectures"] = {fmt::format("{}{}", name, c.task.embeds() ? "Model" : task_suffix(c.task.type))};
  write_classes(c.task, json);
}

NameMap names_with_head(const Family& family, const ModelConfig& c) {
  NameMap names = family.names();
  if (c.kind != ModelKind::kGpt || !c.task.labelled() || c.task.embeds() || names.rules.empty()) return names;
  const bool texts = c.task.type == Task::kSequenceClassification;
  add_rules(names, {{head_layer(family, c.task.type), {texts ? "head.classes" : "head.tags"}}});
  return names;
}

}  // namespace stoa::model::huggingface
