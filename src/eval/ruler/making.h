// Documents that are made, not loaded: RULER (Hsieh et al. 2024, What's the Real Context Size of Your
// Long-Context Language Models?) as lm-evaluation-harness 0.4.13 makes it, draw by draw, at any length.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "eval/python/random.h"
#include "eval/python/text.h"

namespace stoa::eval {

// Tokens of a text, as the model reads it.
using TokenCount = std::function<std::int64_t(const std::string&)>;

// What made documents depend on.
struct MakingOptions {
  Json metadata = Json::object();  // max_seq_lengths: tokens (4096); num_samples: documents of each (500)
  TokenCount tokens = nullptr;     // null: no tokenizer is known
  std::uint64_t python_seed = 0, numpy_seed = 1234;
  std::vector<fs::path> data = {};  // folders of data sets
  fs::path words = {};              // folder of nouns.txt, adjectives.txt, verbs.txt
};

// A task in the making. Errors say what a length or a data set lacks.
class Making {
 public:
  // ConfigError: no tokenizer, or metadata that cannot be.
  explicit Making(const MakingOptions& options);

  const std::vector<std::int64_t>& lengths() const { return lengths_; }
  std::int64_t samples() const { return samples_; }
  std::int64_t tokens(const std::string& text) const { return options_.tokens(text); }
  const MakingOptions& options() const { return options_; }
  // Words of the lists, as written, in the order of Python's sorted(set()).
  std::vector<std::string> words(std::initializer_list<const char*> lists) const;
  // `length`: the document's tokens and those of the answer; `longest`: what they must not exceed.
  static Json document(std::int64_t index, std::string input, Json outputs, std::int64_t length,
                       std::int64_t longest, std::string beginning_of_answer);
  // DataError: no document of this length can be made.
  [[noreturn]] static void too_short(const char* what, std::int64_t length);

  PythonRandom python;  // the module's, seeded
  NumpyRandom numpy;

 private:
  const MakingOptions& options_;
  std::vector<std::int64_t> lengths_;
  std::int64_t samples_ = 500;
};

// `pattern` with every {name} replaced.
std::string filled(std::string_view pattern,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> values);
// Letters of random.choices(alphabet, k=count), from `first` on.
std::string drawn_letters(PythonRandom& random, char first, int count);

// The functions of the harness's files, by name: niah_utils.niah_single_1, vt_utils.get_vt_dataset, …
// Null: there is none.
using DocumentsMaker = std::vector<Json> (*)(Making& making);
DocumentsMaker ruler_maker(std::string_view name);
std::vector<std::string> ruler_makers();

// The file that a maker reads, and what would be read where it is missing; both empty: it needs none.
struct MakingSource {
  std::vector<fs::path> files;
  std::string looked_for;
};
MakingSource ruler_source(std::string_view name, const std::vector<fs::path>& places);

// Makers of several tasks of one kind.
std::vector<Json> make_needles(Making& making, std::string_view task);
std::vector<Json> make_variable_chains(Making& making);
std::vector<Json> make_common_words(Making& making);
std::vector<Json> make_frequent_words(Making& making);
std::vector<Json> make_questions(Making& making, bool hotpot);

// {"4096": share of the outputs that the answer names, …}; -1 at the harness's own length (4096) where the
// document has another.
Json ruler_results(const Json& doc, const Json& answers);
// The mean over the documents of a length, or -1.
double ruler_figure(const std::vector<Json>& values);

}  // namespace stoa::eval
