// All tasks, groups and tags of directories of YAML files.
#pragma once

#include <map>
#include <vector>

#include "eval/tasks/task_config.h"

namespace stoa::eval {

// A file of an index. Exactly one of `yaml` and `problem` is set.
struct TaskEntry {
  enum class Kind { kTask, kGroup, kTag };
  Kind kind = Kind::kTask;
  std::string name;
  fs::path path;                   // none: a tag
  Json yaml;                       // of a task or group
  std::vector<std::string> tasks;  // of a tag, sorted by name
};

struct MetricOfGroup {
  std::string name;
  std::vector<std::string> filters;  // empty: all that its tasks have
  bool weight_by_size = true;
};

// What names on the command line stand for: tasks, each once, and the groups that are printed above them.
struct Selection {
  struct Group {
    std::string name, alias;
    std::vector<std::string> children;  // groups and tasks
    std::vector<std::string> leaves;    // tasks
    std::vector<MetricOfGroup> metrics;
    Json version;
  };
  std::vector<TaskConfig> tasks;
  std::vector<Group> groups;  // children before parents
};

class TaskIndex {
 public:
  // Reads every *.yaml below the directories; of two entries with one name in a directory the first file
  // counts, and later directories replace what earlier ones have. A file that cannot be read is kept as a
  // problem.
  explicit TaskIndex(const std::vector<fs::path>& directories);

  const std::map<std::string, TaskEntry>& entries() const { return entries_; }
  // File and fault of those that hold no task.
  const std::vector<std::pair<fs::path, std::string>>& problems() const { return problems_; }

  // Names of tasks, groups and tags (also with * and ?), or YAML files. ConfigError: unknown (the nearest is
  // named), or a task that cannot be run.
  Selection select(const std::vector<std::string>& names) const;

 private:
  struct Selector;
  void read(const fs::path& path, std::map<std::string, TaskEntry>& into);

  std::map<std::string, TaskEntry> entries_;
  std::vector<std::pair<fs::path, std::string>> problems_;
};

}  // namespace stoa::eval
