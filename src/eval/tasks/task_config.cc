#include "eval/tasks/task_config.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/nearest.h"
#include "eval/metrics/metric_table.h"
#include "eval/tasks/functions.h"

namespace stoa::eval {
namespace {

const std::vector<std::string> kTaskKeys{"task",
                                         "task_alias",
                                         "tag",
                                         "custom_dataset",
                                         "dataset_path",
                                         "dataset_name",
                                         "dataset_kwargs",
                                         "training_split",
                                         "validation_split",
                                         "test_split",
                                         "fewshot_split",
                                         "process_docs",
                                         "doc_to_text",
                                         "doc_to_target",
                                         "doc_to_image",
                                         "doc_to_audio",
                                         "unsafe_code",
                                         "doc_to_choice",
                                         "process_results",
                                         "use_prompt",
                                         "description",
                                         "target_delimiter",
                                         "fewshot_delimiter",
                                         "fewshot_config",
                                         "num_fewshot",
                                         "metric_list",
                                         "output_type",
                                         "generation_kwargs",
                                         "repeats",
                                         "filter_list",
                                         "should_decontaminate",
                                         "doc_to_decontamination_query",
                                         "gen_prefix",
                                         "metadata"};
const std::vector<std::string> kShotKeys{
    "sampler",       "split",         "process_docs", "fewshot_indices",   "samples",         "doc_to_text",
    "doc_to_choice", "doc_to_target", "gen_prefix",   "fewshot_delimiter", "target_delimiter"};
// Keys of the index, not of a task.
constexpr std::array<std::string_view, 2> kIndexKeys{"group", "task_list"};

// Functions as their names.
Json written(const Json& value) {
  if (is_function(value)) return value["!function"];
  if (!value.is_structured()) return value;
  Json out = value;
  for (auto& item : out) item = written(item);
  return out;
}

class ConfigReader {
 public:
  // `by_class`: the task is a class of Python that is built in.
  ConfigReader(const Json& yaml, const std::string& source, bool by_class)
      : yaml_(yaml), source_(source), by_class_(by_class) {}

  TaskConfig run() {
    refuse_unsupported();
    TaskConfig c;
    c.source = source_;
    c.name = text("task").value_or("");
    require<ConfigError>(!c.name.empty(), "{}: the task has no name", source_);
    c.alias = text("task_alias").value_or(c.name);
    if (const Json& tag = at("tag"); tag.is_string())
      c.tags.push_back(tag);
    else
      for (const Json& t : tag) c.tags.push_back(t.get<std::string>());
    c.dataset_path = text("dataset_path").value_or("");
    c.dataset_name = text("dataset_name").value_or("");
    if (const Json& kwargs = at("dataset_kwargs"); !kwargs.is_null()) c.dataset_kwargs = kwargs;
    if (const Json& maker = at("custom_dataset"); !maker.is_null()) {
      if (!is_function(maker)) wrong("custom_dataset", "expected a function");
      c.maker = maker_of_documents(maker, source_);
    }
    c.training_split = text("training_split");
    c.validation_split = text("validation_split");
    c.test_split = text("test_split");
    c.fields = {at("doc_to_text"), at("doc_to_target"), at("doc_to_choice"), at("gen_prefix")};
    require<ConfigError>(!c.fields.target.is_null(), "{}: the task has no doc_to_target", source_);
    c.process_docs = at("process_docs");
    c.process_results = at("process_results");
    c.description = text("description").value_or("");
    c.target_delimiter = text("target_delimiter").value_or(" ");
    c.fewshot_delimiter = text("fewshot_delimiter").value_or("\n\n");
    read_output(c);
    read_shots(c);
    if (const Json& n = at("num_fewshot"); !n.is_null()) c.num_fewshot = whole(n, "num_fewshot", 0);
    if (const Json& n = at("repeats"); !n.is_null()) c.repeats = whole(n, "repeats", 1);
    c.runs_code = at("unsafe_code") == true;
    read_metrics(c);
    read_filters(c);
    if (const Json& metadata = at("metadata"); metadata.is_object() && metadata.contains("version"))
      c.version = metadata["version"];
    if (by_class_) c.also_scored = text("also_scored").value_or("");
    return c;
  }

