// The text that a model is asked to continue: description, shots, question, as lm-evaluation-harness joins
// them (lm_eval/api/task.py, fewshot_context), plain or through a chat template.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eval/python/random.h"
#include "eval/tasks/task.h"

namespace stoa::eval {

// Messages [{"role": …, "content": …}] to text. `open`: the last message is the beginning of an answer, which
// is to be continued.
using ChatFunction = std::function<std::string(const Json& messages, bool open)>;

struct PromptOptions {
  std::int64_t shots = 0;
  std::uint64_t seed = 1234;  // of the shots
  std::string system;         // --system_instruction
  bool multiturn = true;      // shots as turns of the chat
  ChatFunction chat;          // none: plain text
};

// Draws the shots of a task's documents, which must be asked for in order: those of a document depend on the
// documents before it.
class ShotSampler {
 public:
  // DataError: fewer documents than shots.
  ShotSampler(const Task& task, std::int64_t shots, std::uint64_t seed);
  std::vector<const Json*> next(const Json& document);

 private:
  const Task& task_;
  const std::size_t shots_;
  const bool avoid_;  // the document itself, which is in the pool
  PythonRandom random_;
};

class Prompter {
 public:
  Prompter(const Task& task, const PromptOptions& options);
  // One text, or for a task whose contexts differ one per choice. In order, as ShotSampler.
  std::vector<std::string> contexts(const Json& document);

 private:
  const Task& task_;
  const PromptOptions options_;
  ShotSampler sampler_;
};

}  // namespace stoa::eval
