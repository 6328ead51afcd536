// Needles in a haystack: sentences that give keys their values, in a long text.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "eval/builtin/sentences.h"
#include "eval/data/documents.h"
#include "eval/python/regex.h"
#include "eval/ruler/making.h"

namespace stoa::eval {
namespace {

enum class Haystack { kRepeat, kEssay, kNeedles };
enum class Drawn { kNumbers, kWords, kUuids };

struct NeedleTask {
  Haystack haystack = Haystack::kEssay;
  Drawn key = Drawn::kWords, value = Drawn::kNumbers;
  int keys = 1, values = 1, queries = 1;
};

const NeedleTask& needle_task(std::string_view name) {
  using enum Haystack;
  using enum Drawn;
  static const std::map<std::string, NeedleTask, std::less<>> table{
      {"single_1", {kRepeat, kWords, kNumbers, 1, 1, 1}},
      {"single_2", {kEssay, kWords, kNumbers, 1, 1, 1}},
      {"single_3", {kEssay, kWords, kUuids, 1, 1, 1}},
      {"multikey_1", {kEssay, kWords, kNumbers, 4, 1, 1}},
      {"multikey_2", {kNeedles, kWords, kNumbers, 1, 1, 1}},
      {"multikey_3", {kNeedles, kUuids, kUuids, 1, 1, 1}},
      {"multivalue", {kEssay, kWords, kNumbers, 1, 4, 1}},
      {"multiquery", {kEssay, kWords, kNumbers, 4, 1, 4}}};
  return table.find(name)->second;
}

constexpr std::int64_t kAnswerTokens = 128;
constexpr std::uint64_t kShuffleSeed = 42;
constexpr std::string_view kNoise =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";
constexpr std::string_view kNeedle = "One of the special magic {type} for {key} is: {value}.";
constexpr std::string_view kTemplate =
    "Some special magic {type} are hidden within the following text. Make sure to memorize it. I will quiz "
    "you about the {type} afterwards.\n{context}\nWhat are all the special magic {type} for {query} "
    "mentioned in the provided text?";
constexpr std::string_view kTemplateOfOne =
    "A special magic {type} is hidden within the following text. Make sure to memorize it. I will quiz you "
    "about the {type} afterwards.\n{context}\nWhat is the special magic {type} for {query} mentioned in the "
    "provided text?";

std::string uuid_of(PythonRandom& random) {
  std::uint64_t low = random.word(), high;
  low |= std::uint64_t{random.word()} << 32;
  high = random.word();
  high |= std::uint64_t{random.word()} << 32;
  high = (high & ~std::uint64_t{0xf000}) | 0x4000;                             // version 4
  low = (low & ~(std::uint64_t{0xc000} << 48)) | std::uint64_t{0x8000} << 48;  // its variant
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff, high & 0xffff,
                     low >> 48, low & 0xffffffffffff);
}

// The sorted list of all ADJECTIVE-NOUN, six million of them, without making it.
class JoinedWords {
 public:
  JoinedWords(std::vector<std::string> adjectives, std::vector<std::string> nouns)
      : nouns_(std::move(nouns)) {
    for (std::string& adjective : adjectives) adjective += '-';
    std::sort(adjectives.begin(), adjectives.end());
    for (std::size_t i = 0; i < adjectives.size();) {
      Group group{adjectives[i], {}, size_};
      std::size_t end = i + 1;
      // Those that begin with another one ("old-fashioned-") mix with its nouns.
      while (end < adjectives.size() && adjectives[end].starts_with(adjectives[i])) ++end;
      if (end > i + 1) {
        for (std::size_t j = i; j < end; ++j)
          for (const auto& noun : nouns_) group.all.push_back(adjectives[j] + noun);
        std::sort(group.all.begin(), group.all.end());
        group.all.erase(std::unique(group.all.begin(), group.all.end()), group.all.end());
      }
      size_ += group.all.empty() ? nouns_.size() : group.all.size();
      groups_.push_back(std::move(group));
      i = end;
    }
  }

