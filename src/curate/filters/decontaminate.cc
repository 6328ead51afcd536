#include "curate/filters/decontaminate.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "curate/text/character.h"
#include "curate/text/compared_words.h"
#include "curate/text/english_words.h"
#include "curate/text/simplify.h"
#include "data/text_reader.h"

namespace stoa::curate {

std::span<const config::EnumName<Contamination>> enum_names(Contamination) {
  static constexpr config::EnumName<Contamination> kNames[] = {{"gpt3", Contamination::kGpt3},
                                                               {"datatrove", Contamination::kDatatrove},
                                                               {"dolma", Contamination::kDolma}};
  return kNames;
}

namespace {

constexpr std::size_t kParagraphWords = 13;  // of dolma

struct Test {
  std::string question, answer;
  bool has_question = false;
};

class DecontaminateStage final : public Stage {
 public:
  explicit DecontaminateStage(const Decontaminate& options)
      : options_(options),
        n_(static_cast<std::size_t>(options.n_grams > 0                         ? options.n_grams
                                    : options.rule == Contamination::kDatatrove ? 12
                                                                                : 13)) {
    require<ConfigError>(!options.files.empty(),
                         "decontaminate has no file of tests; give `files: [tests.jsonl]`");
    EnglishWords words;
    for (const std::string& file : options.files) {
      names_.push_back(fs::path(file).filename().string());
      const std::size_t before = index_.size();
      read_tests(file, [&](const Test& test) { add(test, names_.size() - 1, words); });
      require<ConfigError>(index_.size() > before,
                           "'{}' has no test that is long enough to be found ({} words)", file,
                           options.rule == Contamination::kDolma ? kParagraphWords : n_);
    }
  }

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    switch (options_.rule) {
      case Contamination::kGpt3:
        return cut(document, features, verdict);
      case Contamination::kDatatrove:
        return find_words(features, verdict);
      case Contamination::kDolma:
        return find_paragraphs(features.text(), verdict);
    }
  }

 private:
  template <class Visit>
  void read_tests(const std::string& file, Visit&& visit) const {
    if (!data::is_json_lines(file)) {
      data::each_document({file, data::TextSplit::kParagraph, ""}, [&](std::string_view text, std::uint64_t) {
        visit(Test{"", std::string(text), false});
      });
      return;
    }
    data::ReadOptions read;
    const std::vector<data::TextInput> inputs{data::describe_input(file, read)};
    data::BlockReader reader(inputs, read);
    simdjson::dom::parser parser;
    std::int64_t line = 0;
    for (data::Block block; reader.next(block);) {
      for (const auto& [begin, end] : block.documents) {
        ++line;
        const std::string_view text = block.text.view().substr(begin, end - begin);
        if (strip(text).empty()) continue;
        simdjson::dom::object object;
        require<DataError>(parser.parse(simdjson::padded_string(text)).get(object) == simdjson::SUCCESS,
                           "'{}' line {}: no JSON object", file, line);
        Test test;
        std::string_view value;
        test.has_question = object[options_.question_key].get(value) == simdjson::SUCCESS;
        if (test.has_question) test.question = value;
        const bool has_answer = object[options_.answer_key].get(value) == simdjson::SUCCESS;
        if (has_answer) test.answer = value;
        require<DataError>(
            test.has_question || has_answer,
            "'{}' line {}: it has neither a text \"{}\" nor \"{}\" (question_key and answer_key name them)",
            file, line, options_.question_key, options_.answer_key);
        visit(test);
      }
    }
  }

  void add(const Test& test, std::size_t task, EnglishWords& words) {
    const auto insert = [&](std::uint64_t hash) { index_.emplace(hash, task); };
    if (options_.rule == Contamination::kDolma) {
      for (const std::string* text : {&test.question, &test.answer})
        each_paragraph(*text, [&](std::string_view paragraph) {
          insert(hash_of_words(paragraph));
          return true;
        });
      return;
    }
    if (options_.rule == Contamination::kGpt3) {
      const std::string text = test.question.empty() ? test.answer : test.question + ' ' + test.answer;
      std::vector<std::string> compared;
      for (ComparedWord& piece : compared_words(text))
        if (!piece.normal.empty()) compared.push_back(std::move(piece.normal));
      each_ngram(compared, n_, [&](std::uint64_t hash, std::size_t) {
        insert(hash);
        return true;
      });
      return;
    }
    std::vector<std::string> answer = simple_words(test.answer, words),
                             question = simple_words(test.question, words);
    const auto insert_all = [&](const std::vector<std::string>& all) {
      each_ngram(all, n_, [&](std::uint64_t hash, std::size_t) {
        insert(hash);
        return true;
      });
    };
    insert_all(answer);
    if (!test.has_question) return;
    if (options_.find_query_ngrams) insert_all(question);
    // Sequences with words of both: the end of the question and the beginning of the answer.
    std::vector<std::string> across(
        question.end() - std::min<std::ptrdiff_t>(std::ssize(question), static_cast<std::ptrdiff_t>(n_) - 1),
        question.end());
    across.insert(
        across.end(), answer.begin(),
        answer.begin() + std::min<std::ptrdiff_t>(std::ssize(answer), static_cast<std::ptrdiff_t>(n_) - 1));
    insert_all(across);
  }

