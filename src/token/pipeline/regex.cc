#include "token/pipeline/regex.h"

#include <oniguruma.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "token/unicode_properties.h"

namespace stoa::token {
namespace {

const OnigUChar* bytes_of(const char* p) { return reinterpret_cast<const OnigUChar*>(p); }

std::string onig_message(int code, OnigErrorInfo* about) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int n =
      about != nullptr ? onig_error_code_to_str(text, code, about) : onig_error_code_to_str(text, code);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(n)};
}

// Oniguruma's own tables are initialised once per process, by the first caller.
void initialize_oniguruma() {
  static const int done = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  require<InternalError>(done == ONIG_NORMAL, "Oniguruma cannot be initialised: {}", done);
}

// The character that stands for `c` in a search, so that every Oniguruma sees the classes of the same
// Unicode.
char32_t substitute_of(char32_t c) {
  const auto list = unicode_substitutes();
  const auto after = std::upper_bound(list.begin(), list.end(), c,
                                      [](char32_t at, const Substitute& s) { return at < s.first; });
  if (after == list.begin()) return c;
  const Substitute& s = *(after - 1);
  return c <= s.last ? s.with : c;
}

}  // namespace

struct RegexScratch::State {
  State() : region(onig_region_new()), param(onig_new_match_param()) {
    require<InternalError>(region != nullptr && param != nullptr, "no memory for a search");
    onig_initialize_match_param(param);
    onig_set_retry_limit_in_match_of_match_param(param, Regex::kRetryLimit);
  }
  ~State() {
    onig_region_free(region, 1);
    onig_free_match_param(param);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // `text`, or where it holds what this Oniguruma would take otherwise, a copy of the same length.
  std::string_view searchable(std::string_view text) {
    const auto high = [](char c) { return static_cast<signed char>(c) < 0; };
    if (std::none_of(text.begin(), text.end(), high)) return text;
    bool copied = false;
    for (const char *first = text.data(), *p = first, *end = p + text.size(); p < end;) {
      const CodePoint c = read_utf8(p, end);
      const char32_t with = !c.valid ? 1 : c.value < 0x400 ? c.value : substitute_of(c.value);
      if (!c.valid || with != c.value) {
        if (!copied) copy.assign(text);
        copied = true;
        character.clear();
        append_utf8(with, character);
        copy.replace(static_cast<std::size_t>(p - first), c.length, character);
      }
      p += c.length;
    }
    return copied ? std::string_view(copy) : text;
  }

  OnigRegion* region;
  OnigMatchParam* param;
  std::string copy, character;
};

RegexScratch::RegexScratch() = default;
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;

struct Regex::Program {
  explicit Program(regex_t* given) : regex(given) {}
  ~Program() { onig_free(regex); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  regex_t* regex;
};

Regex::Regex(std::string_view pattern, Dialect dialect) : pattern_(pattern) {
  initialize_oniguruma();
  OnigSyntaxType syntax;
  onig_copy_syntax(&syntax, ONIG_SYNTAX_DEFAULT);
  OnigOptionType options = ONIG_OPTION_NONE;
  if (dialect == Dialect::kTiktoken) {
    onig_set_syntax_op2(&syntax, onig_get_syntax_op2(&syntax) | ONIG_SYN_OP2_PLUS_POSSESSIVE_INTERVAL);
    options = ONIG_OPTION_SINGLELINE;
  }
  require<DataError>(simdjson::validate_utf8(pattern.data(), pattern.size()),
                     "the regular expression is not UTF-8 text");
  regex_t* regex = nullptr;
  OnigErrorInfo about;
  const int code = onig_new(&regex, bytes_of(pattern_.data()), bytes_of(pattern_.data() + pattern_.size()),
                            options, ONIG_ENCODING_UTF8, &syntax, &about);
  require<DataError>(code == ONIG_NORMAL, "'{}' is not a regular expression: {}", pattern,
                     code == ONIG_NORMAL ? "" : onig_message(code, &about));
  program_ = std::make_unique<const Program>(regex);
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, RegexScratch& scratch, std::vector<RegexMatch>& out) const {
  if (!scratch.state_) scratch.state_ = std::make_unique<RegexScratch::State>();
  RegexScratch::State& state = *scratch.state_;
  const std::string_view searched = state.searchable(text);
  const char *first = searched.data(), *end = first + searched.size();
  std::size_t at = 0;
  std::optional<std::size_t> last_end;
  while (at <= searched.size()) {
    const int code =
        onig_search_with_param(program_->regex, bytes_of(first), bytes_of(end), bytes_of(first + at),
                               bytes_of(end), state.region, ONIG_OPTION_NONE, state.param);
    if (code == ONIG_MISMATCH) return;
    require<DataError>(code >= 0,
                       "the regular expression '{}' of the tokenizer does not terminate on a text of {} "
                       "bytes, from byte {} on: {}",
                       pattern_, text.size(), at, code >= 0 ? "" : onig_message(code, nullptr));
    const auto begin = static_cast<std::size_t>(state.region->beg[0]);
    const auto stop = static_cast<std::size_t>(state.region->end[0]);
    if (begin == stop && last_end == stop) {
      at += at < searched.size() ? read_utf8(first + at, end).length : 1;
      continue;
    }
    out.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(stop)});
    at = stop;
    last_end = stop;
  }
}

void find_literal(std::string_view text, std::string_view literal, std::vector<RegexMatch>& out) {
  for (std::size_t at = 0; (at = text.find(literal, at)) != text.npos; at += literal.size())
    out.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + literal.size())});
}

}  // namespace stoa::token
