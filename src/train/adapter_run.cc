#include "train/adapter_run.h"

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/file.h"
#include "run/base_hash.h"
#include "run/rank_checkpoint.h"

namespace stoa::train {

void complete_adapter_config(RunConfig& config, const StartingPoint& start) {
  model::PeftConfig& peft = config.model.peft;
  const auto& from = start.resume ? start.resume : start.weights;
  require<ConfigError>(
      peft.active() || !from || !from->adapter,
      "'{}' is an adapter, the configuration trains a whole model: give its model.peft, or merge "
      "it first (stoa checkpoint merge)",
      from ? from->root.string() : "");
  if (!peft.active()) return;
  require<ConfigError>(
      from.has_value(),
      "model.peft tunes a model that there is: give restore_from_path, or its directory as the "
      "configuration (stoa train DIR model.peft.peft_scheme=lora)");
  if (!peft.base_model_type)
    peft.base_model_type = std::string(infer::ModelFiles(from->model).description().family->type);
}

std::optional<fs::path> start_adapter(const RunConfig& config, const StartingPoint& start) {
  const model::PeftConfig& peft = config.model.peft;
  if (!peft.active() || !start.weights) return std::nullopt;
  if (peft.restore_from_path) return ckpt::find_adapter(*peft.restore_from_path, start.weights->model);
  return start.weights->adapter;
}

void load_start_adapter(const RunConfig& config, const StartingPoint& start, run::TrainingRank& rank) {
  if (const auto adapter = start_adapter(config, start))
    run::load_adapter(rank, infer::AdapterFiles(*adapter, rank.options().model));
}

BaseGuard::BaseGuard(run::TrainingRank& rank, fs::path directory)
    : rank_(rank), path_(std::move(directory) / kFile), before_(run::hash_of_frozen(rank)) {
  write(nullptr);
}

void BaseGuard::write(const char* after) const {
  if (rank_.parallel().rank() != 0) return;
  nlohmann::ordered_json json{{"before", checksum_text(before_)}, {"after", nullptr}};
  if (after) json["after"] = after;
  write_text(path_, json.dump(2) + "\n");
}

void BaseGuard::check(std::int64_t step) {
  const std::uint64_t after = run::hash_of_frozen(rank_);
  write(checksum_text(after).c_str());
  require<NumericsError>(
      after == before_,
      "after step {} the model's own weights are not those of the start (hash {} instead of "
      "{}), although an adapter alone is trained: memory of the machine may be faulty",
      step, checksum_text(after), checksum_text(before_));
}

}  // namespace stoa::train