  std::size_t size() const { return size_; }
  std::string operator[](std::size_t i) const {
    const auto group = std::prev(std::upper_bound(
        groups_.begin(), groups_.end(), i, [](std::size_t at, const Group& g) { return at < g.begin; }));
    const std::size_t inside = i - group->begin;
    return group->all.empty() ? group->adjective + nouns_[inside] : group->all[inside];
  }

 private:
  struct Group {
    std::string adjective;
    std::vector<std::string> all;  // where several adjectives mix
    std::size_t begin = 0;
  };

  const std::vector<std::string> nouns_;
  std::vector<Group> groups_;
  std::size_t size_ = 0;
};

class NeedleTexts {
 public:
  NeedleTexts(Making& making, const NeedleTask& task) : making_(making), task_(task) {
    if (task.key == Drawn::kWords) words_.emplace(making.words({"adjectives"}), making.words({"nouns"}));
    if (task.haystack == Haystack::kEssay) read_essays();
  }

  std::vector<Json> of_length(std::int64_t longest) {
    const auto needles = static_cast<std::int64_t>(task_.keys) * task_.values;
    const std::int64_t step = task_.haystack == Haystack::kEssay ? 500 : longest < 4096 ? 5 : 25;
    const std::int64_t units = std::max(fitting_units(std::max(step, needles), step, longest), needles);
    std::vector<Json> out;
    for (std::int64_t index = 0; index < making_.samples(); ++index)
      for (std::int64_t used = units; used > 0; used -= step) {
        const std::optional<Text> text = make(used);
        if (!text) continue;
        const std::int64_t length = making_.tokens(text->input) + kAnswerTokens;
        if (length > longest) continue;
        const std::string_view type = task_.queries * task_.values == 1 ? singular() : plural();
        out.push_back(
            Making::document(index, text->input, text->answers, length, longest,
                             fmt::format("The special magic {} for {} mentioned in the provided text {}",
                                         type, text->query, type == singular() ? "is" : "are")));
        break;
      }
    if (out.empty()) Making::too_short("the needles and their question", longest);
    return out;
  }

 private:
  struct Text {
    std::string input, query;
    Json answers = Json::array();
  };

  std::string_view plural() const { return task_.value == Drawn::kNumbers ? "numbers" : "uuids"; }
  std::string_view singular() const { return plural().substr(0, plural().size() - 1); }

  void read_essays() {
    const MakingSource source = ruler_source("niah_utils.niah_single_2", making_.options().data);
    require<DataError>(!source.files.empty(),
                       "the essays that hide the needles (data set baber/paul_graham_essays) are missing: "
                       "expected {}",
                       source.looked_for);
    std::string all;
    for (const Json& doc : read_documents(source.files)) {
      require<DataError>(doc.contains("text") && doc["text"].is_string(), "'{}': an essay without a text",
                         source.files.front().string());
      all += (all.empty() ? "" : " ") + doc["text"].get<std::string>();
    }
    static const PythonRegex kSpaces("\\s+");
    all = kSpaces.substitute(all, " ");
    for (const auto piece : pieces_of(all, " ")) essay_.emplace_back(piece);
  }

  std::string drawn(Drawn kind) {
    switch (kind) {
      case Drawn::kNumbers:
        return std::to_string(making_.python.integer(1'000'000, 9'999'999));
      case Drawn::kWords:
        return (*words_)[making_.python.below(words_->size())];
      case Drawn::kUuids:
        break;
    }
    return uuid_of(making_.python);
  }

  std::string needle(std::string_view key, std::string_view value) const {
    return filled(kNeedle, {{"type", plural()}, {"key", key}, {"value", value}});
  }

