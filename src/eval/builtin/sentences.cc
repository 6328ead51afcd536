#include "eval/builtin/sentences.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <sstream>

#include "base/error.h"
#include "eval/python/regex.h"
#include "eval/python/text.h"

namespace stoa::eval {
namespace {

// Bits of the model: a capital or a small letter at the beginning of sentences, inside of them, at places
// that are not known.
constexpr int kInsideCapital = 1 << 2, kBeginSmall = 1 << 4;
constexpr int kCapital = 1 << 1 | kInsideCapital | 1 << 3, kSmall = kBeginSmall | 1 << 5 | 1 << 6;

// Characters that end a word where one may end a sentence.
constexpr std::string_view kAfterWords[] = {")", "\"", ";",      "}",      "]",      "*",      ":",
                                            "@", "'",  "(",      "{",      "[",      "\u2018", "\u2019",
                                            "?", "!",  "\u201c", "\u201d", "\u00ab", "\u00bb"};
constexpr std::string_view kClosing[] = {"\"",     "'",      ")",      "]",      "}",     "\u2018",
                                         "\u2019", "\u201c", "\u201d", "\u00ab", "\u00bb"};

std::size_t length_of_any(std::span<const std::string_view> marks, std::string_view text) {
  for (const std::string_view mark : marks)
    if (text.starts_with(mark)) return mark.size();
  return 0;
}

std::size_t spaces_at(std::string_view text) { return text.size() - strip_left(text).size(); }

// A mark that may end a sentence.
struct Candidate {
  std::size_t mark = 0;             // its place
  std::size_t after = 0;            // end of what decides with it
  std::optional<std::size_t> next;  // where the next word begins
};

std::vector<Candidate> candidates_in(std::string_view text) {
  std::vector<Candidate> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.' && text[i] != '?' && text[i] != '!') continue;
    const std::string_view rest = text.substr(i + 1);
    if (const std::size_t mark = length_of_any(kAfterWords, rest); mark > 0) {
      out.push_back({i, i + 1 + mark, std::nullopt});
    } else if (const std::size_t spaces = spaces_at(rest); spaces > 0 && spaces < rest.size()) {
      const std::size_t begin = i + 1 + spaces;
      out.push_back({i, begin + first_word(text.substr(begin)).size(), begin});
    }
  }
  return out;
}

std::vector<std::string> lines_of_file(const fs::path& path) {
  std::vector<std::string> out;
  std::istringstream text(read_text(path));
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) out.push_back(line);
  return out;
}

std::pair<std::string, std::string> two_columns(const std::string& line, const fs::path& path) {
  const std::size_t tab = line.find('\t');
  require<DataError>(tab != std::string::npos, "{}: '{}' has no tab", path.string(), line);
  return {line.substr(0, tab), line.substr(tab + 1)};
}

bool is_upper_first(std::string_view word) { return is_upper(first_character(word)); }
bool is_lower_first(std::string_view word) { return is_lower(first_character(word)); }

fs::path english_model() {
  std::vector<fs::path> folders;
  if (const char* given = std::getenv("NLTK_DATA"); given && *given)
    for (const std::string_view folder : pieces_of(given, ":")) folders.emplace_back(folder);
  if (const char* home = std::getenv("HOME"); home && *home) folders.push_back(fs::path(home) / "nltk_data");
  for (const char* folder : {"/usr/share/nltk_data", "/usr/local/share/nltk_data", "/usr/lib/nltk_data",
                             "/usr/local/lib/nltk_data"})
    folders.emplace_back(folder);
  for (const fs::path& folder : folders)
    if (fs::path model = folder / "tokenizers/punkt_tab/english"; fs::is_directory(model)) return model;
  fail<DataError>(
      "sentences are counted with NLTK's model of English, which is not here: expected "
      "tokenizers/punkt_tab/english in a folder of $NLTK_DATA or in ~/nltk_data (NLTK's package of data "
      "'punkt_tab')");
}

