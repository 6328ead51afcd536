#include "eval/requests/request.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::eval {
namespace {

void add_requests(const Task& task, const PromptOptions& options, std::size_t number, const Json& doc,
                  const std::vector<std::string>& contexts, std::vector<Request>& out) {
  const TaskConfig& config = task.config();
  std::size_t index = 0;
  const auto add = [&](Request::Kind kind, const std::string& context, const std::string& continuation) {
    out.push_back({kind, number, index++, context, continuation});
  };
  const auto target_text = [&] {
    const Json target = task.fields().target.target(doc, task.has_choices());
    require<DataError>(target.is_string(), "doc_to_target gives {}, expected a text", dumped(target));
    return target.get<std::string>();
  };
  switch (config.output) {
    case OutputType::kLoglikelihood:
      return add(Request::Kind::kLoglikelihood, contexts[0], target_text());
    case OutputType::kLoglikelihoodRolling:
      return add(Request::Kind::kRolling, "", target_text());
    case OutputType::kGenerateUntil:
      add(Request::Kind::kGenerate, contexts[0], "");
      if (!config.also_scored.empty()) add(Request::Kind::kLoglikelihood, contexts[0], config.also_scored);
      return;
    case OutputType::kMultipleChoice:
      break;
  }
  std::string delimiter = config.target_delimiter;
  if (options.chat) {
    const Json& prefix = config.fields.prefix;
    if (!prefix.is_string() || prefix == "" || ends_with_space(prefix.get_ref<const std::string&>()))
      delimiter.clear();
  }
  if (task.contexts_differ()) {
    const std::string continuation = delimiter + str_of(task.fields().target.target(doc, true));
    for (const std::string& context : contexts) add(Request::Kind::kLoglikelihood, context, continuation);
  } else {
    for (const Json& choice : task.fields().choice.choices(doc))
      add(Request::Kind::kLoglikelihood, contexts[0], delimiter + choice.get<std::string>());
  }
  if (config.metric("acc_mutual_info"))
    for (const Json& choice : task.fields().choice.choices(doc))
      add(Request::Kind::kLoglikelihood, "", delimiter + choice.get<std::string>());
}

}  // namespace

std::vector<Request> make_requests(const Task& task, const PromptOptions& options, std::size_t limit) {
  std::vector<Request> out;
  Prompter prompter(task, options);
  for (std::size_t i = 0; i < std::min(limit, task.documents().size()); ++i) {
    const Json& doc = task.documents()[i];
    try {
      add_requests(task, options, i, doc, prompter.contexts(doc), out);
    } catch (const DataError& error) {
      fail<DataError>("task '{}', document {}: {}", task.config().name, i, error.what());
    }
  }
  return out;
}

}  // namespace stoa::eval
