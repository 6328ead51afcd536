// The defaults of `stoa finetune`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "ckpt/find_checkpoint.h"

namespace stoa::cli {

struct FinetuneChoice {
  std::string model;
  std::vector<std::string> data, validation;
  std::string method = "lora", chat_template;
  std::string objective;  // empty: contrastive of texts to be compared, else sft
  double epochs = 3;
  std::optional<std::int64_t> length;
  bool skip_bad_records = false;
  // Distillation: of model.distill, where given.
  std::string kept_logits;  // a directory; "": none
  std::string teacher, divergence;
  std::optional<double> temperature, cross_entropy_weight;
};

// Changes of the configuration of a model, a directory or a .gguf file; with an adapter of it, which is
// trained further. ConfigError: an adapter that is not a low-rank one. Rates go by the size of the model,
// batches by that of the data: about 30 steps per epoch, of 1 to 16 rows; of texts to be compared, up to 32
// records a step. IoError, DataError: the data cannot be read.
std::vector<std::string> finetune_defaults(const FinetuneChoice& choice, const ckpt::FoundCheckpoint& found,
                                           Console& console);

// Names of FinetuneChoice::method.
std::vector<std::string> finetune_methods();
// 2e-5 for 7 billion weights, less for larger models and more for smaller ones, as their usual rates are.
double full_tuning_rate(std::int64_t parameters);

}  // namespace stoa::cli
