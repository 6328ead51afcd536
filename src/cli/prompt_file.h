// A file of prompts, a line each: texts, or in a file of JSON (.jsonl, .json …) or a table (.parquet …)
// texts, or objects with "prompt" or "messages" and options of their own, which have the names of OpenAI's
// fields.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/input_lines.h"
#include "infer/generate.h"

namespace stoa::cli {

struct FilePrompt {
  std::int64_t line = 0;  // from 1
  std::string text;
  std::optional<nlohmann::ordered_json> messages;  // instead of a text
  nlohmann::ordered_json labels;                   // "id" and "metadata", which the answer repeats
  infer::GenerateOptions options;
  bool draws = false;  // the line itself says how tokens are drawn
};

// Standard input, a pipe or the like: what is gone when it has been read.
bool is_read_once(const std::string& path);

class PromptFile {
 public:
  // "" and "-": standard input, of texts. `options`: of prompts that do not give their own; each draws by the
  // seed, to which the number of the lines before it is added. IoError: it cannot be read.
  PromptFile(const std::string& path, const infer::GenerateOptions& options);

  // False: there is no more. DataError names file, line and what is wrong.
  bool next(FilePrompt& prompt);
  // "prompts.jsonl:7", of the prompt that was read last.
  std::string place() const;
  // Calls `body`; what it throws of the prompt that was read last becomes a DataError that names its place.
  template <class Body>
  auto at_place(const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      fail<DataError>("{}: {}", place(), error.what());
    }
  }

 private:
  void parse(const std::string& line, FilePrompt& prompt) const;

  const std::string path_;
  const infer::GenerateOptions options_;
  const bool json_;
  InputLines lines_;
  std::int64_t line_ = 0;
};

}  // namespace stoa::cli
