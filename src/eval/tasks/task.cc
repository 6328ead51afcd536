#include "eval/tasks/task.h"

#include <algorithm>

#include "base/error.h"
#include "chat/interpreter.h"
#include "eval/data/documents.h"
#include "eval/data/find_data.h"
#include "eval/metrics/filters.h"
#include "eval/python/regex.h"

namespace stoa::eval {
namespace {

// The one filter that the harness adds to Jinja.
std::optional<chat::Value> regex_replace(std::string_view name, const chat::Value& subject,
                                         const chat::Arguments& a) {
  if (name != "regex_replace") return std::nullopt;
  a.allow(3, {"pattern", "repl", "count"}, name);
  const chat::Value* count = a.find(2, "count");
  return PythonRegex(chat::text_of(a.need(0, "pattern", name), name))
      .substitute(chat::text_of(subject, name), chat::text_of(a.need(1, "repl", name), name),
                  count && count->is_int() ? static_cast<std::size_t>(count->as_int()) : 0);
}

std::vector<std::string> fields_of(const std::vector<Json>& docs) {
  std::vector<std::string> out;
  if (!docs.empty())
    for (const auto& [key, value] : docs.front().items()) out.push_back(key);
  return out;
}

std::vector<Json> processed(std::vector<Json> docs, const Json& function, const std::string& source,
                            std::uint64_t python_seed) {
  if (function.is_null()) return docs;
  require<ConfigError>(is_function(function), "{}: process_docs: expected a function", source);
  if (const DocumentsFunction call = documents_function(function, source)) {
    try {
      call(docs, python_seed);
    } catch (const DataError& error) {
      fail<DataError>("{}: {}", source, error.what());
    }
    return docs;
  }
  const DocFunction call = doc_function(function, source);
  for (std::size_t i = 0; i < docs.size(); ++i) {
    try {
      docs[i] = call(docs[i]);
    } catch (const Error& error) {
      fail<DataError>("{}: document {}: {}", source, i, error.what());
    } catch (const Json::exception& error) {
      fail<DataError>("{}: document {}: {}", source, i, error.what());
    }
  }
  return docs;
}

}  // namespace

std::shared_ptr<const chat::Node> parse_document_template(std::string_view text) {
  return chat::parse_template(text,
                              {.trim_blocks = false, .lstrip_blocks = false, .keep_trailing_newline = true});
}

std::string render_document(const chat::Node& tree, const Json& doc) {
  chat::Entries variables;
  for (const auto& [key, value] : doc.items()) variables.emplace_back(key, chat::Value::from_json(value));
  chat::RenderLimits limits;
  limits.steps = 200'000'000;
  limits.strict_undefined = true;
  return chat::interpret(tree, std::move(variables), {}, limits, nullptr, regex_replace);
}

DocField::DocField(const Json& written, const std::vector<std::string>& features, const std::string& source,
                   const std::string& key)
    : value_(written), where_(source + ": " + key) {
  if (written.is_null()) return;
  if (is_function(written)) {
    kind_ = Kind::kFunction;
    function_ = doc_function(written, where_);
  } else if (written.is_number_integer()) {
    kind_ = Kind::kNumber;
  } else if (written.is_array()) {
    kind_ = Kind::kList;
  } else if (written.is_object()) {
    kind_ = Kind::kList;
    value_ = Json::array();
    for (const auto& [name, item] : written.items()) value_.push_back(item);
  } else if (written.is_string()) {
    const std::string text = written;
    if (std::find(features.begin(), features.end(), text) != features.end()) {
      kind_ = Kind::kField;
      return;
    }
    kind_ = Kind::kTemplate;
    try {
      template_ = parse_document_template(text);
    } catch (const DataError& error) {
      fail<ConfigError>("{}: {}", where_, error.what());
    }
  } else {
    fail<ConfigError>("{}: {} is neither a text, a number nor a list", where_, dumped(written));
  }
}

std::string DocField::rendered(const Json& doc) const {
  try {
    if (kind_ == Kind::kTemplate) return render_document(*template_, doc);
    return str_of(raw(doc));
  } catch (const chat::TemplateError& error) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : doc.items()) names.push_back(name);
    fail<DataError>("{}: {} (the document has {})", where_, error.what(), fmt::join(names, ", "));
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", where_, error.what());
  }
}

Json DocField::raw(const Json& doc) const {
  switch (kind_) {
    case Kind::kNone:
      return nullptr;
    case Kind::kNumber:
    case Kind::kList:
      return value_;
    case Kind::kField:
      return doc.value(value_.get<std::string>(), Json());
    case Kind::kFunction:
      try {
        return function_(doc);
      } catch (const Json::exception& error) {
        fail<DataError>("{}: {}", where_, error.what());
      } catch (const DataError& error) {
        fail<DataError>("{}: {}", where_, error.what());
      }
    case Kind::kTemplate:
      return rendered(doc);
  }
  return nullptr;
}

