// Where the documents of a task lie: data sets are looked for on this machine only.
#pragma once

#include <string>
#include <vector>

#include "eval/data/documents.h"
#include "eval/tasks/task_config.h"

namespace stoa::eval {

struct FoundSplit {
  std::vector<fs::path> files;  // in order; empty: not found
  std::string looked_for;       // what would be read, for messages
  DocumentForm form = {};
};

// The files of a task's split. A data set OWNER/NAME is looked for in each folder of `places` as
// OWNER/NAME/[CONFIG/]SPLIT.EXT or NAME/[CONFIG/]SPLIT.EXT (CONFIG being default, plain_text or NAME, too,
// where the task names none), in shards SPLIT-00000-of-00002.EXT, there or in a folder `data`, as a folder of
// datasets' save_to_disk, in the form of the cache of datasets, and as a snapshot of the cache of
// huggingface_hub (PLACE or PLACE/hub, datasets--OWNER--NAME/snapshots/COMMIT). dataset_path json, csv and
// the like with data_files, and a folder or file as dataset_path, are taken as they stand; what is relative
// is relative to the working directory or the task's file, and names may be patterns. ConfigError:
// dataset_kwargs that are not supported.
FoundSplit find_split(const TaskConfig& task, const std::string& split, const std::vector<fs::path>& places);

}  // namespace stoa::eval
