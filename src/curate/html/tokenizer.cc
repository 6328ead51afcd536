#include "curate/html/tokenizer.h"

#include <algorithm>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

}  // namespace

bool is_named(std::string_view name, std::string_view lower) {
  return name.size() == lower.size() && std::equal(name.begin(), name.end(), lower.begin(),
                                                   [](char a, char b) { return lower_ascii(a) == b; });
}

bool HtmlTokenizer::next(HtmlToken& token) {
  if (content_of_ != Tag::kUnknown && next_content(token)) return true;
  while (at_ < html_.size()) {
    if (html_[at_] == '<') {
      const char c = at_ + 1 < html_.size() ? html_[at_ + 1] : ' ';
      if (is_ascii_letter(c)) return read_tag(token);
      if (c == '/' && at_ + 2 < html_.size() && is_ascii_letter(html_[at_ + 2])) return read_tag(token);
      if (c == '!' || c == '?' || c == '/') {
        skip_markup();
        continue;
      }
    }
    // Text up to the next < that begins something.
    std::size_t end = at_ + 1;
    for (;; ++end) {
      end = std::min(html_.find('<', end), html_.size());
      if (end + 1 >= html_.size()) {
        end = html_.size();
        break;
      }
      const char c = html_[end + 1];
      if (is_ascii_letter(c) || c == '/' || c == '!' || c == '?') break;
    }
    token = {};
    token.text = html_.substr(at_, end - at_);
    at_ = end;
    return true;
  }
  return false;
}

void HtmlTokenizer::skip_markup() {
  const std::string_view rest = html_.substr(at_);
  if (rest.starts_with("<!-->")) {
    at_ += 5;
    return;
  }
  if (rest.starts_with("<!--") && has_comment_end_) {
    const std::size_t end = html_.find("-->", at_ + 4);
    has_comment_end_ = end != html_.npos;
    if (has_comment_end_) {
      at_ = end + 3;
      return;
    }
  }
  // Also a comment that is not ended, so that the page is not lost in it.
  const std::size_t end = html_.find('>', at_ + 1);
  at_ = end == html_.npos ? html_.size() : end + 1;
}

bool HtmlTokenizer::next_content(HtmlToken& token) {
  const Tag of = content_of_;
  content_of_ = Tag::kUnknown;
  const std::string_view name = name_of(of);
  std::size_t end = at_;
  for (;; ++end) {
    end = of == Tag::kPlaintext ? html_.size() : std::min(html_.find("</", end), html_.size());
    if (end == html_.size()) break;
    const std::string_view rest = html_.substr(end + 2);
    if (is_named(rest.substr(0, name.size()), name) &&
        (rest.size() == name.size() || is_blank(rest[name.size()]) || rest[name.size()] == '>' ||
         rest[name.size()] == '/'))
      break;
  }
  if (end == at_) return false;
  token = {};
  token.text = html_.substr(at_, end - at_);
  token.is_raw = is_raw_text(of);
  at_ = end;
  return true;
}

bool HtmlTokenizer::read_tag(HtmlToken& token) {
  token = {};
  const bool ends = html_[at_ + 1] == '/';
  token.kind = ends ? HtmlToken::Kind::kEnd : HtmlToken::Kind::kStart;
  const std::size_t begin = at_ + (ends ? 2 : 1);
  std::size_t p = begin;
  while (p < html_.size() && !is_blank(html_[p]) && html_[p] != '>' && html_[p] != '/') ++p;
  token.name = html_.substr(begin, p - begin);
  token.tag = tag_of(token.name);
  const std::size_t attributes = p;
  // A > within the quotes of a value does not end the tag.
  for (bool value_begins = false; p < html_.size() && html_[p] != '>'; ++p) {
    const char c = html_[p];
    if (value_begins && (c == '"' || c == '\'')) {
      const std::size_t quote = html_.find(c, p + 1);
      if (quote == html_.npos) {  // never closed: the tag ends at the next >
        p = std::min(html_.find('>', p), html_.size());
        break;
      }
      p = quote;
      value_begins = false;
    } else if (c == '=') {
      value_begins = true;
    } else if (!is_blank(c)) {
      value_begins = false;
    }
  }
  token.attributes = html_.substr(attributes, p - attributes);
  at_ = std::min(p + 1, html_.size());
  if (!ends && (is_raw_text(token.tag) || is_title_text(token.tag))) content_of_ = token.tag;
  return true;
}

}  // namespace stoa::curate