  static std::vector<std::string> simple_words(std::string_view text, EnglishWords& words) {
    Simplifier simplify;
    std::vector<std::string> out;
    for (const Word& word : words.split(simplify(text))) out.emplace_back(word.text());
    return out;
  }

  template <class Visit>
  static void each_paragraph(std::string_view text, Visit&& visit) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view paragraph = strip(text.substr(0, end));
      if (paragraph.size() > kParagraphWords && compared_words(paragraph).size() >= kParagraphWords &&
          !visit(paragraph))
        return;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  void find_words(Features& features, Verdict& verdict) const {
    std::optional<std::size_t> task;
    each_ngram(simple_words(features.text(), features.other_words()), n_,
               [&](std::uint64_t hash, std::size_t) {
                 if (const auto found = index_.find(hash); found != index_.end()) task = found->second;
                 return !task;
               });
    if (task) verdict.fails(names_[*task], true);
  }

  void find_paragraphs(std::string_view text, Verdict& verdict) const {
    each_paragraph(text, [&](std::string_view paragraph) {
      const auto found = index_.find(hash_of_words(paragraph));
      if (found != index_.end()) verdict.fails(names_[found->second], true);
      return found == index_.end();
    });
  }

  void cut(Document& document, Features& features, Verdict& verdict) const {
    const std::vector<ComparedWord> pieces = compared_words(document.text);
    std::vector<std::pair<std::size_t, std::size_t>> hits;  // characters: of the first, and the last
    std::size_t task = 0;
    std::vector<std::string_view> words;
    for (const ComparedWord& piece : pieces) words.push_back(piece.normal);
    each_ngram(words, n_, [&](std::uint64_t hash, std::size_t i) {
      if (const auto found = index_.find(hash); found != index_.end()) {
        if (hits.empty()) task = found->second;
        hits.emplace_back(pieces[i].first_char, pieces[i + n_ - 1].last_char);
      }
      return std::ssize(hits) <= options_.too_dirty_cutoff;
    });
    if (hits.empty()) return;
    if (std::ssize(hits) > options_.too_dirty_cutoff) {
      verdict.fails(names_[task], true);
      return;
    }
    std::vector<std::size_t> bytes;  // of every character, and the end
    for (std::size_t at = 0; at < document.text.size();
         at += read_character(document.text.data() + at).length)
      bytes.push_back(at);
    bytes.push_back(document.text.size());
    const std::int64_t length = std::ssize(bytes) - 1;
    const auto part = [&](std::int64_t begin, std::int64_t end) {
      return std::string_view(document.text)
          .substr(bytes[static_cast<std::size_t>(begin)],
                  bytes[static_cast<std::size_t>(end)] - bytes[static_cast<std::size_t>(begin)]);
    };
    std::string kept;
    const auto keep = [&](std::string_view piece) {
      if (!kept.empty()) kept += "\n\n";
      kept += piece;
    };
    std::int64_t from = 0;
    for (const auto& [first, last] : hits) {
      const std::int64_t begin =
          std::max<std::int64_t>(0, static_cast<std::int64_t>(first) - options_.window_to_remove);
      if (begin - from > options_.minimum_slice_length) keep(part(from, begin));
      from = std::min(length, static_cast<std::int64_t>(last) + options_.window_to_remove);
    }
    if (from < length - options_.minimum_slice_length) keep(part(from + 1, length));
    if (kept.empty()) {
      verdict.fails(names_[task], true);
      return;
    }
    document.text = std::move(kept);
    features.reset(document.text);
  }

  const Decontaminate options_;
  const std::size_t n_;
  std::vector<std::string> names_;  // of the files
  std::unordered_map<std::uint64_t, std::size_t>
      index_;  // of sequences or paragraphs: the first file that has them
};

}  // namespace

void declare(config::Section<Decontaminate>& s) {
  using D = Decontaminate;
  s.field("rule", &D::rule)
      .help("gpt3 cuts what a test shares with a document; datatrove and dolma drop the document.");
  s.field("files", &D::files)
      .help(
          "Tests: JSON lines, or text with one test per paragraph. The name of the file becomes the rule "
          "that drops a document.");
  s.field("question_key", &D::question_key)
      .not_empty()
      .help("The key of JSON lines whose value is the question.");
  s.field("answer_key", &D::answer_key).not_empty().help("The key whose value is the answer.");
  s.field("n_grams", &D::n_grams)
      .range(0, 1000)
      .unit("words")
      .help("Length of the sequences that are compared; 0: 13, for datatrove 12.");
  s.field("find_query_ngrams", &D::find_query_ngrams).help("datatrove: also sequences within questions.");
  s.field("window_to_remove", &D::window_to_remove)
      .at_least(0)
      .unit("characters")
      .help("gpt3: what is cut on each side of a hit.");
  s.field("too_dirty_cutoff", &D::too_dirty_cutoff).at_least(0).help("gpt3: more hits drop the document.");
  s.field("minimum_slice_length", &D::minimum_slice_length)
      .at_least(0)
      .unit("characters")
      .help("gpt3: shorter pieces between hits go, too.");
}

std::unique_ptr<Stage> make_stage(const Decontaminate& options) {
  return std::make_unique<DecontaminateStage>(options);
}

}  // namespace stoa::curate
