// Where the answers to many prompts go, in their order: standard output, or a file that an interrupted
// command continues; and how far they are.
#pragma once

#include <optional>

#include "cli/answer_file.h"
#include "cli/command.h"
#include "cli/prompt_file.h"
#include "cli/sampling_arguments.h"
#include "infer/engine/request.h"

namespace stoa::cli {

struct AnswerListOptions {
  std::string output;  // "": standard output
  bool json = false;   // there: JSON lines instead of a text per line
};

// An answer to a prompt.
struct ListedAnswer {
  std::vector<std::int32_t> prompt_ids, ids;
  std::string text;
  infer::EndReason reason = infer::EndReason::kLength;
  std::optional<double> score = {};  // of a beam
};

class AnswerList {
 public:
  // Errors are those of AnswerFile.
  AnswerList(const AnswerListOptions& options, const AnswerFile::Json& origin, Context& context);

  // Says how many prompts there are, before the first answer.
  void begin(std::int64_t prompts);
  // Whether this prompt was answered by a command that was interrupted.
  bool has(const FilePrompt& prompt) const { return file_ && prompt.line <= file_->last_line(); }
  void add(const FilePrompt& prompt, const ListedAnswer& answer);
  // `under_way`: answers that are not added, by the share of their longest length.
  void update(double under_way);
  // Interrupted: a signal asked for the end. Answers that were added are kept.
  void check_interrupt();
  void finish();

 private:
  Context& context_;
  const AnswerListOptions options_;
  std::optional<AnswerFile> file_;
  std::optional<Progress> progress_;
  std::int64_t prompts_ = 0, found_ = 0, added_ = 0, tokens_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace stoa::cli