Json DocField::text(const Json& doc, bool numbers) const {
  Json out = raw(doc);
  if (kind_ == Kind::kTemplate && numbers && is_digits(out.get_ref<const std::string&>()))
    return literal(out.get<std::string>());
  if (numbers && out.is_boolean()) return out.get<bool>() ? 1 : 0;  // as in Python, where they are numbers
  return out;
}

Json DocField::target(const Json& doc, bool numbers) const {
  Json out = text(doc, numbers);
  if (kind_ != Kind::kTemplate || !out.is_string()) return out;
  const std::string& text = out.get_ref<const std::string&>();
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return out;
  try {
    return literal(text);
  } catch (const DataError&) {
    return out;
  }
}

Json DocField::choices(const Json& doc) const {
  Json out = raw(doc);
  try {
    if (kind_ == Kind::kTemplate) out = literal(out.get<std::string>());
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", where_, error.what());
  }
  require<DataError>(out.is_array() && !out.empty(), "{}: expected a list of choices, got {}", where_,
                     dumped(out));
  for (const Json& choice : out)
    require<DataError>(choice.is_string(), "{}: the choice {} is not a text", where_, dumped(choice));
  return out;
}

Task::Task(TaskConfig config, std::vector<Json> documents, std::vector<Json> pool, std::uint64_t python_seed)
    : config_(std::move(config)),
      documents_(processed(std::move(documents), config_.process_docs, config_.source, python_seed)),
      pool_(config_.shots.samples.is_null() || config_.shots.split
                ? processed(std::move(pool),
                            config_.shots.split ? config_.shots.process_docs : config_.process_docs,
                            config_.source, python_seed)
                : std::move(pool)) {
  require<DataError>(!documents_.empty(), "{}: the split '{}' has no documents", config_.source,
                     config_.evaluated_split());
  const auto features = fields_of(documents_);
  const auto made = [&](const DocFields& f) {
    return Fields{DocField(f.text, features, config_.source, "doc_to_text"),
                  DocField(f.target, features, config_.source, "doc_to_target"),
                  DocField(f.choice, features, config_.source, "doc_to_choice"),
                  DocField(f.prefix, features, config_.source, "gen_prefix")};
  };
  fields_ = made(config_.fields);
  shot_fields_ = made(config_.shots.fields);
  if (!config_.description.empty())
    description_ = DocField(Json(config_.description), features, config_.source, "description");
  if (!config_.process_results.is_null()) results_ = result_function(config_.process_results, config_.source);
  const Json& first = documents_.front();
  contexts_differ_ =
      has_choices() && fields_.text.given() && fields_.text.text(first, true).is_number_integer();
  several_targets_ = fields_.target.target(first, has_choices()).is_array();
}

void Task::check(const TaskConfig& config) {
  for (const DocFields* f : {&config.fields, &config.shots.fields}) {
    DocField(f->text, {}, config.source, "doc_to_text");
    DocField(f->target, {}, config.source, "doc_to_target");
    DocField(f->choice, {}, config.source, "doc_to_choice");
    DocField(f->prefix, {}, config.source, "gen_prefix");
  }
  for (const Json* function : {&config.process_docs, &config.shots.process_docs})
    if (!function->is_null() && !documents_function(*function, config.source))
      doc_function(*function, config.source);
  if (!config.process_results.is_null()) result_function(config.process_results, config.source);
  for (const FilterSpec& filter : config.filters) FilterChain chain(filter, config.source);
}

std::string Task::description(const Json& doc) const {
  return description_.given() ? description_.rendered(doc) : std::string();
}

Task load_task(const TaskConfig& config, std::int64_t shots, const MakingOptions& making) {
  std::vector<Json> made;
  if (!config.maker.empty()) {
    Making own(making);
    made = ruler_maker(config.maker)(own);
  }
  const auto read = [&](const std::string& split) {
    if (!config.maker.empty()) return made;
    const FoundSplit found = find_split(config, split, making.data);
    require<DataError>(
        !found.files.empty(),
        "the task '{}' finds no split '{}' of the data set '{}': expected {} (folders are given by "
        "--data; `stoa eval tasks` tells what is found)",
        config.name, split, config.dataset_path, found.looked_for);
    return read_documents(found.files, found.form);
  };
  std::vector<Json> pool;
  if (shots > 0) {
    if (config.shots.split)
      pool = read(*config.shots.split);
    else if (!config.shots.samples.is_null())
      pool.assign(config.shots.samples.begin(), config.shots.samples.end());
    else
      pool = read(config.training_split     ? *config.training_split
                  : config.validation_split ? *config.validation_split
                                            : config.evaluated_split());
  }
  return Task(config, read(config.evaluated_split()), std::move(pool), making.python_seed);
}

}  // namespace stoa::eval
