// MODEL: a Hugging Face directory, a checkpoint, or a run, loaded for use.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/console.h"
#include "cli/machine_factory.h"
#include "infer/inference_rank.h"
#include "infer/model_files.h"
#include "token/tokenizer.h"

namespace stoa::cli {

struct ModelArguments {
  std::string model;
  std::string dtype;  // "": as stored
  MachineOptions machine;

  void add_to(CLI::App& command);
};

struct LoadOptions {
  bool cache = true;                    // for generation; otherwise losses only
  std::optional<std::int64_t> context;  // tokens of the cache; none: the model's positions
  std::int64_t pass_tokens = 512;       // at most the model's positions, but for packed texts
  std::optional<std::int64_t> text_tokens =
      std::nullopt;       // longest text of losses(): several are packed into a pass
  bool tokenizer = true;  // is one needed?
};

struct LoadedModel {
  std::unique_ptr<infer::Machine> machine;
  std::unique_ptr<infer::InferenceRank> rank;
  std::optional<token::Tokenizer> tokenizer;
  model::Gpt model;
  model::huggingface::SpecialTokens special;
  fs::path directory;  // with config.json
};

// Which kind of model MODEL is.
model::ModelKind kind_of(const ModelArguments& arguments);
LoadedModel load_model(const ModelArguments& arguments, const LoadOptions& options);

}  // namespace stoa::cli
