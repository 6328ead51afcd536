#include "eval/results/result_files.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <functional>
#include <map>

#include "base/error.h"
#include "eval/python/regex.h"
#include "eval/results/sha256.h"

namespace stoa::eval {
namespace {

Json number_or_na(const std::optional<double>& value) { return value ? Json(*value) : Json("N/A"); }

Json metrics_json(const std::string& name, const std::string& alias, std::int64_t documents,
                  const std::vector<MetricResult>& metrics) {
  Json out{{"name", name}, {"alias", alias}};
  if (documents > 0) out["sample_len"] = documents;
  for (const MetricResult& m : metrics) {
    out[m.name + "," + m.filter] = m.result.value;
    out[m.name + "_stderr," + m.filter] = number_or_na(m.result.standard_error);
  }
  return out;
}

// "2026-11-25T13-05-07.123456"
std::string time_id(double unix_time) {
  const auto seconds = static_cast<std::time_t>(unix_time);
  std::tm t{};
  ::localtime_r(&seconds, &t);
  return fmt::format("{:04}-{:02}-{:02}T{:02}-{:02}-{:02}.{:06}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                     t.tm_hour, t.tm_min, t.tm_sec,
                     static_cast<int>((unix_time - static_cast<double>(seconds)) * 1e6));
}

struct TableRow {
  std::array<std::string, 9> cells;
};

void add_rows(std::vector<TableRow>& rows, const std::string& shown, const Json& version,
              const std::string& shots, const std::vector<MetricResult>& metrics,
              const std::map<std::string, bool>& higher) {
  std::vector<const MetricResult*> sorted;
  for (const auto& m : metrics) sorted.push_back(&m);
  std::sort(sorted.begin(), sorted.end(), [](const MetricResult* a, const MetricResult* b) {
    return a->name + "," + a->filter < b->name + "," + b->filter;
  });
  for (const MetricResult* m : sorted) {
    const auto it = higher.find(m->name);
    rows.push_back({{shown, version.is_null() ? "N/A" : str_of(version), m->filter, shots, m->name,
                     it == higher.end() ? ""
                     : it->second       ? "↑"
                                        : "↓",
                     fmt::format("{:.4f}", m->result.value), "±",
                     m->result.standard_error ? fmt::format("{:.4f}", *m->result.standard_error) : "N/A"}});
  }
}

std::string table_of(const std::string& first, const std::vector<TableRow>& rows) {
  const std::array<std::string, 9> heads{first, "Version", "Filter", "n-shot", "Metric",
                                         "",    "Value",   "",       "Stderr"};
  constexpr std::array<bool, 9> kRight{false, true, false, true, false, false, true, false, true};
  std::array<std::size_t, 9> widths{};
  for (std::size_t c = 0; c < 9; ++c) {
    widths[c] = std::max<std::size_t>(3, heads[c].size());
    for (const TableRow& row : rows)
      widths[c] = std::max(widths[c], static_cast<std::size_t>(code_points(row.cells[c])));
  }
  const auto line = [&](const std::array<std::string, 9>& cells) {
    std::string out = "|";
    for (std::size_t c = 0; c < 9; ++c) {
      const std::string space(widths[c] - static_cast<std::size_t>(code_points(cells[c])), ' ');
      out += kRight[c] ? space + cells[c] : cells[c] + space;
      out += "|";
    }
    return out + "\n";
  };
  std::string out = line(heads) + "|";
  for (std::size_t c = 0; c < 9; ++c)
    out += kRight[c] ? std::string(widths[c] - 1, '-') + ":|" : std::string(widths[c], '-') + "|";
  out += "\n";
  for (const TableRow& row : rows) out += line(row.cells);
  return out;
}

std::map<std::string, bool> directions(const TaskConfig& config) {
  std::map<std::string, bool> out;
  for (const MetricSpec& m : config.metrics) out[m.name] = m.higher_is_better;
  return out;
}

const TaskResult* task_named(const Evaluation& evaluation, const std::string& name) {
  for (const TaskResult& t : evaluation.tasks)
    if (t.config.name == name) return &t;
  return nullptr;
}

const GroupResult* group_named(const Evaluation& evaluation, const std::string& name) {
  for (const GroupResult& g : evaluation.groups)
    if (g.group.name == name) return &g;
  return nullptr;
}

std::map<std::string, bool> directions_of(const Evaluation& evaluation, const GroupResult& group) {
  std::map<std::string, bool> out;
  for (const std::string& leaf : group.group.leaves)
    if (const TaskResult* t = task_named(evaluation, leaf))
      for (const auto& [name, higher] : directions(t->config)) out.emplace(name, higher);
  return out;
}

std::string shots_of_group(const Evaluation& evaluation, const GroupResult& group) {
  std::string shots;
  for (const std::string& leaf : group.group.leaves)
    if (const TaskResult* t = task_named(evaluation, leaf)) {
      const std::string own = fmt::format("{}", t->shots);
      if (!shots.empty() && shots != own) return "";
      shots = own;
    }
  return shots;
}

}  // namespace

Json results_json(const Evaluation& evaluation, const ResultContext& context) {
  Json results = Json::object(), groups = Json::object(), subtasks = Json::object(), configs = Json::object(),
       versions = Json::object(), shots = Json::object(), higher = Json::object(), counts = Json::object(),
       hashes = Json::object();
  std::map<std::string, const TaskResult*> sorted;
  for (const TaskResult& t : evaluation.tasks) {
    const std::string& name = t.config.name;
    sorted[name] = &t;
    results[name] = metrics_json(name, t.config.alias, t.documents, t.metrics);
    counts[name] = {{"original", t.all_documents}, {"effective", t.documents}};
    if (t.clean_documents) counts[name]["clean"] = *t.clean_documents;
    std::string all;
    for (const Json& s : t.samples)
      for (const auto* key : {"doc_hash", "prompt_hash", "target_hash"}) all += s[key].get<std::string>();
    hashes[name] = sha256(all);
  }
  for (const auto& [name, t] : sorted) {
    configs[name] = t->config.as_written;
    configs[name]["output_type"] = output_name(t->config.output);
    configs[name]["num_fewshot"] = t->shots;
    versions[name] = t->config.version.is_null() ? Json("Yaml") : t->config.version;
    shots[name] = t->shots;
    higher[name] = Json::object();
    for (const auto& [metric, up] : directions(t->config)) higher[name][metric] = up;
  }
  for (const GroupResult& g : evaluation.groups) {
    const std::string& name = g.group.name;
    results[name] = metrics_json(name, g.group.alias, g.documents, g.metrics);
    if (!g.group.metrics.empty()) groups[name] = results[name];
    subtasks[name] = g.group.children;
    versions[name] = g.group.version.is_null() ? "N/A" : str_of(g.group.version);
    for (const auto& [metric, up] : directions_of(evaluation, g)) higher[name][metric] = up;
  }
  Json out{{"results", results}};
  if (!groups.empty()) out["groups"] = groups;
  out["group_subtasks"] = subtasks;
  out["configs"] = configs;
  out["versions"] = versions;
  out["n-shot"] = shots;
  out["higher_is_better"] = higher;
  out["n-samples"] = counts;
  out["config"] = context.config;
  out["git_hash"] = nullptr;
  out["date"] = context.start;
  out["max_length"] = evaluation.window;
  out["task_hashes"] = hashes;
  out["model_source"] = "stoa";
  out["model_name"] = context.model;
  out["model_name_sanitized"] = results_folder("", context.model).string();
  out["system_instruction"] = context.system.empty() ? Json() : Json(context.system);
  out["system_instruction_sha"] = context.system.empty() ? Json() : Json(sha256(context.system));
  out["fewshot_as_multiturn"] = context.multiturn;
  out["chat_template"] = context.chat_template.empty() ? Json() : Json(context.chat_template);
  out["chat_template_sha"] = context.chat_template.empty() ? Json() : Json(sha256(context.chat_template));
  out["total_evaluation_time_seconds"] = str_of(Json(context.seconds));
  return out;
}

std::string results_table(const Evaluation& evaluation) {
  std::vector<TableRow> rows, group_rows;
  std::vector<std::string> shown;
  const auto add_task = [&](const TaskResult& t, const std::string& indent) {
    if (std::find(shown.begin(), shown.end(), t.config.name) != shown.end()) return;
    shown.push_back(t.config.name);
    add_rows(rows, indent + t.config.alias, t.config.version, fmt::format("{}", t.shots), t.metrics,
             directions(t.config));
  };
  const std::function<void(const GroupResult&, int)> add_group = [&](const GroupResult& g, int depth) {
    if (std::find(shown.begin(), shown.end(), g.group.name) != shown.end()) return;
    shown.push_back(g.group.name);
    const std::string indent = depth > 0 ? std::string(static_cast<std::size_t>(depth), ' ') + "- " : "";
    const std::string shots = shots_of_group(evaluation, g);
    add_rows(rows, indent + g.group.alias, g.group.version, shots, g.metrics, directions_of(evaluation, g));
    add_rows(group_rows, indent + g.group.alias, g.group.version, shots, g.metrics,
             directions_of(evaluation, g));
    for (const std::string& child : g.group.children) {
      if (const GroupResult* inner = group_named(evaluation, child))
        add_group(*inner, depth + 1);
      else if (const TaskResult* task = task_named(evaluation, child))
        add_task(*task, std::string(static_cast<std::size_t>(depth + 1), ' ') + "- ");
    }
  };
  for (auto it = evaluation.groups.rbegin(); it != evaluation.groups.rend(); ++it) add_group(*it, 0);
  for (const TaskResult& t : evaluation.tasks) add_task(t, "");
  std::string out = table_of("Tasks", rows);
  if (!group_rows.empty()) out += "\n" + table_of("Groups", group_rows);
  return out;
}

fs::path results_folder(const fs::path& directory, const std::string& model) {
  static const PythonRegex kUnsafe(R"(["<>:/|\\?*\[\]]+)");
  std::string name = model;
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return directory / kUnsafe.substitute(name, "__");
}

fs::path write_results(const fs::path& directory, const Evaluation& evaluation, const ResultContext& context,
                       bool samples) {
  const fs::path folder = results_folder(directory, context.model);
  fs::create_directories(folder);
  const std::string id = time_id(context.start + context.seconds);
  if (samples)
    for (const TaskResult& t : evaluation.tasks) {
      AtomicFile file(folder / fmt::format("samples_{}_{}.jsonl", replaced(t.config.name, "/", "_"), id));
      for (const Json& sample : t.samples) file.write(dumped(sample) + "\n");
      file.commit();
    }
  const fs::path path = folder / fmt::format("results_{}.json", id);
  write_text(path, dumped_indented(results_json(evaluation, context)));
  return path;
}

}  // namespace stoa::eval