 private:
  [[noreturn]] void wrong(std::string_view key, std::string_view what) const {
    fail<ConfigError>("{}: {}: {}", source_, key, what);
  }
  const Json& at(std::string_view key) const {
    static const Json none;
    const auto it = yaml_.find(key);
    return it == yaml_.end() ? none : *it;
  }
  std::optional<std::string> text(std::string_view key) const {
    const Json& value = at(key);
    if (value.is_null()) return std::nullopt;
    if (is_function(value)) wrong(key, "a function of Python, expected a text");
    if (!value.is_string()) wrong(key, fmt::format("expected a text, got {}", dumped(value)));
    return value.get<std::string>();
  }
  std::int64_t whole(const Json& value, std::string_view key, std::int64_t least) const {
    if (!value.is_number_integer() || value.get<std::int64_t>() < least)
      wrong(key, fmt::format("expected a whole number of at least {}, got {}", least, dumped(value)));
    return value.get<std::int64_t>();
  }

  void refuse_unsupported() const {
    for (const auto& [key, value] : yaml_.items()) {
      if (std::find(kIndexKeys.begin(), kIndexKeys.end(), key) != kIndexKeys.end()) continue;
      if (by_class_ && key == "also_scored") continue;
      require<ConfigError>(std::find(kTaskKeys.begin(), kTaskKeys.end(), key) != kTaskKeys.end(),
                           "{}: unknown key '{}'{}", source_, key, did_you_mean(key, kTaskKeys));
    }
    for (const auto* key : {"doc_to_image", "doc_to_audio"})
      if (!at(key).is_null()) wrong(key, "images and sound are not supported");
    if (!at("use_prompt").is_null())
      wrong("use_prompt", "prompts of promptsource are not supported; write doc_to_text");
  }

  void read_output(TaskConfig& c) const {
    const std::string type = text("output_type").value_or("generate_until");
    static const std::map<std::string, OutputType> kTypes{
        {"loglikelihood", OutputType::kLoglikelihood},
        {"loglikelihood_rolling", OutputType::kLoglikelihoodRolling},
        {"multiple_choice", OutputType::kMultipleChoice},
        {"generate_until", OutputType::kGenerateUntil}};
    const auto it = kTypes.find(type);
    if (it == kTypes.end())
      wrong("output_type",
            fmt::format("'{}' is none of loglikelihood, loglikelihood_rolling, multiple_choice, "
                        "generate_until",
                        type));
    c.output = it->second;
    if (c.output == OutputType::kMultipleChoice && c.fields.choice.is_null())
      wrong("doc_to_choice", "multiple_choice needs it");
    if (const Json& generation = at("generation_kwargs"); !generation.is_null()) {
      if (!generation.is_object()) wrong("generation_kwargs", "expected a mapping");
      c.generation = generation;
      if (!c.generation.contains("until")) c.generation["until"] = Json::array({c.fewshot_delimiter});
    } else if (c.output == OutputType::kGenerateUntil) {
      c.generation = {{"temperature", 0.0},
                      {"do_sample", false},
                      {"max_gen_toks", 256},
                      {"until", Json::array({c.fewshot_delimiter})}};
    }
  }

