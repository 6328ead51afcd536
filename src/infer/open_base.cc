#include "infer/open_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/adapter_directory.h"
#include "model/huggingface/adapter_config.h"
#include "model/huggingface/adapter_tensors.h"
#include "model/huggingface/task_keys.h"

namespace stoa::infer {

namespace hf = model::huggingface;

namespace {

hf::AdapterDescription description_of(const fs::path& directory) {
  try {
    return hf::read_adapter_config(read_text(directory / hf::kAdapterConfig));
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", directory.string(), error.what());
  }
}

// Names that the last layer of a task's head may have in files.
std::vector<std::string_view> last_layers(const ModelFiles& files, model::Task task) {
  if (files.model().config.kind == model::ModelKind::kBert) return {"classifier.out_proj", "classifier"};
  const std::string_view layer = hf::head_layer(*files.description().family, task);
  return layer.empty() ? std::vector<std::string_view>{} : std::vector{layer};
}

// Rows of the head in an adapter's files; 0: it has none.
std::int64_t classes_of(const fs::path& directory, const std::vector<std::string_view>& layers) {
  const auto source = ckpt::open_adapter(directory);
  for (const ckpt::TensorEntry* entry : source->entries()) {
    std::string name = entry->name;
    for (const std::string_view part : {".default", ".modules_to_save"})
      if (const std::size_t at = name.find(part); at != name.npos) name.erase(at, part.size());
    for (const std::string_view layer : layers)
      if (name.ends_with(fmt::format(".{}.weight", layer)) && !entry->shape.empty())
        return entry->shape.front();
  }
  return 0;
}

ModelFiles with_task_of(const fs::path& base, const fs::path& adapter) {
  const model::Task task = description_of(adapter).task;
  ModelFiles files(base);
  const model::ModelConfig& config = files.model().config;
  const bool encoder = config.kind == model::ModelKind::kBert;
  if (task == model::Task::kLanguageModel || config.task.labelled() || config.kind == model::ModelKind::kT5)
    return files;
  if (task == model::Task::kEmbedding && !encoder) {
    model::TaskConfig vectors;
    vectors.type = task;
    return {base, vectors};
  }
  if (encoder && task != model::Task::kSequenceClassification && task != model::Task::kTokenClassification)
    return files;
  const std::vector<std::string_view> layers = last_layers(files, task);
  const std::int64_t classes = layers.empty() ? 0 : classes_of(adapter, layers);
  require<DataError>(classes > 0,
                     "'{}' is an adapter for {}, and holds no head ('{}'): PEFT saves it where "
                     "modules_to_save names it",
                     adapter.string(), task == model::Task::kSequenceClassification ? "texts" : "words",
                     layers.empty() ? "score" : layers.back());
  model::TaskConfig wanted;
  wanted.type = task;
  if (const auto known = ckpt::read_adapter_base(adapter)) wanted.labels = known->labels;
  if (static_cast<std::int64_t>(wanted.labels.size()) != classes) {
    wanted.labels.clear();
    for (std::int64_t i = 0; i < classes; ++i) wanted.labels.push_back(fmt::format("LABEL_{}", i));
  }
  return {base, wanted};
}

}  // namespace

ModelFiles open_base(const fs::path& base, const std::optional<fs::path>& adapter) {
  if (!adapter) return ModelFiles(base);
  ModelFiles files = with_task_of(base, *adapter);
  grow_for(files, *adapter);
  return files;
}

void grow_for(ModelFiles& base, const fs::path& adapter) {
  const std::int64_t vocabulary = base.model().vocabulary;
  std::int64_t end = vocabulary;
  std::vector<std::string> matrices;
  for (const hf::Tensor& tensor : hf::tensors(base.model(), *base.description().family))
    if (hf::is_token_matrix(tensor.parts.front().name)) matrices.push_back(tensor.name);
  const std::unique_ptr<ckpt::TensorSource> source = ckpt::open_adapter(adapter);
  for (const ckpt::TensorEntry* entry : source->entries())
    for (const std::string& matrix : matrices)
      if (entry->name.ends_with(matrix) && entry->shape.size() == 2)
        end = std::max(end, entry->shape.front());
  // Tokens between the model's and these have rows, too: numbers of others are not believed.
  const std::vector<std::int64_t> tokens = description_of(adapter).config.trainable_token_indices;
  const std::int64_t most = std::max(end, vocabulary + static_cast<std::int64_t>(tokens.size()));
  for (const std::int64_t token : tokens) {
    require<ConfigError>(token < most,
                         "'{}' has a row of token {} (trainable_token_indices), the model has {} tokens, and "
                         "not all between are in the adapter",
                         adapter.string(), token, vocabulary);
    end = std::max(end, token + 1);
  }
  if (end == vocabulary) return;
  for (const ckpt::TensorEntry* entry : source->entries())
    require<ConfigError>(
        entry->name.find(".lora_embedding_A") == entry->name.npos,
        "'{}' belongs to a model with {} tokens ({}), the model has {}: save the model that it was "
        "trained on, with its new tokens, and give that",
        adapter.string(), end, entry->name, vocabulary);
  base.grow({vocabulary, end - vocabulary});
}

}  // namespace stoa::infer