// One sentence into words (nltk/tokenize/destructive.py).
std::vector<std::string> words_of_sentence(std::string text) {
  static const RegexReplacements kBeforeQuotes{
      {"([«“‘„]|[`]+)", R"( \1 )"},
      {R"(^\")", "``"},
      {"(``)", R"( \1 )"},
      {R"(([ \(\[{<])(\"|\'{2}))", R"(\1 `` )"},
      {R"((?<!\w)(\')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w))", R"(\1 )", true},
      {R"(([^\.])(\.)([\]\)}>"'»”’ ]*)\s*$)", R"(\1 \2 \3 )"},
      {R"(([:,])([^\d]))", R"( \1 \2)"},
      {"([:,])$", R"( \1 )"},
      {R"(\.{2,})", R"( \g<0> )"},
      {"[;@#$%&]", R"( \g<0> )"},
      {"[\u2012-\u2015]", R"( \g<0> )"},
      {R"(([^\.])(\.)([\]\)}>"\']*)\s*$)", R"(\1 \2\3 )"},
      {"[?!]", R"( \g<0> )"},
      {"([^'])' ", R"(\1 ' )"},
      {"[*]", R"( \g<0> )"},
      {R"([\]\[\(\)\{\}\<\>])", R"( \g<0> )"},
      {"--", " -- "}},
      kQuotesAndContractions{{"([»”’])", R"( \1 )"},
                             {"''", " '' "},
                             {"\"", " '' "},
                             {R"(\s+)", " "},
                             {"([^' ])('[sS]|'[mM]|'[dD]|') ", R"(\1 \2 )"},
                             {"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", R"(\1 \2 )"},
                             {R"(\b(can)(not)\b)", R"( \1 \2 )", true},
                             {R"(\b(d)('ye)\b)", R"( \1 \2 )", true},
                             {R"(\b(gim)(me)\b)", R"( \1 \2 )", true},
                             {R"(\b(gon)(na)\b)", R"( \1 \2 )", true},
                             {R"(\b(got)(ta)\b)", R"( \1 \2 )", true},
                             {R"(\b(lem)(me)\b)", R"( \1 \2 )", true},
                             {R"(\b(more)('n)\b)", R"( \1 \2 )", true},
                             {R"(\b(wan)(na)(?=\s))", R"( \1 \2 )", true},
                             {R"( ('t)(is)\b)", R"( \1 \2 )", true},
                             {R"( ('t)(was)\b)", R"( \1 \2 )", true}};
  text = kQuotesAndContractions(" " + kBeforeQuotes(std::move(text)) + " ");
  std::vector<std::string> out;
  for (const std::string_view word : words_of(text)) out.emplace_back(word);
  return out;
}

}  // namespace

struct SentenceCutter::Token {
  std::string text, type;
  bool ends = false, abbreviation = false, ellipsis = false;

  std::string type_without_period() const {
    return type.size() > 1 && type.ends_with('.') ? type.substr(0, type.size() - 1) : type;
  }
  std::string type_in_sentence() const { return ends ? type_without_period() : type; }
  bool is_initial() const {
    const std::string_view letter = first_character(text);
    if (text.size() != letter.size() + 1 || text.back() != '.') return false;
    static const PythonRegex kLetter(R"([^\W\d])");
    return !kLetter.find_all(letter).empty();
  }
};

SentenceCutter::SentenceCutter(const fs::path& folder) {
  for (const std::string& line : lines_of_file(folder / "abbrev_types.txt")) abbreviations_.insert(line);
  for (const std::string& line : lines_of_file(folder / "sent_starters.txt")) starters_.insert(line);
  const fs::path collocations = folder / "collocations.tab", contexts = folder / "ortho_context.tab";
  for (const std::string& line : lines_of_file(collocations))
    collocations_.insert(two_columns(line, collocations));
  for (const std::string& line : lines_of_file(contexts)) {
    const auto [word, bits] = two_columns(line, contexts);
    require<DataError>(is_digits(bits) && bits.size() <= 3, "{}: '{}' is not a number of bits",
                       contexts.string(), bits);
    contexts_[word] = std::stoi(bits);
  }
}

const SentenceCutter& SentenceCutter::english() {
  static const SentenceCutter cutter(english_model());
  return cutter;
}

int SentenceCutter::context_of(const std::string& type) const {
  const auto it = contexts_.find(type);
  return it == contexts_.end() ? 0 : it->second;
}

int SentenceCutter::starts_sentence(const Token& token) const {
  if (token.text.size() == 1 && std::string_view(";:,.!?").find(token.text[0]) != std::string_view::npos)
    return 0;
  const int context = context_of(token.type_in_sentence());
  if (is_upper_first(token.text) && (context & kSmall) != 0 && (context & kInsideCapital) == 0) return 1;
  if (is_lower_first(token.text) && ((context & kCapital) != 0 || (context & kBeginSmall) == 0)) return 0;
  return -1;
}

// Words and marks of a context, with what each says by itself.
std::vector<SentenceCutter::Token> SentenceCutter::tokens_of(std::string_view context) const {
  static const std::string kMarks = R"((?:[)\";}\]\*:@\'\({\[)"
                                    "\u2018\u2019\u201c\u201d\u00ab\u00bb"
                                    R"(?!]))",
                           kRuns = R"((?:\-{2,}|\.{2,}|(?:\.\s){2,}\.))";
  static const PythonRegex kWords("(" + kRuns + R"(|(?=[^\(\"\`{\[:;&\#\*@\)}\]\-,])\S+?(?=\s|$|)" + kMarks +
                                  "|" + kRuns + R"(|,(?=$|\s|)" + kMarks + "|" + kRuns + R"())|\S))"),
      kNumber(R"(^-?[\.,]?\d[\d,\.-]*\.?$)");
  std::vector<Token> out;
  for (const std::string_view line : pieces_of(context, "\n")) {
    if (strip(line).empty()) continue;
    for (const auto& groups : kWords.find_all(line)) {
      Token token{groups[0], kNumber.substitute(lowered(groups[0]), "##number##"), false, false, false};
      const std::string& text = token.text;
      if (text == "." || text == "?" || text == "!") {
        token.ends = true;
      } else if (text.size() > 1 && text.find_first_not_of('.') == std::string::npos) {
        token.ellipsis = true;
      } else if (text.ends_with('.') && !text.ends_with("..")) {
        const std::string word = lowered(text.substr(0, text.size() - 1));
        token.abbreviation =
            abbreviations_.contains(word) || abbreviations_.contains(word.substr(word.rfind('-') + 1));
        token.ends = !token.abbreviation;
      }
      out.push_back(std::move(token));
    }
  }
  return out;
}

// What the word behind it says about a word with a period.
void SentenceCutter::decide(Token& token, const Token& next) const {
  if (!token.text.ends_with('.')) return;
  const std::string type = token.type_without_period(), next_type = next.type_in_sentence();
  const auto no_end = [&] {
    token.ends = false;
    token.abbreviation = true;
  };
  if (collocations_.contains({type, next_type})) return no_end();
  const bool initial = token.is_initial();
  if ((token.abbreviation || token.ellipsis) && !initial &&
      (starts_sentence(next) == 1 || (is_upper_first(next.text) && starters_.contains(next_type)))) {
    token.ends = true;
    return;
  }
  if (!initial && type != "##number##") return;
  const int starts = starts_sentence(next);
  if (starts == 0 ||
      (starts < 0 && initial && is_upper_first(next.text) && (context_of(next_type) & kSmall) == 0))
    no_end();
}

bool SentenceCutter::has_break(std::string_view context) const {
  std::vector<Token> tokens = tokens_of(context);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    decide(tokens[i], tokens[i + 1]);
    if (tokens[i].ends) return true;
  }
  return false;
}

