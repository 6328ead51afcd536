#include "eval/tasks/task_index.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::eval {
namespace {

constexpr int kDeepestGroup = 20;
const std::vector<std::string> kGroupKeys{"group", "group_alias", "task", "aggregate_metric_list",
                                          "metadata"};

std::vector<fs::path> task_files_below(const fs::path& directory) {
  require<IoError>(fs::is_directory(directory), "'{}' is not a directory", directory.string());
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && entry.path().extension() == ".yaml") out.push_back(entry.path());
  std::sort(out.begin(), out.end(),
            [](const fs::path& a, const fs::path& b) { return a.string() < b.string(); });
  return out;
}

std::vector<std::string> tags_of(const Json& yaml) {
  std::vector<std::string> out;
  if (const auto tag = yaml.find("tag"); tag != yaml.end()) {
    if (tag->is_string()) out.push_back(*tag);
    if (tag->is_array())
      for (const Json& t : *tag)
        if (t.is_string()) out.push_back(t);
  }
  return out;
}

bool is_pattern(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

}  // namespace

TaskIndex::TaskIndex(const std::vector<fs::path>& directories) {
  for (const fs::path& directory : directories) {
    std::map<std::string, TaskEntry> here;
    for (const fs::path& path : task_files_below(directory)) {
      try {
        read(path, here);
      } catch (const Error& error) {
        problems_.emplace_back(path, error.what());
      }
    }
    for (auto& [name, entry] : here) entries_[name] = std::move(entry);
  }
}

void TaskIndex::read(const fs::path& path, std::map<std::string, TaskEntry>& into) {
  Json yaml = read_task_yaml(path);
  const bool group = yaml.contains("group") && !yaml.contains("class");
  const char* key = group ? "group" : "task";
  require<ConfigError>(yaml.contains(key) && yaml[key].is_string(), "{}: names neither a task nor a group",
                       path.string());
  const std::string name = yaml[key];
  if (into.contains(name)) return;
  for (const std::string& tag : group ? std::vector<std::string>{} : tags_of(yaml)) {
    TaskEntry& entry = into.try_emplace(tag, TaskEntry{TaskEntry::Kind::kTag, tag, {}, {}, {}}).first->second;
    if (std::find(entry.tasks.begin(), entry.tasks.end(), name) == entry.tasks.end())
      entry.tasks.push_back(name);
    std::sort(entry.tasks.begin(), entry.tasks.end());
  }
  into[name] = {group ? TaskEntry::Kind::kGroup : TaskEntry::Kind::kTask, name, path, std::move(yaml), {}};
}

// Collects what a name stands for.
struct TaskIndex::Selector {
  const TaskIndex& index;
  Selection out;
  std::set<std::string> known_tasks, known_groups;

  void task(const Json& yaml, const std::string& source, std::vector<std::string>& leaves) {
    const Json given = yaml.value("task", Json());
    require<ConfigError>(given.is_string(),
                         "{}: task: expected a name, got {}; a list of tasks is of a 'group'", source,
                         dumped(given));
    const std::string name = given;
    leaves.push_back(name);
    if (known_tasks.insert(name).second) out.tasks.push_back(make_task_config(yaml, source));
  }

  // `leaves`: gets the tasks; returns the names of the direct children.
  std::vector<std::string> entry(const TaskEntry& e, const Json& overrides, std::vector<std::string>& leaves,
                                 int depth) {
    require<ConfigError>(depth <= kDeepestGroup, "the group '{}' contains itself", e.name);
    switch (e.kind) {
      case TaskEntry::Kind::kTag: {
        for (const auto& name : e.tasks) entry(index.entries_.at(name), overrides, leaves, depth + 1);
        return e.tasks;
      }
      case TaskEntry::Kind::kTask: {
        Json yaml = e.yaml;
        for (const auto& [key, value] : overrides.items()) yaml[key] = value;
        task(yaml, e.path.string(), leaves);
        return {e.name};
      }
      case TaskEntry::Kind::kGroup:
        break;
    }
    group(e.name, e.yaml, e.path.string(), overrides, leaves, depth);
    return {e.name};
  }

