#include "eval/requests/prompt.h"

#include "base/error.h"

namespace stoa::eval {
namespace {

struct Message {
  std::string role, content;
  std::string delimiter;  // behind it in plain text
};

// Whether two texts touch without white space between them.
bool joint_is_bare(std::string_view before, std::string_view after) {
  return !ends_with_space(before) && !begins_with_space(after);
}

std::string joined(const std::string& before, const std::string& after, std::string_view delimiter) {
  if (before.empty() || after.empty()) return before + after;
  return joint_is_bare(before, after) ? before + std::string(delimiter) + after : before + after;
}

// A question, and the answer or the beginning of one. `answer` null: none.
void add_turn(std::vector<Message>& to, const std::string& question, const Json& choices, const Json& answer,
              const std::string& prefix, const std::string& target_delimiter,
              const std::string& shot_delimiter, const std::string& where) {
  const bool answered = !answer.is_null() && answer != "";
  const bool bare = answered && prefix.empty();
  const bool before_prefix = !prefix.empty() && !question.empty() && joint_is_bare(question, prefix);
  to.push_back({"user", question, bare || before_prefix ? target_delimiter : ""});
  if (answered) {
    Json text = answer;
    if (answer.is_number_integer() && choices.is_array()) {
      const auto n = static_cast<std::int64_t>(choices.size());
      const auto i = answer.get<std::int64_t>();
      require<DataError>(i >= -n && i < n, "{}: the answer of a shot is choice {} of {}", where, i, n);
      text = choices[static_cast<std::size_t>(i < 0 ? i + n : i)];
    } else if (answer.is_array()) {
      require<DataError>(!answer.empty(), "{}: a shot has no answer", where);
      text = answer[0];
    }
    require<DataError>(text.is_string(), "{}: the answer of a shot is not a text: {}", where, dumped(text));
    to.push_back({"assistant", joined(prefix, text, " "), shot_delimiter});
  } else if (!prefix.empty()) {
    to.push_back({"assistant", prefix, ""});
  }
}

// All turns but the system's and an open answer as one message.
std::vector<Message> as_one_turn(std::vector<Message> messages) {
  std::vector<Message> out;
  std::size_t begin = 0, end = messages.size();
  if (messages.front().role == "system") out.push_back(messages[begin++]);
  const bool open = messages.back().role == "assistant";
  if (open) --end;
  std::string text;
  for (std::size_t i = begin; i < end; ++i)
    text += messages[i].content + (i + 1 < end ? messages[i].delimiter : "");
  out.push_back({"user", text, ""});
  if (open) out.push_back(messages.back());
  return out;
}

std::string text_of_messages(const std::vector<Message>& messages, const PromptOptions& options) {
  if (!options.chat) {
    std::string out;
    for (const Message& m : messages) out += m.content + m.delimiter;
    return out;
  }
  Json turns = Json::array();
  for (const Message& m : options.multiturn ? messages : as_one_turn(messages))
    turns.push_back({{"role", m.role}, {"content", m.content}});
  return options.chat(turns, messages.back().role == "assistant");
}

}  // namespace

ShotSampler::ShotSampler(const Task& task, std::int64_t shots, std::uint64_t seed)
    : task_(task),
      shots_(static_cast<std::size_t>(shots)),
      avoid_(task.config().shots.split == task.config().test_split),
      random_(seed) {
  const std::size_t needed = shots_ + (avoid_ && !task.config().shots.first_n ? 1 : 0);
  require<DataError>(shots_ == 0 || needed <= task.pool().size(),
                     "the task '{}' has {} documents to take {} shots from{}", task.config().name,
                     task.pool().size(), shots,
                     needed > shots_ ? " (one more is drawn, in case it is the question itself)" : "");
}

std::vector<const Json*> ShotSampler::next(const Json& document) {
  std::vector<const Json*> out;
  if (shots_ == 0) return out;
  const auto& pool = task_.pool();
  const auto too_few = [&] {
    require<DataError>(out.size() == shots_,
                       "the task '{}' has too few documents that differ from the question for {} shots",
                       task_.config().name, shots_);
  };
  if (task_.config().shots.first_n) {
    for (const Json& doc : pool)
      if (out.size() < shots_ && !(avoid_ && doc == document)) out.push_back(&doc);
    too_few();
    return out;
  }
  for (const std::size_t i : random_.sample(pool.size(), shots_ + (avoid_ ? 1 : 0)))
    if (out.size() < shots_ && !(avoid_ && pool[i] == document)) out.push_back(&pool[i]);
  if (out.size() < shots_) {  // copies of the question were drawn
    std::vector<const Json*> others;
    for (const Json& doc : pool)
      if (doc != document) others.push_back(&doc);
    out.clear();
    if (others.size() >= shots_)
      for (const std::size_t i : random_.sample(others.size(), shots_)) out.push_back(others[i]);
    too_few();
  }
  return out;
}

Prompter::Prompter(const Task& task, const PromptOptions& options)
    : task_(task), options_(options), sampler_(task, options.shots, options.seed) {}

std::vector<std::string> Prompter::contexts(const Json& document) {
  const TaskConfig& config = task_.config();
  const bool numbers = task_.has_choices();
  std::vector<Message> messages;
  const std::string system = joined(options_.system, task_.description(document), config.fewshot_delimiter);
  if (!system.empty()) messages.push_back({"system", system, ""});
  const auto prefix_of = [](const DocField& field, const Json& doc) {
    return field.given() ? field.rendered(doc) : std::string();
  };
  for (const Json* shot : sampler_.next(document)) {
    const auto& f = task_.shot_fields();
    Json question = f.text.text(*shot, numbers);
    Json choices = config.shots.own_choice ? f.choice.choices(*shot) : Json();
    const Json answer = f.target.target(*shot, numbers);
    if (task_.contexts_differ()) {
      const auto i = question.get<std::size_t>();
      require<DataError>(i < choices.size(), "{}: a shot names choice {} of {}", config.source, i,
                         choices.size());
      question = choices[i];
      choices = nullptr;
    }
    require<DataError>(question.is_string(), "{}: the text of a shot is {}, expected a text", config.source,
                       dumped(question));
    add_turn(messages, question, choices, answer, prefix_of(f.prefix, *shot), config.shots.target_delimiter,
             config.shots.fewshot_delimiter, config.source);
  }
  const std::string prefix = prefix_of(task_.fields().prefix, document);
  std::vector<std::string> questions;
  if (task_.contexts_differ()) {
    for (const Json& choice : task_.fields().choice.choices(document)) questions.push_back(choice);
  } else {
    const Json text = task_.fields().text.given() ? task_.fields().text.text(document, numbers) : Json("");
    require<DataError>(text.is_string(), "{}: doc_to_text gives {}, expected a text", config.source,
                       dumped(text));
    questions.push_back(text);
  }
  std::vector<std::string> out;
  for (const std::string& question : questions) {
    std::vector<Message> all = messages;
    add_turn(all, question, nullptr, nullptr, prefix, task_.contexts_differ() ? "" : config.target_delimiter,
             "", config.source);
    out.push_back(text_of_messages(all, options_));
  }
  return out;
}

}  // namespace stoa::eval
