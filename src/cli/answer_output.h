// One answer on standard output: streamed as text, or as a JSON line at its end.
#pragma once

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "run/generate.h"

namespace stoa::cli {

class AnswerOutput {
 public:
  explicit AnswerOutput(bool json) : json_(json) {}

  // Takes a piece of text; false: nobody reads any more.
  bool write(std::string_view piece) {
    text_ += piece;
    if (!json_) std::cout << piece << std::flush;
    return static_cast<bool>(std::cout);
  }
  // `prompt_ids`: as the model was given them.
  void finish(const std::string& prompt, const std::vector<std::int32_t>& prompt_ids,
              const run::GenerateResult& result, Console& console) const {
    const double rate = static_cast<double>(result.answer.size()) / std::max(1e-9, result.answer_seconds);
    if (json_) {
      std::cout << nlohmann::json{{"prompt", prompt},
                                  {"text", text_},
                                  {"prompt_ids", prompt_ids},
                                  {"ids", result.answer},
                                  {"end", run::name_of(result.reason)},
                                  {"prompt_seconds", result.prompt_seconds},
                                  {"tokens_per_second", rate}}
                       .dump()
                << "\n";
      return;
    }
    std::cout << "\n";
    console.line(fmt::format("{} tokens, {:.1f} tokens/s, ended by {}", result.answer.size(), rate,
                             run::name_of(result.reason)));
  }

 private:
  const bool json_;
  std::string text_;
};

}  // namespace stoa::cli
