// Answers of an evaluation as they come, in a file from which a killed evaluation continues.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "eval/requests/encoded_requests.h"
#include "eval/results/division.h"

namespace stoa::eval {

// What an answer depends on, as 16 hexadecimal digits.
std::string request_key(const Request& request, const infer::GenerateOptions* generation,
                        const ScoringOptions& scoring);

class Journal {
 public:
  // Reads the answers in `folder` that whoever has this identity gave, of whatever rank; others are dropped.
  // Each rank writes a file of its own. "": no file.
  Journal(fs::path folder, const std::string& identity, const Division& division);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  std::optional<Answer> find(const std::string& key) const;
  void add(const std::string& key, const Answer& answer);
  void remove();  // those of all ranks: the evaluation is complete

 private:
  bool read(const fs::path& path, const std::string& identity);
  std::vector<fs::path> files() const;

  const fs::path folder_;
  fs::path path_;
  std::map<std::string, Answer> known_;
  std::FILE* file_ = nullptr;
  int unwritten_ = 0;
};

}  // namespace stoa::eval
