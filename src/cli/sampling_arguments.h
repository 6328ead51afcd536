// Sampling options: from the command line, else from the model's generation_config.json, else defaults.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/console.h"
#include "infer/generate.h"
#include "model/huggingface/generation_config.h"

namespace stoa::cli {

// Options that generate and chat share.
class SamplingArguments {
 public:
  // A command's defaults if neither options nor the model's file set a value.
  enum class Use {
    kText,  // temperature 1, all tokens; the model's file applies if its do_sample is true
    kChat   // temperature 0.8, top-p 0.95, unless the model's file has any sampling key
  };
  infer::GenerateOptions options;  // from the command line; else the defaults of the use

  void add_to(CLI::App& command, Use use);

  struct Merged {
    infer::GenerateOptions options;
    nlohmann::ordered_json taken = nlohmann::ordered_json::object();  // from the model's file
    std::vector<std::string> not_followed;                            // in it
    void say(Console& console) const;
  };
  // Options on the command line come first, then the file of `directory`, then the use's defaults. End tokens
  // are those of the file, else of config.json. `draws`: false if tokens are not sampled (beam search).
  // ConfigError: an invalid file; --no-generation-config ignores it.
  Merged merged(const std::filesystem::path& directory, const model::huggingface::SpecialTokens& config,
                bool draws = true) const;

 private:
  bool given(const CLI::Option* option) const { return option->count() > 0; }

  CLI::Option *max_tokens_ = nullptr, *temperature_ = nullptr, *top_k_ = nullptr, *top_p_ = nullptr,
              *min_p_ = nullptr, *typical_p_ = nullptr, *repetition_penalty_ = nullptr, *greedy_ = nullptr;
  Use use_ = Use::kText;
  std::string order_ = infer::kSamplerOrderNames[0];
  bool ignore_file_ = false;
};

}  // namespace stoa::cli
