#include "foreign/tuning_programs.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"

namespace stoa::foreign {
namespace {

bool has_one_of(const config::Node& root, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view key) { return root.find(key) != nullptr; });
}

// Its name, and its key for the model.
struct TuningProgram {
  const char *name = nullptr, *model = nullptr;
};

TuningProgram tuning_program_of(const config::Node& root) {
  if (root.kind != config::Node::Kind::kMap) return {};
  if (root.find("base_model") &&
      has_one_of(root, {"datasets", "adapter", "sequence_len", "micro_batch_size"}))
    return {"axolotl", "base_model"};
  if (root.find("model_name_or_path"))
    return {has_one_of(root, {"stage", "finetuning_type", "cutoff_len"}) ? "LLaMA-Factory" : "TRL",
            "model_name_or_path"};
  if (const config::Node* model = root.find("model");
      model && model->kind == config::Node::Kind::kMap && model->find("_component_"))
    return {"torchtune", "checkpointer.checkpoint_dir"};
  return {};
}

}  // namespace

void refuse_tuning_program(const config::Node& root, const std::string& path) {
  const TuningProgram program = tuning_program_of(root);
  require<ConfigError>(program.name == nullptr,
                       "{}: its keys are those of {}, which Stoa does not read: `stoa finetune MODEL --data "
                       "FILE`, with the directory that {} names as MODEL, is the command for it "
                       "(docs/tuning.md)",
                       path, program.name == nullptr ? "" : program.name,
                       program.model == nullptr ? "" : program.model);
}

}  // namespace stoa::foreign
