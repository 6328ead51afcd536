// Answers of an evaluation as they come, in a file from which a killed evaluation continues.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "eval/requests/scorer.h"

namespace stoa::eval {

// What an answer depends on, as 16 hexadecimal digits.
std::string request_key(const Request& request, const GenerationOptions* generation,
                        const ScoringOptions& scoring);

class Journal {
 public:
  // Reads the answers at `path` that this model gave; those of another model or program are dropped. "": no
  // file.
  Journal(fs::path path, const infer::OpenModel& model);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  std::optional<Answer> find(const std::string& key) const;
  void add(const std::string& key, const Answer& answer);
  void remove();  // the evaluation is complete

 private:
  const fs::path path_;
  std::map<std::string, Answer> known_;
  std::FILE* file_ = nullptr;
  int unwritten_ = 0;
};

}  // namespace stoa::eval