  void group(const std::string& name, const Json& yaml, const std::string& source, const Json& overrides,
             std::vector<std::string>& above, int depth) {
    Selection::Group g;
    g.name = name;
    g.alias = yaml.value("group_alias", name);
    Json inner = Json::object();
    for (const auto& [key, value] : yaml.items())
      if (std::find(kGroupKeys.begin(), kGroupKeys.end(), key) == kGroupKeys.end() && key != "tag")
        inner[key] = value;
    for (const auto& [key, value] : overrides.items()) inner[key] = value;
    if (const auto metadata = yaml.find("metadata"); metadata != yaml.end() && metadata->is_object())
      g.version = metadata->value("version", Json());
    Json members = yaml.value("task", Json());
    if (members.is_string()) members = Json::array({members});
    require<ConfigError>(members.is_array() && !members.empty(), "{}: the group '{}' has no tasks", source,
                         name);
    for (const Json& member : members) {
      const auto children = this->member(name, member, source, inner, g.leaves, depth);
      g.children.insert(g.children.end(), children.begin(), children.end());
    }
    g.metrics = metrics_of(yaml, source);
    above.insert(above.end(), g.leaves.begin(), g.leaves.end());
    if (known_groups.insert(name).second) out.groups.push_back(std::move(g));
  }

  std::vector<std::string> member(const std::string& parent, const Json& member, const std::string& source,
                                  const Json& overrides, std::vector<std::string>& leaves, int depth) {
    if (member.is_string()) {
      const std::string name = member;
      const auto it = index.entries_.find(name);
      require<ConfigError>(it != index.entries_.end(), "{}: the group '{}' names '{}', which does not exist",
                           source, parent, name);
      return entry(it->second, overrides, leaves, depth + 1);
    }
    require<ConfigError>(member.is_object() && (member.contains("task") || member.contains("group")),
                         "{}: a member of the group '{}' is neither a name nor a task", source, parent);
    if (member.contains("group")) {
      const std::string name = member["group"];
      if (const auto it = index.entries_.find(name); it != index.entries_.end()) {
        Json all = overrides;
        for (const auto& [key, value] : member.items())
          if (key != "group") all[key] = value;
        return entry(it->second, all, leaves, depth + 1);
      }
      const std::string inline_name = parent + "::" + name;
      group(inline_name, member, source, overrides, leaves, depth + 1);
      return {inline_name};
    }
    Json all = overrides;
    for (const auto& [key, value] : member.items()) all[key] = value;
    const std::string base = member["task"];
    if (const auto it = index.entries_.find(base); it != index.entries_.end())
      return entry(it->second, all, leaves, depth + 1);
    all["task"] = parent + "::" + base;
    task(all, source, leaves);
    return {all["task"]};
  }

  static std::vector<MetricOfGroup> metrics_of(const Json& yaml, const std::string& source) {
    std::vector<MetricOfGroup> out;
    Json list = yaml.value("aggregate_metric_list", Json());
    if (list.is_object()) list = Json::array({list});
    for (const Json& entry : list.is_array() ? list : Json::array()) {
      require<ConfigError>(entry.is_object() && entry.contains("metric"),
                           "{}: aggregate_metric_list: no metric", source);
      require<ConfigError>(entry.value("aggregation", Json("mean")) == "mean",
                           "{}: aggregate_metric_list: the aggregation of a group can only be 'mean'",
                           source);
      MetricOfGroup metric{entry["metric"], {}, entry.value("weight_by_size", true)};
      if (const auto filters = entry.find("filter_list"); filters != entry.end()) {
        if (filters->is_string()) metric.filters.push_back(*filters);
        if (filters->is_array())
          for (const Json& f : *filters) metric.filters.push_back(f);
      }
      out.push_back(std::move(metric));
    }
    return out;
  }
};

Selection TaskIndex::select(const std::vector<std::string>& names) const {
  Selector selector{*this, {}, {}, {}};
  std::vector<std::string> leaves;
  for (const std::string& name : names) {
    if (name.ends_with(".yaml") && fs::is_regular_file(name)) {
      const Json yaml = read_task_yaml(name);
      if (yaml.contains("group")) {
        selector.group(yaml["group"], yaml, name, Json::object(), leaves, 0);
      } else {
        require<ConfigError>(yaml.contains("task"), "{}: names neither a task nor a group", name);
        selector.task(yaml, name, leaves);
      }
      continue;
    }
    if (is_pattern(name)) {
      bool any = false;
      for (const auto& [known, entry] : entries_)
        if (entry.kind != TaskEntry::Kind::kTag && ::fnmatch(name.c_str(), known.c_str(), 0) == 0) {
          selector.entry(entry, Json::object(), leaves, 0);
          any = true;
        }
      require<ConfigError>(any, "no task matches '{}'", name);
      continue;
    }
    const auto it = entries_.find(name);
    if (it == entries_.end()) {
      for (const auto& [path, problem] : problems_)
        if (path.stem() == name) fail<ConfigError>("{}", problem);
      std::vector<std::string> known;
      for (const auto& [n, entry] : entries_) known.push_back(n);
      fail<ConfigError>("no task '{}'{}: `stoa eval tasks` lists all", name, did_you_mean(name, known));
    }
    selector.entry(it->second, Json::object(), leaves, 0);
  }
  return std::move(selector.out);
}

}  // namespace stoa::eval
