// Files of tuning data, read and encoded by several threads.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "tune/chat_dataset.h"
#include "tune/record_file.h"
#include "tune/sample_encoder.h"

namespace stoa::tune {

class TuningFiles {
 public:
  // What becomes of a record that cannot be used.
  enum class Bad { kRefused, kSkipped };

  // Every file is of one form, told by its first record (kSkipped: the first that has a form). IoError,
  // DataError, Interrupted.
  explicit TuningFiles(const std::vector<fs::path>& paths, Bad bad = Bad::kRefused,
                       const std::stop_token& stop = {}, Question question = Question::kAnswered);
  explicit TuningFiles(std::vector<RecordFile> files, Bad bad = Bad::kRefused);

  std::int64_t records() const { return static_cast<std::int64_t>(places_.size()); }
  // "chats.jsonl: 200 records, OpenAI messages"
  std::vector<std::string> descriptions() const;
  RecordForm form(std::size_t file) const { return forms_[file]; }
  const std::vector<RecordFile>& files() const { return files_; }

  struct Encoding {
    const token::Tokenizer& tokenizer;
    const ChatText& text;
    std::int64_t longest = 2048;
    int threads = 1;
    std::stop_token stop = {};
    bool scores = false;  // RecordOptions::score
  };
  struct Encoded {
    EncodedFiles files;
    EncodingCounts counts;
    std::set<token::TokenId> turn_ends;
    std::vector<std::string> skipped;  // what is wrong with each record that is left out, by its place
  };
  // Records [begin, end) of all. The result does not depend on the number of threads. DataError: records that
  // cannot be used and are not skipped, by their places.
  Encoded encode(std::int64_t begin, std::int64_t end, const Encoding& how) const;
  struct Compared {
    std::vector<std::string> texts;  // Record::compared
    Place place;
  };
  // Records [begin, end) of a file of kCompared. DataError: records that cannot be used and are not skipped,
  // by their places. `skipped`: what is wrong with those that are.
  std::vector<Compared> compared(std::int64_t begin, std::int64_t end, std::vector<std::string>& skipped,
                                 const std::stop_token& stop = {}) const;
  // The first answers' questions: of records from `begin` on, up to `count` texts of the first message of the
  // user. Records that cannot be used have none.
  std::vector<std::string> questions(std::int64_t begin, std::size_t count, bool roles) const;

 private:
  struct At {
    std::uint32_t file, record;
  };
  void require_all(const std::vector<std::string>& faults, std::int64_t records) const;
  Record record(std::int64_t number, const RecordOptions& options) const;
  void find_forms();
  RecordForm form_of_file(const RecordFile& file) const;

  std::vector<RecordFile> files_;
  Bad bad_;
  Question question_ = Question::kAnswered;
  std::vector<RecordForm> forms_;
  std::vector<At> places_;
};

// The first of a list of faults, a line each, and how many more there are.
std::string list_faults(const std::vector<std::string>& faults);

// What the counts say to a person, a line each; nothing where all was taken as it is.
std::vector<std::string> describe(const EncodingCounts& counts, std::int64_t longest);

// KTO estimates how far the model has moved by answers to other questions: gives every judged sample the
// question with the answer of the sample before as its second text, where both fit into `longest`.
void add_mismatched(std::vector<EncodedSample>& samples, std::int64_t longest);

}  // namespace stoa::tune