  void read_shots(TaskConfig& c) const {
    auto& s = c.shots;
    s.split = text("fewshot_split");
    s.process_docs = c.process_docs;
    s.fields = c.fields;
    s.own_choice = !c.fields.choice.is_null();
    s.target_delimiter = c.target_delimiter;
    s.fewshot_delimiter = c.fewshot_delimiter;
    const Json& given = at("fewshot_config");
    if (given.is_null()) return;
    if (!given.is_object()) wrong("fewshot_config", "expected a mapping");
    for (const auto& [key, value] : given.items()) {
      if (std::find(kShotKeys.begin(), kShotKeys.end(), key) == kShotKeys.end())
        wrong("fewshot_config", fmt::format("unknown key '{}'{}", key, did_you_mean(key, kShotKeys)));
      if (value.is_null()) continue;
      if (key == "sampler") {
        if (value != "default" && value != "first_n")
          wrong("fewshot_config.sampler",
                is_function(value) ? "a class of Python"
                                   : fmt::format("{} is neither default nor first_n", dumped(value)));
        s.first_n = value == "first_n";
      } else if (key == "split") {
        s.split = value.get<std::string>();
      } else if (key == "samples") {
        s.samples = is_function(value) ? made_samples(value, source_) : value;
        if (!s.samples.is_array() || s.samples.empty())
          wrong("fewshot_config.samples", "expected a list of documents");
      } else if (key == "process_docs") {
        s.process_docs = value;
      } else if (key == "fewshot_indices") {
        wrong("fewshot_config.fewshot_indices", "is not supported (the harness ignores it)");
      } else if (key == "fewshot_delimiter" || key == "target_delimiter") {
        if (!value.is_string()) wrong("fewshot_config." + key, "expected a text");
        (key == "fewshot_delimiter" ? s.fewshot_delimiter : s.target_delimiter) = value;
      } else {
        Json& to = key == "doc_to_text"     ? s.fields.text
                   : key == "doc_to_target" ? s.fields.target
                   : key == "doc_to_choice" ? s.fields.choice
                                            : s.fields.prefix;
        to = value;
        if (key == "doc_to_choice") s.own_choice = true;
      }
    }
  }

  void read_metrics(TaskConfig& c) const {
    const Json& list = at("metric_list");
    if (list.is_null()) {
      for (const auto* name : default_metrics(c.output)) c.metrics.push_back(default_spec(name));
      return;
    }
    if (!list.is_array()) wrong("metric_list", "expected a list");
    for (const Json& entry : list) {
      if (!entry.is_object() || !entry.contains("metric")) wrong("metric_list", "an entry without 'metric'");
      const Json& metric = entry["metric"];
      if (!metric.is_string() && !is_function(metric))
        wrong("metric_list", fmt::format("the metric {} is no name", dumped(metric)));
      MetricSpec spec;
      if (is_function(metric)) {
        spec.function = metric_function(metric, source_);
        const std::string name = metric["!function"];
        spec.name = name.substr(name.rfind('.') + 1);
      } else {
        spec.name = metric;
      }
      const MetricFacts* known = spec.function ? nullptr : find_metric(spec.name);
      // What a function returns has names of its own.
      const bool named_only = spec.function || !c.process_results.is_null();
      // Where there are choices, the harness computes what it knows by name itself, whatever the entry says.
      const bool elsewhere = entry.value("hf_evaluate", false) && c.output != OutputType::kMultipleChoice;
      if (!named_only && (!known || elsewhere))
        wrong("metric_list", fmt::format("the metric '{}' is not known here{}", spec.name,
                                         did_you_mean(spec.name, metric_names())));
      if (!named_only && !known->applies_to(c.output))
        wrong("metric_list",
              fmt::format("the metric '{}' does not apply to {}", spec.name, output_name(c.output)));
      read_aggregation(entry, known, spec);
      spec.higher_is_better = entry.contains("higher_is_better") && entry["higher_is_better"].is_boolean()
                                  ? entry["higher_is_better"].get<bool>()
                                  : !known || known->higher_is_better;
      for (const auto& [key, value] : entry.items())
        if (key != "metric" && key != "aggregation" && key != "higher_is_better" && key != "hf_evaluate")
          spec.arguments[key] = value;
      if (!named_only && c.output == OutputType::kGenerateUntil) check_metric_arguments(spec, source_);
      c.metrics.push_back(std::move(spec));
    }
  }

