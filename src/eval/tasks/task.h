// A task with its documents: what lm-evaluation-harness asks of a document, rendered (lm_eval/api/task.py).
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "eval/ruler/making.h"
#include "eval/tasks/functions.h"
#include "eval/tasks/task_config.h"

namespace stoa::chat {
struct Node;
}

namespace stoa::eval {

// Text, number, list, template or function of a document.
class DocField {
 public:
  DocField() = default;
  // ConfigError: a template that cannot be read, a function that is not built in. `features`: names of
  // fields.
  DocField(const Json& written, const std::vector<std::string>& features, const std::string& source,
           const std::string& key);

  bool given() const { return kind_ != Kind::kNone; }
  // A number, text or list. DataError: the template fails on this document. `numbers`: a rendered text of
  // digits is a number (tasks with choices).
  Json text(const Json& doc, bool numbers) const;
  // Also a text that looks like a list is one.
  Json target(const Json& doc, bool numbers) const;
  // A list of texts.
  Json choices(const Json& doc) const;
  std::string rendered(const Json& doc) const;

 private:
  enum class Kind { kNone, kNumber, kList, kField, kTemplate, kFunction };
  Json raw(const Json& doc) const;

  Kind kind_ = Kind::kNone;
  Json value_;
  std::shared_ptr<const chat::Node> template_;
  DocFunction function_ = nullptr;
  std::string where_;  // for messages
};

// Text of a template with a document's fields as its variables, as the harness renders it: Jinja's defaults
// but for undefined names, which are errors, and a newline at the end, which stays.
std::string render_document(const chat::Node& tree, const Json& doc);
std::shared_ptr<const chat::Node> parse_document_template(std::string_view text);

class Task {
 public:
  // `documents` and `pool` are processed with the task's functions, which may shuffle by `python_seed`. Pool:
  // where shots are drawn; may be empty.
  Task(TaskConfig config, std::vector<Json> documents, std::vector<Json> pool, std::uint64_t python_seed);

  // ConfigError: a template or function of the task cannot be read. Needs no documents.
  static void check(const TaskConfig& config);

  const TaskConfig& config() const { return config_; }
  const std::vector<Json>& documents() const { return documents_; }
  const std::vector<Json>& pool() const { return pool_; }
  // Each choice makes a context of its own, and all share a continuation (WinoGrande).
  bool contexts_differ() const { return contexts_differ_; }
  bool several_targets() const { return several_targets_; }

  struct Fields {
    DocField text, target, choice, prefix;
  };
  const Fields& fields() const { return fields_; }
  const Fields& shot_fields() const { return shot_fields_; }
  bool has_choices() const { return fields_.choice.given(); }
  std::string description(const Json& doc) const;
  ResultFunction results() const { return results_; }

 private:
  const TaskConfig config_;
  std::vector<Json> documents_, pool_;
  Fields fields_, shot_fields_;
  DocField description_;
  ResultFunction results_ = nullptr;
  bool contexts_differ_ = false, several_targets_ = false;
};

// Reads a task's documents; shots are looked for where `shots` > 0. DataError: not found (what, where).
// `making`: its folders of data, and what documents that are made depend on.
Task load_task(const TaskConfig& config, std::int64_t shots, const MakingOptions& making);

}  // namespace stoa::eval
