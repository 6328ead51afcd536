#include "eval/samples/sample_files.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "base/error.h"

namespace stoa::eval {
namespace {

constexpr std::string_view kPrefix = "samples_", kEnding = ".jsonl";
constexpr std::size_t kShortestTime = 19;  // 2026-11-25T17-22-01, with or without a fraction

// TASK and TIME of samples_TASK_TIME.jsonl.
std::optional<std::pair<std::string, std::string>> parts_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kEnding)) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kEnding.size());
  const std::size_t at = name.rfind('_');
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const std::string_view time = name.substr(at + 1);
  if (time.size() < kShortestTime || time[10] != 'T') return std::nullopt;
  return std::pair{std::string(name.substr(0, at)), std::string(time)};
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dumped(value);
}

// The number of a log-likelihood, which the harness writes as text.
double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  double out = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  return end.ec == std::errc() ? out : -INFINITY;
}

// The most likely of several continuations; otherwise what was answered.
std::string answer_of(const Json& sample) {
  const Json& answers = sample.at("filtered_resps");
  const Json& arguments = sample.at("arguments");
  if (!answers.is_array() || answers.empty()) return text_of(answers);
  if (!answers[0].is_array() || answers[0].size() != 2) return text_of(answers[0]);
  std::size_t best = 0;
  for (std::size_t i = 1; i < answers.size(); ++i)
    if (number_of(answers[i][0]) > number_of(answers[best][0])) best = i;
  if (answers.size() == 1)
    return fmt::format("log-likelihood {}{}", text_of(answers[0][0]),
                       text_of(answers[0][1]) == "True" ? ", the model's own choice" : "");
  const auto request = arguments.find(fmt::format("gen_args_{}", best));
  return request != arguments.end() && request->contains("arg_1") ? text_of(request->at("arg_1"))
                                                                  : fmt::format("choice {}", best);
}

SampledDocument document_of(const Json& sample) {
  SampledDocument out;
  out.id = sample.at("doc_id").get<std::int64_t>();
  out.hash = sample.value("doc_hash", std::string());
  for (const Json& name : sample.at("metrics")) {
    const Json& value = sample.at(name.get<std::string>());
    if (value.is_boolean())
      out.metrics[name] = value.get<bool>() ? 1 : 0;
    else if (value.is_number())
      out.metrics[name] = value.get<double>();
  }
  const Json& arguments = sample.at("arguments");
  if (!arguments.empty()) out.prompt = text_of(arguments.begin().value().at("arg_0"));
  out.target = text_of(sample.at("target"));
  out.answer = answer_of(sample);
  const Json& answers = sample.at("filtered_resps");
  if (answers.is_array() && answers.size() > 1)
    for (const Json& answer : answers)
      if (answer.is_array() && answer.size() == 2) out.choices.push_back(number_of(answer[0]));
  return out;
}

SampledTask read_task(const fs::path& path) {
  SampledTask out;
  const std::string text = read_text(path);
  std::string_view rest = text;
  for (int line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (one.empty()) continue;
    try {
      const Json sample = Json::parse(one);
      SampledDocument document = document_of(sample);
      out[sample.value("filter", std::string("none"))][document.id] = std::move(document);
    } catch (const Json::exception& error) {
      fail<DataError>("{}:{}: not a sample of an evaluation: {}", path.string(), line, error.what());
    }
  }
  return out;
}

void read_groups(const fs::path& path, SampledRun& run) {
  const Json results = Json::parse(read_text(path), nullptr, false);
  if (!results.is_object() || !results.contains("groups") || !results.contains("group_subtasks")) return;
  const Json& children = results["group_subtasks"];
  const std::function<void(const std::string&, std::vector<std::string>&, int)> collect =
      [&](const std::string& name, std::vector<std::string>& tasks, int depth) {
        const auto it = children.find(name);
        if (it == children.end() || it->empty() || !it->is_array()) {
          if (std::find(tasks.begin(), tasks.end(), name) == tasks.end()) tasks.push_back(name);
          return;
        }
        for (const Json& child : *it)
          if (child.is_string() && depth < 16) collect(child, tasks, depth + 1);
      };
  for (const auto& [name, unused] : results["groups"].items()) collect(name, run.groups[name], 0);
}

}  // namespace

SampledRun read_samples(const fs::path& folder) {
  require<IoError>(fs::is_directory(folder), "'{}' is no folder of results (stoa eval run --output_path)",
                   folder.string());
  std::map<std::string, std::pair<std::string, fs::path>> newest;  // of each task: time, file
  std::pair<std::string, fs::path> results;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("results_") && name.ends_with(".json"))
      results = std::max(results, std::pair{name, entry.path()});
    if (const auto parts = parts_of_name(name)) {
      auto& of_task = newest[parts->first];
      of_task = std::max(of_task, std::pair{parts->second, entry.path()});
    }
  }
  require<IoError>(!newest.empty(), "'{}' holds no samples_*.jsonl: evaluate with --log_samples",
                   folder.string());
  SampledRun out;
  for (const auto& [task, file] : newest) out.tasks[task] = read_task(file.second);
  if (!results.second.empty()) read_groups(results.second, out);
  return out;
}

}  // namespace stoa::eval
