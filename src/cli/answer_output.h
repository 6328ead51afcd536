// One answer on standard output: streamed as text, or as a JSON line at its end.
#pragma once

#include <nlohmann/json.hpp>

#include "base/console.h"
#include "cli/print.h"
#include "cli/sampling_arguments.h"
#include "infer/loaded_chunk.h"

namespace stoa::cli {

class AnswerOutput {
 public:
  explicit AnswerOutput(bool json) : json_(json) {}

  void write(std::string_view piece) {
    text_ += piece;
    if (!json_) print(piece);
  }
  // `prompt_ids`: as the model was given them.
  void finish(const std::string& prompt, const std::vector<std::int32_t>& prompt_ids,
              const infer::GenerateResult& result, const SamplingArguments::Merged& merged,
              Console& console) const {
    require<NumericsError>(result.reason != infer::EndReason::kNotANumber,
                           "the model's logits after {} tokens of the answer are not numbers: {}",
                           result.answer.size(), infer::kBeyondRange);
    const double rate = static_cast<double>(result.answer.size()) / std::max(1e-9, result.answer_seconds);
    if (json_)
      return print_json_line(nlohmann::json{{"prompt", prompt},
                                            {"text", text_},
                                            {"prompt_ids", prompt_ids},
                                            {"ids", result.answer},
                                            {"end", infer::name_of(result.reason)},
                                            {"from_generation_config", merged.taken},
                                            {"not_followed", merged.not_followed},
                                            {"prompt_seconds", result.prompt_seconds},
                                            {"tokens_per_second", rate}});
    print("\n");
    console.line(fmt::format("{} tokens, {:.1f} tokens/s, ended by {}", result.answer.size(), rate,
                             infer::name_of(result.reason)));
  }

 private:
  const bool json_;
  std::string text_;
};

}  // namespace stoa::cli