  // None: more needles than units of the haystack.
  std::optional<Text> make(std::int64_t units) {
    std::vector<std::string> keys, needles;
    std::vector<std::vector<std::string>> values;
    for (int k = 0; k < task_.keys; ++k) {
      keys.push_back(drawn(task_.key));
      values.emplace_back();
      for (int v = 0; v < task_.values; ++v) {
        values.back().push_back(drawn(task_.value));
        needles.push_back(needle(keys.back(), values.back().back()));
      }
    }
    PythonRandom(kShuffleSeed).shuffle(needles);
    std::string context;
    if (task_.haystack == Haystack::kEssay)
      context = among_essays(units, needles);
    else if (units < std::ssize(needles))
      return std::nullopt;
    else
      context = among_lines(units, needles);
    Text out;
    std::vector<std::string> queries;
    for (const std::size_t i : making_.python.sample(keys.size(), static_cast<std::size_t>(task_.queries))) {
      queries.push_back(keys[i]);
      for (const auto& value : values[i]) out.answers.push_back(value);
    }
    for (std::size_t i = 0; i < queries.size(); ++i)
      out.query += (i == 0 ? "" : i + 1 < queries.size() ? ", " : ", and ") + queries[i];
    const bool one = task_.queries * task_.values == 1;
    out.input = filled(one ? kTemplateOfOne : kTemplate,
                       {{"type", one ? singular() : plural()}, {"context", context}, {"query", out.query}});
    return out;
  }

  std::string among_essays(std::int64_t units, const std::vector<std::string>& needles) {
    const auto count = std::min(static_cast<std::size_t>(units), essay_.size());
    if (count != cut_) {
      std::string text;
      for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : " ") + essay_[i];
      sentences_.clear();
      for (const auto sentence : SentenceCutter::english().sentences(strip(text)))
        sentences_.emplace_back(sentence);
      cut_ = count;
    }
    constexpr std::size_t kDepths = 40;  // evenly from 0 to 100 percent
    std::vector<std::size_t> places{0};
    for (const std::size_t i : making_.python.sample(kDepths, needles.size())) {
      const double depth = std::nearbyint(static_cast<double>(i) * (100.0 / (kDepths - 1)));
      places.push_back(static_cast<std::size_t>(static_cast<double>(sentences_.size()) * (depth / 100)));
    }
    std::sort(places.begin() + 1, places.end());
    places.push_back(sentences_.size());
    std::string out;
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (i > 1) out += " ";
      for (std::size_t s = places[i - 1]; s < places[i]; ++s)
        out += (s == places[i - 1] ? "" : " ") + sentences_[s];
      if (i - 1 < needles.size()) out += " " + needles[i - 1];
    }
    return out;
  }

  std::string among_lines(std::int64_t units, const std::vector<std::string>& needles) {
    std::vector<std::string> lines;
    for (std::int64_t i = 0; i < units; ++i) {
      if (task_.haystack == Haystack::kRepeat) {
        lines.emplace_back(kNoise);
        continue;
      }
      const std::string key = drawn(task_.key);
      lines.push_back(needle(key, drawn(task_.value)));
    }
    auto places = making_.python.sample(static_cast<std::size_t>(units), needles.size());
    std::sort(places.rbegin(), places.rend());
    for (std::size_t i = 0; i < needles.size(); ++i)
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(places[i]), needles[i]);
    std::string out;
    for (std::size_t i = 0; i < lines.size(); ++i) out += (i == 0 ? "" : "\n") + lines[i];
    return out;
  }

  // Words or lines of the haystack that fill `longest` tokens.
  std::int64_t fitting_units(std::int64_t units, std::int64_t step, std::int64_t longest) {
    for (std::int64_t total = 0; total + kAnswerTokens < longest; units += step) {
      const std::optional<Text> text = make(units);
      std::string answers;
      for (const Json& answer : text->answers)
        answers += (answers.empty() ? "" : " ") + answer.get<std::string>();
      total = making_.tokens(text->input + answers);
      if (total + kAnswerTokens > longest) return units - step;
      if (task_.haystack == Haystack::kEssay && units > std::ssize(essay_)) return std::ssize(essay_);
      require<DataError>(units <= longest, "a haystack of {} sentences has {} tokens only", units, total);
    }
    return units;
  }

  Making& making_;
  const NeedleTask& task_;
  std::optional<JoinedWords> words_;
  std::vector<std::string> essay_, sentences_;
  std::size_t cut_ = 0;  // words of the essays that sentences_ holds
};

}  // namespace

std::vector<Json> make_needles(Making& making, std::string_view task) {
  NeedleTexts texts(making, needle_task(task));
  std::vector<Json> out;
  for (const std::int64_t length : making.lengths())
    for (Json& document : texts.of_length(length)) out.push_back(std::move(document));
  return out;
}

}  // namespace stoa::eval
