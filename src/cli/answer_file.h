// Answers to many prompts, a JSON line each in the order of the prompts, in a file that has its name once it
// is complete. Until then they are in NAME.partial, and NAME.partial.json says what they depend on: the same
// command, started again, continues after the last of them.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace stoa::cli {

namespace fs = std::filesystem;

class AnswerFile {
 public:
  using Json = nlohmann::ordered_json;

  // `origin`: an object of what the answers depend on. ConfigError: there is a file of this name, another
  // process writes it, or the answers that are there are of another origin; names the first difference.
  AnswerFile(fs::path path, const Json& origin);
  ~AnswerFile();
  AnswerFile(const AnswerFile&) = delete;
  AnswerFile& operator=(const AnswerFile&) = delete;

  // Answers that were there.
  std::int64_t found() const { return found_; }
  // The "line" of the last of them; 0: none.
  std::int64_t last_line() const { return last_line_; }
  // IoError names the file and the reason.
  void write(const Json& answer);
  // Onto the disk, so that nothing is lost by a power cut.
  void save();
  void commit();

 private:
  void read_found();
  void compare_origin(const Json& origin) const;

  const fs::path path_, partial_, origin_path_;
  int file_ = -1;
  std::int64_t found_ = 0, last_line_ = 0;
  std::chrono::steady_clock::time_point saved_;
};

}  // namespace stoa::cli
