#include "infer/open_base.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/adapter_directory.h"
#include "model/huggingface/adapter_config.h"
#include "model/huggingface/task_keys.h"

namespace stoa::infer {

namespace hf = model::huggingface;

namespace {

model::Task task_of_adapter(const fs::path& directory) {
  try {
    return hf::read_adapter_config(read_text(directory / hf::kAdapterConfig)).task;
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", directory.string(), error.what());
  }
}

// Rows of the head in an adapter's files; 0: it has none.
std::int64_t classes_of(const fs::path& directory, std::string_view layer) {
  const auto source = ckpt::open_adapter(directory);
  for (const ckpt::TensorEntry* entry : source->entries()) {
    std::string name = entry->name;
    for (const std::string_view part : {".default", ".modules_to_save"})
      if (const std::size_t at = name.find(part); at != name.npos) name.erase(at, part.size());
    if (name.ends_with(fmt::format(".{}.weight", layer)) && !entry->shape.empty())
      return entry->shape.front();
  }
  return 0;
}

}  // namespace

ModelFiles open_base(const fs::path& base, const std::optional<fs::path>& adapter) {
  const model::Task task = adapter ? task_of_adapter(*adapter) : model::Task::kLanguageModel;
  ModelFiles files(base);
  const model::ModelConfig& config = files.model().config;
  if (task == model::Task::kLanguageModel || config.task.labelled() || config.kind != model::ModelKind::kGpt)
    return files;
  const std::string_view layer = hf::head_layer(*files.description().family, task);
  const std::int64_t classes = layer.empty() ? 0 : classes_of(*adapter, layer);
  require<DataError>(classes > 0,
                     "'{}' is an adapter for {}, and holds no head ('{}'): PEFT saves it where "
                     "modules_to_save names it",
                     adapter->string(), task == model::Task::kSequenceClassification ? "texts" : "words",
                     layer.empty() ? "score" : layer);
  model::TaskConfig wanted;
  wanted.type = task;
  if (const auto known = ckpt::read_adapter_base(*adapter)) wanted.labels = known->labels;
  if (static_cast<std::int64_t>(wanted.labels.size()) != classes) {
    wanted.labels.clear();
    for (std::int64_t i = 0; i < classes; ++i) wanted.labels.push_back(fmt::format("LABEL_{}", i));
  }
  return {base, wanted};
}

}  // namespace stoa::infer
