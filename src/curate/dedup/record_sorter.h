// Sorts more records than fit into memory: sorted runs in files of a folder, merged when they are read.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

struct KeyRecord {
  std::uint64_t key = 0, document = 0;
  friend bool operator<(const KeyRecord& a, const KeyRecord& b) {
    return a.key != b.key ? a.key < b.key : a.document < b.document;
  }
};

class RecordSorter {
 public:
  // Uses at most `memory` bytes (a least amount of some 100 KB), and files in `folder`, which exists.
  RecordSorter(fs::path folder, std::size_t memory);
  ~RecordSorter();
  RecordSorter(const RecordSorter&) = delete;
  RecordSorter& operator=(const RecordSorter&) = delete;

  void add(const KeyRecord& record);
  // Calls `visit` with all records in ascending order. Once.
  void each(const std::function<void(const KeyRecord&)>& visit);
  std::size_t runs() const { return runs_.size(); }  // in files

 private:
  void write_run();

  const fs::path folder_;
  const std::size_t memory_;
  std::vector<KeyRecord> records_;
  std::vector<fs::path> runs_;
};

}  // namespace stoa::curate
