// What the stages made of one input, as another process can use it: processed blocks in a file.
#pragma once

#include <cstdint>
#include <fstream>

#include "base/file.h"
#include "curate/run/process.h"

namespace stoa::curate {

class PieceWriter {
 public:
  explicit PieceWriter(const fs::path& path) : file_(path) {}
  void add(const ProcessedBlock& block);
  void commit() { file_.commit(); }  // the file appears

 private:
  AtomicFile file_;
};

class PieceReader {
 public:
  explicit PieceReader(const fs::path& path);  // IoError
  // The next block; false at the end. DataError: the file is damaged.
  bool next(ProcessedBlock& block);

 private:
  std::uint64_t number();
  void text(std::string& to);

  const fs::path path_;
  std::ifstream file_;
};

}  // namespace stoa::curate
