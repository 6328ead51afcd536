// Commands of `stoa eval` about tasks, and where they look for tasks and data.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "eval/tasks/task_index.h"

namespace stoa::cli {

struct TaskPlaces {
  std::vector<std::string> include, data;

  void add_to(CLI::App& command);
  // The tasks of configs/eval and of --include_path, which replace those of the same name.
  eval::TaskIndex index() const;
  // Folders of --data, or of STOA_EVAL_DATA, and the cache of the datasets library.
  std::vector<fs::path> data_folders() const;
};

struct Context;
void add_eval_run(CLI::App& eval, Context& context);
void add_eval_tasks(CLI::App& eval, Context& context);
void add_eval_contamination(CLI::App& eval, Context& context);
void add_eval_compare(CLI::App& eval, Context& context);
void add_eval_report(CLI::App& eval, Context& context);

}  // namespace stoa::cli
