// How far a run has come: one small file per finished shard, and what the run is made of. Held by one run at
// a time.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "curate/io/document_reader.h"
#include "curate/run/flow.h"
#include "curate/run/shard.h"

namespace stoa::curate {

struct ShardRecord {
  Place next;  // of the first document after the shard
  Flow flow;
  std::vector<OutputFile> files;
};

class Journal {
 public:
  // Opens or makes DIR/journal. `subject`: what decides the output, by title. ConfigError: the directory
  // holds other things, another run works in it, or a run of another subject began in it (says what differs).
  Journal(fs::path output, const nlohmann::ordered_json& subject);

  const std::vector<ShardRecord>& shards() const { return shards_; }
  void add(ShardRecord record);

 private:
  // An exclusive lock on a file, which ends with the process at the latest.
  class Lock {
   public:
    Lock() = default;
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    bool take(const fs::path& path);  // false: another process or run has it

   private:
    int fd_ = -1;
  };

  fs::path directory_;
  Lock lock_;
  std::vector<ShardRecord> shards_;
};

// ConfigError: a directory that holds something else than a run.
void require_place_for_run(const fs::path& output);
// ConfigError: the run that `file` of an output tells of has another subject, with the first difference.
void require_same_subject(const fs::path& output, const fs::path& file,
                          const nlohmann::ordered_json& subject);

nlohmann::ordered_json to_json(const OutputFile& file);

}  // namespace stoa::curate