std::vector<std::string_view> SentenceCutter::sentences(std::string_view text) const {
  // The word before each mark; of marks in one word only the last counts.
  struct Context {
    Candidate at;
    std::size_t begin = 0;
  };
  std::vector<Context> contexts;
  for (const Candidate& candidate : candidates_in(text)) {
    const std::size_t done = contexts.empty() ? 0 : contexts.back().at.mark;
    const std::size_t space = text.substr(done, candidate.mark - done).find_last_of(" \t\n\r\v\f");
    std::size_t begin = contexts.empty() ? 0 : contexts.back().begin;
    if (space != std::string_view::npos && space > 0) begin = done + space + 1;
    if (!contexts.empty() && done > begin) contexts.pop_back();
    contexts.push_back({candidate, begin});
  }
  std::vector<std::pair<std::size_t, std::size_t>> slices;
  std::size_t last = 0;
  for (const auto& [at, begin] : contexts)
    if (has_break(text.substr(begin, at.after - begin))) {
      slices.emplace_back(last, at.mark + 1);
      last = at.next.value_or(at.mark + 1);
    }
  slices.emplace_back(last, strip_right(text).size());
  // Closing marks at the beginning of a sentence belong to the one before.
  std::vector<std::string_view> out;
  std::size_t moved = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const std::size_t begin = slices[i].first + moved, end = slices[i].second;
    moved = 0;
    const auto part = [&](std::size_t from, std::size_t to) {
      return from < to ? text.substr(from, to - from) : std::string_view();
    };
    if (i + 1 == slices.size()) {
      if (!part(begin, end).empty()) out.push_back(part(begin, end));
      break;
    }
    const std::string_view next = part(slices[i + 1].first, slices[i + 1].second);
    std::size_t closing = 0;
    bool closes = false;
    for (std::size_t n = length_of_any(kClosing, next); n > 0 && !closes;
         n = length_of_any(kClosing, next.substr(closing))) {
      closing += n;
      const std::string_view rest = next.substr(closing);
      closes = rest.empty() || spaces_at(rest) > 0 || rest.starts_with("--");
    }
    if (closes) {
      out.push_back(part(begin, slices[i + 1].first + closing));
      moved = closing + spaces_at(next.substr(closing));
    } else if (!part(begin, end).empty()) {
      out.push_back(part(begin, end));
    }
  }
  return out;
}

std::vector<std::string> SentenceCutter::words(std::string_view text) const {
  std::vector<std::string> out;
  for (const std::string_view sentence : sentences(text))
    for (std::string& word : words_of_sentence(std::string(sentence))) out.push_back(std::move(word));
  return out;
}

}  // namespace stoa::eval
