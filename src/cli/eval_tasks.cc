// `stoa eval tasks`: the tasks that are known, and which of them find their data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/eval_task_options.h"
#include "cli/print.h"
#include "eval/data/find_data.h"
#include "eval/ruler/making.h"
#include "eval/tasks/task.h"

namespace stoa::cli {
namespace {

using eval::Json;

struct TasksArguments {
  TaskPlaces places;
  std::vector<std::string> names;
  bool json = false;
};

// What there is to say of a task.
Json described(const eval::TaskEntry& entry, const std::vector<fs::path>& data) {
  Json out{{"task", entry.name}, {"file", entry.path.string()}};
  try {
    const eval::TaskConfig config = eval::make_task_config(entry.yaml, entry.path.string());
    eval::Task::check(config);
    const bool made = !config.maker.empty();
    eval::FoundSplit found;
    if (made) {
      const eval::MakingSource source = eval::ruler_source(config.maker, data);
      found = {source.files, source.looked_for};
    } else {
      found = eval::find_split(config, config.evaluated_split(), data);
    }
    out["made"] = made;
    out["config"] = config.as_written;
    out["output_type"] = output_name(config.output);
    out["dataset"] = config.dataset_path + (config.dataset_name.empty() ? "" : ":" + config.dataset_name);
    out["split"] = config.evaluated_split();
    const bool complete = made && found.looked_for.empty();  // it needs no file
    out["found"] = complete || !found.files.empty();
    if (out["found"] == false)
      out["expected"] = found.looked_for;
    else
      for (const auto& file : found.files) out["files"].push_back(file.string());
  } catch (const Error& error) {
    out["refused"] = error.what();
  }
  return out;
}

void list_tasks(const TasksArguments& a) {
  const eval::TaskIndex index = a.places.index();
  const auto data = a.places.data_folders();
  std::vector<std::string> wanted;
  if (!a.names.empty()) {
    for (const auto& name : a.names) {
      const auto it = index.entries().find(name);
      if (it != index.entries().end() && it->second.kind == eval::TaskEntry::Kind::kTask)
        wanted.push_back(name);
      else
        for (const auto& task : index.select({name}).tasks) wanted.push_back(task.name);
    }
  } else {
    for (const auto& [name, entry] : index.entries())
      if (entry.kind == eval::TaskEntry::Kind::kTask) wanted.push_back(name);
  }
  Json tasks = Json::array();
  for (const auto& name : wanted)
    if (const auto it = index.entries().find(name); it != index.entries().end())
      tasks.push_back(described(it->second, data));
  if (a.json) {
    Json problems = Json::array();
    for (const auto& [path, what] : index.problems())
      problems.push_back({{"file", path.string()}, {"problem", what}});
    return print_json_line(Json{{"tasks", tasks}, {"problems", problems}});
  }
  std::size_t widest = 4;
  for (const Json& task : tasks) widest = std::max(widest, task["task"].get_ref<const std::string&>().size());
  std::string out;
  for (const Json& task : tasks) {
    const std::string state =
        task.contains("refused") ? "refused: " + task["refused"].get<std::string>()
        : task["made"] == true && !task.contains("files") && !task.contains("expected")
            ? "made when it is asked"
        : task["found"] == true
            ? "found: " + task["files"][0].get<std::string>() +
                  (task["files"].size() > 1 ? fmt::format(" and {} more", task["files"].size() - 1) : "")
            : "no data: expected " + task["expected"].get<std::string>();
    out += fmt::format("{:{}}  {}\n", task["task"].get<std::string>(), widest, state);
  }
  if (a.names.empty()) {
    std::string groups;
    for (const auto& [name, entry] : index.entries())
      if (entry.kind != eval::TaskEntry::Kind::kTask) groups += (groups.empty() ? "" : ", ") + name;
    out += fmt::format("{} tasks; groups and tags: {}\n", tasks.size(), groups);
  }
  if (!index.problems().empty()) out += fmt::format("{} files hold no task\n", index.problems().size());
  print(out);
}

}  // namespace

void add_eval_tasks(CLI::App& eval, Context&) {
  auto a = std::make_shared<TasksArguments>();
  CLI::App* c = eval.add_subcommand("tasks",
                                    "The benchmark tasks that are known, and for each the data file that is "
                                    "found or expected. Example: stoa "
                                    "eval tasks nemo --data ~/eval-data");
  c->add_option("NAME", a->names, "Tasks, groups or tags (default: all)");
  a->places.add_to(*c);
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a] { list_tasks(*a); });
}

}  // namespace stoa::cli
