#include "token/decoders/words.h"

#include <algorithm>

namespace stoa::token {
namespace {

// From left to right, never within what was put in.
void replace_every(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) {
    // The library puts it around every character.
    std::string out(to);
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
      const std::uint32_t n = read_utf8(p, end).length;
      out.append(p, n).append(to);
      p += n;
    }
    text.swap(out);
    return;
  }
  std::size_t at = text.find(from);
  if (at == text.npos) return;
  std::string out;
  std::size_t done = 0;
  for (; at != text.npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  out.append(text, done);
  text.swap(out);
}

}  // namespace

void clean_up_blanks(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kCleanups[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kCleanups) replace_every(text, from, to);
}

void WordPieceDecoder::apply(std::vector<std::string>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) {
      if (tokens[i].starts_with(prefix_))
        tokens[i].erase(0, prefix_.size());
      else
        tokens[i].insert(0, " ");
    }
    if (cleanup_) clean_up_blanks(tokens[i]);
  }
}

MetaspaceDecoder::MetaspaceDecoder(char32_t replacement, PrependScheme scheme) : scheme_(scheme) {
  append_utf8(replacement, replacement_);
}

void MetaspaceDecoder::apply(std::vector<std::string>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    replace_every(tokens[i], replacement_, i == 0 && scheme_ != PrependScheme::kNever ? "" : " ");
}

void SuffixDecoder::apply(std::vector<std::string>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    replace_every(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
}

void CtcDecoder::apply(std::vector<std::string>& tokens) const {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (std::string& token : tokens) {
    replace_every(token, pad_, "");
    if (!cleanup_) continue;
    clean_up_blanks(token);
    replace_every(token, delimiter_, " ");
  }
  std::erase(tokens, "");
}

void ReplaceDecoder::apply(std::vector<std::string>& tokens) const {
  RegexScratch scratch;
  std::vector<RegexMatch> matches;
  std::string out;
  for (std::string& token : tokens) {
    if (token.empty()) continue;
    matches.clear();
    pattern_.find_all(token, scratch, matches);
    if (matches.empty()) continue;
    out.clear();
    std::size_t done = 0;
    for (const RegexMatch& m : matches) {
      out.append(token, done, m.begin - done).append(content_);
      done = m.end;
    }
    out.append(token, done);
    token.swap(out);
  }
}

StripDecoder::StripDecoder(char32_t content, std::uint64_t start, std::uint64_t stop)
    : start_(start), stop_(stop) {
  append_utf8(content, content_);
}

void StripDecoder::apply(std::vector<std::string>& tokens) const {
  for (std::string& token : tokens) {
    std::size_t begin = 0, end = token.size();
    for (std::uint64_t n = 0; n < start_ && token.compare(begin, content_.size(), content_) == 0; ++n)
      begin += content_.size();
    for (std::uint64_t n = 0; n < stop_ && end >= begin + content_.size() &&
                              token.compare(end - content_.size(), content_.size(), content_) == 0;
         ++n)
      end -= content_.size();
    token = token.substr(begin, end - begin);
  }
}

void FuseDecoder::apply(std::vector<std::string>& tokens) const {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.assign(1, std::move(all));
}

}  // namespace stoa::token
