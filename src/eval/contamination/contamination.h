// Which documents of tasks a training corpus holds, by sequences of words that both have (GPT-3's appendix C:
// 13 words, lower case without punctuation), and evaluations without them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "eval/tasks/task.h"

namespace stoa::eval {

struct SoughtDocument {
  std::string task;
  std::int64_t document = 0;   // its number
  std::string hash;            // as in samples_*.jsonl
  std::int64_t sequences = 0;  // that were looked for; 0: it has too few words to be found
  std::int64_t found = 0;      // of them
  std::string place;           // where the first was found
};

class ContaminationSearch {
 public:
  // `words`: of a sequence.
  explicit ContaminationSearch(std::size_t words) : words_(words) {}

  // All documents of a task.
  void add(const Task& task);
  void add(std::string task, std::int64_t document, std::string hash, std::string_view text);
  // Looks for them in a text of the corpus. `place`: its name.
  void look_into(std::string_view text, const std::string& place);

  // In the order of add().
  const std::vector<SoughtDocument>& documents() const { return documents_; }

 private:
  struct Sequence {
    std::vector<std::size_t> documents;
    bool found = false;
  };
  std::vector<std::string> sequences_of(std::string_view text) const;

  const std::size_t words_;
  std::vector<SoughtDocument> documents_;
  std::unordered_map<std::uint64_t, Sequence> sequences_;  // by hash
};

// Text of a document that is looked for: what the task's doc_to_decontamination_query says, else its question
// and its answer.
std::string sought_text(const Task& task, const Json& document);

// Hashes of the documents that were found, and of those that were looked for, by task.
struct Contamination {
  struct OfTask {
    std::set<std::string> sought, found;
  };
  std::map<std::string, OfTask> tasks;

  // Whether the task's document was found. DataError: it was not looked for.
  bool found(const std::string& task, std::int64_t document, const std::string& hash) const;
};

// A file of JSON lines, one per document.
void write_contamination(const fs::path& path, const std::vector<SoughtDocument>& documents);
// DataError "file:line: …".
Contamination read_contamination(const fs::path& path);

}  // namespace stoa::eval
