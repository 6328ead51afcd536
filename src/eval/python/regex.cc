#include "eval/python/regex.h"

#include <oniguruma.h>

#include "base/error.h"

namespace stoa::eval {
namespace {

constexpr unsigned long kMostRetries = 10'000'000;

const OnigUChar* onig_bytes(const char* p) { return reinterpret_cast<const OnigUChar*>(p); }

void begin_oniguruma() {
  static const int done = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  require<InternalError>(done == ONIG_NORMAL, "Oniguruma cannot be initialised: {}", done);
}

std::string onig_problem(int code, OnigErrorInfo* about) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int n =
      about != nullptr ? onig_error_code_to_str(text, code, about) : onig_error_code_to_str(text, code);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(n)};
}

}  // namespace

struct PythonRegex::Program {
  std::string pattern;
  regex_t* compiled = nullptr;
  ~Program() { onig_free(compiled); }
};

PythonRegex::PythonRegex(std::string_view pattern, bool ignore_case) {
  begin_oniguruma();
  auto program = std::make_unique<Program>();
  program->pattern = pattern;
  OnigErrorInfo about;
  const int code =
      onig_new(&program->compiled, onig_bytes(pattern.data()), onig_bytes(pattern.data() + pattern.size()),
               ONIG_OPTION_CAPTURE_GROUP | (ignore_case ? ONIG_OPTION_IGNORECASE : ONIG_OPTION_NONE),
               ONIG_ENCODING_UTF8, ONIG_SYNTAX_PYTHON, &about);
  require<DataError>(code == ONIG_NORMAL, "the regular expression '{}' cannot be read: {}", pattern,
                     onig_problem(code, &about));
  program_ = std::move(program);
}

PythonRegex::~PythonRegex() = default;
PythonRegex::PythonRegex(PythonRegex&&) noexcept = default;

std::vector<PythonRegex::Match> PythonRegex::matches(std::string_view text, std::size_t most) const {
  struct Region {
    OnigRegion* region = onig_region_new();
    OnigMatchParam* param = onig_new_match_param();
    ~Region() {
      onig_region_free(region, 1);
      onig_free_match_param(param);
    }
  } memory;
  onig_initialize_match_param(memory.param);
  onig_set_retry_limit_in_match_of_match_param(memory.param, kMostRetries);
  const OnigUChar *begin = onig_bytes(text.data()), *end = begin + text.size();
  std::vector<Match> out;
  // An empty match may follow another match (Python 3.7 and later), but not an empty one at the same place.
  std::ptrdiff_t from = 0, empty_at = -1;
  while (from <= static_cast<std::ptrdiff_t>(text.size()) && (most == 0 || out.size() < most)) {
    const int at = onig_search_with_param(program_->compiled, begin, end, begin + from, end, memory.region,
                                          ONIG_OPTION_NONE, memory.param);
    if (at == ONIG_MISMATCH) break;
    require<DataError>(at >= 0, "the regular expression '{}' fails on a text: {}", program_->pattern,
                       onig_problem(at, nullptr));
    const OnigRegion& r = *memory.region;
    Match match;
    for (int g = 0; g < r.num_regs; ++g) match.groups.emplace_back(r.beg[g], r.end[g]);
    const auto [first, last] = match.groups[0];
    if (first == last && first == empty_at) {
      ++from;
      while (from < static_cast<std::ptrdiff_t>(text.size()) &&
             (static_cast<unsigned char>(text[static_cast<std::size_t>(from)]) & 0xC0U) == 0x80U)
        ++from;
      empty_at = -1;
      continue;
    }
    out.push_back(std::move(match));
    from = last;
    if (first == last) empty_at = last;
  }
  return out;
}

std::vector<std::vector<std::string>> PythonRegex::find_all(std::string_view text) const {
  std::vector<std::vector<std::string>> out;
  const auto part = [&](std::pair<std::ptrdiff_t, std::ptrdiff_t> g) {
    return g.first < 0 ? std::string()
                       : std::string(text.substr(static_cast<std::size_t>(g.first),
                                                 static_cast<std::size_t>(g.second - g.first)));
  };
  for (const Match& match : matches(text, 0)) {
    auto& groups = out.emplace_back();
    for (std::size_t g = match.groups.size() > 1 ? 1 : 0; g < match.groups.size(); ++g)
      groups.push_back(part(match.groups[g]));
  }
  return out;
}

std::string PythonRegex::substitute(std::string_view text, std::string_view with, std::size_t most) const {
  std::string out;
  std::size_t done = 0;
  for (const Match& match : matches(text, most)) {
    const auto group = [&](std::size_t g) {
      require<DataError>(g < match.groups.size(), "'{}' names group {}, which '{}' does not have", with, g,
                         program_->pattern);
      const auto [b, e] = match.groups[g];
      if (b >= 0) out += text.substr(static_cast<std::size_t>(b), static_cast<std::size_t>(e - b));
    };
    out += text.substr(done, static_cast<std::size_t>(match.groups[0].first) - done);
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (with[i] != '\\' || i + 1 == with.size()) {
        out += with[i];
        continue;
      }
      const char c = with[++i];
      if (c >= '1' && c <= '9') {
        group(static_cast<std::size_t>(c - '0'));
      } else if (c == 'g' && i + 3 < with.size() && with[i + 1] == '<' && with[i + 3] == '>' &&
                 with[i + 2] >= '0' && with[i + 2] <= '9') {
        group(static_cast<std::size_t>(with[i + 2] - '0'));
        i += 3;
      } else if (c == 'n' || c == 't' || c == '\\') {
        out += c == 'n' ? '\n' : c == 't' ? '\t' : '\\';
      } else {
        fail<DataError>("'{}': '\\{}' is not supported in a replacement", with, c);
      }
    }
    done = static_cast<std::size_t>(match.groups[0].second);
  }
  return out += text.substr(done);
}

RegexReplacements::RegexReplacements(std::initializer_list<Rule> rules) {
  for (const Rule& rule : rules) rules_.emplace_back(PythonRegex(rule.pattern, rule.ignore_case), rule.with);
}

std::string RegexReplacements::operator()(std::string text) const {
  for (const auto& [pattern, with] : rules_) text = pattern.substitute(text, with);
  return text;
}

}  // namespace stoa::eval