  void read_aggregation(const Json& entry, const MetricFacts* known, MetricSpec& spec) const {
    const Json& given = entry.contains("aggregation") ? entry["aggregation"] : Json();
    if (is_function(given)) {
      spec.aggregation = aggregation_by_function(given, source_);
      return;
    }
    if (!given.is_null() && !given.is_string())
      wrong("metric_list", fmt::format("the aggregation of '{}' is {}", spec.name, dumped(given)));
    if (given.is_null() && !known) wrong("metric_list", fmt::format("'{}' names no aggregation", spec.name));
    spec.aggregation = given.is_null() ? known->aggregation : given.get<std::string>();
    if (!is_aggregation(spec.aggregation))
      wrong("metric_list", fmt::format("unknown aggregation '{}'{}", spec.aggregation,
                                       did_you_mean(spec.aggregation, aggregation_names())));
  }

  void read_filters(TaskConfig& c) const {
    const Json& list = at("filter_list");
    if (list.is_null()) {
      c.filters = {{"none", {{"take_first", Json::object()}}}};
      return;
    }
    if (!list.is_array()) wrong("filter_list", "expected a list");
    for (const Json& entry : list) {
      FilterSpec filter;
      if (!entry.contains("name") || !entry.contains("filter"))
        wrong("filter_list", "an entry without 'name' or 'filter'");
      filter.name = entry["name"];
      for (const Json& step : entry["filter"]) {
        if (!step.contains("function") || !(step["function"].is_string() || is_function(step["function"])))
          wrong("filter_list", fmt::format("'{}' has a step without a function's name", filter.name));
        const Json& function = step["function"];
        FilterStep out{
            is_function(function) ? filter_by_class(function, source_) : function.get<std::string>(), step};
        out.arguments.erase("function");
        if (out.function == "custom") {
          const auto made = step.find("filter_fn");
          if (made == step.end() || !is_function(*made))
            wrong("filter_list",
                  fmt::format("the step 'custom' of '{}' needs filter_fn, a function", filter.name));
          out.custom = filter_function(*made, source_);
          out.arguments.erase("filter_fn");
        }
        filter.steps.push_back(std::move(out));
      }
      c.filters.push_back(std::move(filter));
    }
  }

  const Json& yaml_;
  const std::string& source_;
  const bool by_class_;
};

}  // namespace

const char* output_name(OutputType type) {
  switch (type) {
    case OutputType::kLoglikelihood:
      return "loglikelihood";
    case OutputType::kLoglikelihoodRolling:
      return "loglikelihood_rolling";
    case OutputType::kMultipleChoice:
      return "multiple_choice";
    case OutputType::kGenerateUntil:
      return "generate_until";
  }
  return "?";
}

const MetricSpec* TaskConfig::metric(std::string_view wanted) const {
  const auto it =
      std::find_if(metrics.begin(), metrics.end(), [&](const MetricSpec& m) { return m.name == wanted; });
  return it == metrics.end() ? nullptr : &*it;
}

const std::string& TaskConfig::evaluated_split() const {
  require<ConfigError>(test_split || validation_split,
                       "{}: the task names neither test_split nor validation_split", source);
  return test_split ? *test_split : *validation_split;
}

TaskConfig make_task_config(const Json& yaml, const std::string& source) {
  const auto it = yaml.find("class");
  const bool by_class = it != yaml.end();
  Json whole = yaml;
  if (by_class) {
    require<ConfigError>(is_function(*it), "{}: class: expected a function, got {}", source, dumped(*it));
    whole = task_by_class(*it, source);
    for (const auto& [key, value] : yaml.items())
      if (key != "class") whole[key] = value;
  }
  TaskConfig out = ConfigReader(whole, source, by_class).run();
  out.as_written = written(yaml);
  return out;
}

}  // namespace stoa::eval
