#include "curate/html/resiliparse_names.h"

#include <algorithm>
#include <bitset>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

#include "curate/html/tokenizer.h"
#include "curate/text/character.h"

namespace stoa::curate::resiliparse {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
bool is_joint(char c) { return c == '-' || c == '_'; }

// What stands before or behind a name.
enum class Edge : std::uint8_t {
  kAny,    // anything
  kSpace,  // the end of the text, or white space
  kJoint   // that, or a hyphen or an underscore
};

// Alternatives for one place of a name. In them ~ stands for one hyphen or underscore, ? for one or none, *
// for any number of them; small letters for those of either case.
using Words = std::initializer_list<std::string_view>;

bool opens(Edge edge, std::string_view text, std::size_t at) {
  if (edge == Edge::kAny || at == 0 || is_space(text[at - 1])) return true;
  return edge == Edge::kJoint && is_joint(text[at - 1]);
}

bool closes(Edge edge, std::string_view text, std::size_t at) {
  if (edge == Edge::kAny || at == text.size() || is_space(text[at])) return true;
  return edge == Edge::kJoint && is_joint(text[at]);
}

// Calls go_on(end) for every way in which text begins with the word at `at`; true as soon as that says so.
template <class GoOn>
bool matches(std::string_view word, std::string_view text, std::size_t at, const GoOn& go_on) {
  for (std::size_t i = 0; i < word.size(); ++i) {
    const std::string_view rest = word.substr(i + 1);
    const bool joint = at < text.size() && is_joint(text[at]);
    if (word[i] == '?' || word[i] == '*') {
      std::size_t behind = joint ? at + 1 : at;
      while (word[i] == '*' && behind < text.size() && is_joint(text[behind])) ++behind;
      for (; behind > at; --behind)
        if (matches(rest, text, behind, go_on)) return true;
      return matches(rest, text, at, go_on);
    }
    if (at == text.size() || (word[i] == '~' ? !joint : lower_ascii(text[at]) != word[i])) return false;
    ++at;
  }
  return go_on(at);
}

class Pattern {
 public:
  // `first` and `last` hold "" where they may be absent.
  Pattern(Edge before, Words first, Words word, Words last, Edge behind)
      : before_(before), behind_(behind), first_(first), word_(word), last_(last) {
    for (const std::string_view begin : first_)
      if (!begin.empty()) begins_.set(static_cast<unsigned char>(begin.front()));
    for (const std::string_view begin : word_) begins_.set(static_cast<unsigned char>(begin.front()));
  }

  bool is_in(std::string_view text) const {
    for (std::size_t begin = 0; begin < text.size(); ++begin)
      if (begins_[static_cast<unsigned char>(lower_ascii(text[begin]))] && opens(before_, text, begin) &&
          begins_at(begin, text))
        return true;
    return false;
  }

 private:
  bool begins_at(std::size_t begin, std::string_view text) const {
    const auto any = [](const auto& words, std::string_view in, std::size_t at, const auto& go_on) {
      return std::any_of(words.begin(), words.end(),
                         [&](std::string_view word) { return matches(word, in, at, go_on); });
    };
    return any(first_, text, begin, [&](std::size_t at) {
      return any(word_, text, at, [&](std::size_t then) {
        return any(last_, text, then, [&](std::size_t end) { return closes(behind_, text, end); });
      });
    });
  }

  Edge before_, behind_;
  std::vector<std::string_view> first_, word_, last_;
  std::bitset<256> begins_;  // letters that it may begin with
};

const Words kNone = {""};

// ad_ and hexadecimal digits, or ad at the very end.
bool names_ad(std::string_view text) {
  for (std::size_t at = 0; at + 2 <= text.size(); ++at) {
    if (!opens(Edge::kSpace, text, at) || lower_ascii(text[at]) != 'a' || lower_ascii(text[at + 1]) != 'd')
      continue;
    std::size_t end = at + 2;
    if (end == text.size()) return true;
    if (text[end++] != '_') continue;
    const std::size_t digits = end;
    while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end > digits && closes(Edge::kJoint, text, end)) return true;
  }
  return false;
}

std::span<const Pattern> patterns_of(Part part) {
  using enum Edge;
  switch (part) {
    case Part::kHidden: {
      static const Pattern kPatterns[] = {
          {kSpace,
           {"", "is~", "visually~"},
           {"display-none", "hidden", "invisible", "collapsed", "h-0", "nocontent", "expandable"},
           {"", "-xs", "-sm", "-lg", "-xl", "-2xl"},
           kSpace}};
      return kPatterns;
    }
    case Part::kSkipLink: {
      static const Words kFirst = {"", "link?"};
      static const Words kWord = {
          "skip", "skip?to",  "skip?link", "scroll?up",  "scroll?down",     "next",
          "prev", "previous", "permalink", "pagination", "skip-to-content", "skip-to-main-content"};
      static const Pattern kPatterns[] = {{kSpace, kFirst, kWord, kNone, kSpace},
                                          {kSpace, kFirst, kWord, {"?post", "?article"}, kAny}};
      return kPatterns;
    }
    case Part::kSignIn: {
      static const Pattern kPatterns[] = {{kJoint,
                                           kNone,
                                           {"log?in", "sign?in", "sign?up", "account", "user~info",
                                            "user~profile", "user~settings", "user~actions"},
                                           kNone,
                                           kJoint}};
      return kPatterns;
    }
    case Part::kSocial: {
      static const Words kWord = {"social",     "socialmedia",   "socialsearch", "share",
                                  "sharedaddy", "syndication",   "newsletter",   "sharing",
                                  "follow",     "email",         "like",         "likes",
                                  "feedback",   "give?feedback", "engagement",   "brand?engagement",
                                  "facebook",   "twitter",       "subscribe",    "wa",
                                  "jp",         "aptf-follow"};
      static const Words kLast = {"",       "?post", "?link",   "?links",   "?section", "?icon",
                                  "?icons", "?btn",  "?button", "?buttons", "?target"};
      static const Pattern kPatterns[] = {
          {kSpace, kNone, kWord, kLast, kJoint},
          {kAny, {"__", "--", "mobile-", "desktop-", "l-", "m-", "c-"}, kWord, kLast, kJoint}};
      return kPatterns;
    }
    case Part::kLogo: {
      static const Pattern kPatterns[] = {{kAny, kNone, {"logo"}, kNone, kSpace}};
      return kPatterns;
    }
    case Part::kAdvertisement: {
      static const Pattern kPatterns[] = {
          {kSpace,
           kNone,
           {"google?ad", "google?ads", "wide?ad", "wide?ads", "advert", "advertise", "advertisement",
            "advertiselink", "sponsor", "sponsored", "promoted", "paid", "banner", "widebanner", "donate"},
           kNone,
           kJoint}};
      return kPatterns;
    }
    case Part::kArticle: {
      static const Pattern kPatterns[] = {{kJoint,
                                           kNone,
                                           {"article", "entry", "post", "story", "single?post", "content",
                                            "main~content", "body", "text", "page"},
                                           kNone,
                                           kJoint}};
      return kPatterns;
    }
    case Part::kHeader: {
      static const Pattern kPatterns[] = {
          {kSpace,
           {"l*", "m*", "wp*", "global*", "page*", "site*", "full*", "sticky*"},
           {"header"},
           {"", "?wrap", "?wrapper", "bar"},
           kSpace}};
      return kPatterns;
    }
    case Part::kFooter: {
      static const Pattern kPatterns[] = {
          {kSpace,
           {"", "global?", "page?", "site?"},
           {"footer", "copyright", "cookie", "consent", "legal", "fcontainer"},
           {"", "~wrap", "~wrapper", "~container", "~banner", "~notice", "~bar", "~consent"},
           kSpace}};
      return kPatterns;
    }
    case Part::kNavigation: {
      static const Words kFirst = {"",      "l*",   "m*",       "wp*",     "main*",  "site*",
                                   "page*", "sub*", "article*", "global*", "sticky*"};
      static const Pattern kPatterns[] = {
          {kSpace,
           kFirst,
           {"nav", "navigation", "navbar"},
           {"", "~bar", "~menu", "~container", "~wrapper"},
           kSpace},
          {kSpace, kFirst, {"menu", "menu?item", "drop?down", "bread?crumb", "bread?crumbs"}, kNone, kSpace},
          {kSpace,
           kFirst,
           {"link?", "links?"},
           {"bar", "box", "list", "container", "section", "wrapper"},
           kSpace}};
      return kPatterns;
    }
    case Part::kRecommended: {
      static const Pattern kPatterns[] = {
          {kJoint,
           kNone,
           {"trends", "trending", "recommended", "featured", "popular", "editor~picks", "editors~picks",
            "related", "read-next"},
           kNone,
           kJoint},
          {kJoint, {"related?"}, {"links", "articles", "posts", "guides", "stories"}, kNone, kJoint}};
      return kPatterns;
    }
    case Part::kSearch: {
      static const Pattern kPatterns[] = {
          {kSpace, kNone, {"search"}, {"", "?bar", "?facility", "?box"}, kSpace}};
      return kPatterns;
    }
    case Part::kSidebar: {
      static const Pattern kPatterns[] = {
          {kSpace,
           {"", "l*", "wp*", "global*", "sticky*"},
           {"side?bar", "side?bars", "side?box", "sticky?bar", "sticky?bars", "sticky?box", "one-third"},
           kNone,
           kSpace}};
      return kPatterns;
    }
    case Part::kModal: {
      static const Pattern kPatterns[] = {{kSpace,
                                           {"", "wp-", "p-", "-l"},
                                           {"modal", "popup", "lightbox"},
                                           {"", "*window", "*pane", "*box"},
                                           kSpace}};
      return kPatterns;
    }
    case Part::kGallery: {
      static const Pattern kPatterns[] = {{kSpace, kNone, {"gallery", "carousel"}, kNone, kSpace}};
      return kPatterns;
    }
    case Part::kPrint: {
      static const Pattern kPatterns[] = {{kSpace, kNone, {"print~"}, kNone, kAny}};
      return kPatterns;
    }
  }
  return {};
}

}  // namespace

bool names(Part part, std::string_view text) {
  const std::span<const Pattern> patterns = patterns_of(part);
  return std::any_of(patterns.begin(), patterns.end(), [&](const Pattern& p) { return p.is_in(text); }) ||
         (part == Part::kAdvertisement && names_ad(text));
}

bool is_landmark(std::string_view id) {
  const auto whole = [&](std::size_t end) { return end == id.size(); };
  for (const std::string_view first : {"", "l*", "wp*", "global*", "page*", "site*", "full*", "sticky*"})
    for (const std::string_view word : {"head", "foot", "header", "footer", "right"})
      if (matches(first, id, 0, [&](std::size_t at) { return matches(word, id, at, whole); })) return true;
  return false;
}

bool is_main_class(std::string_view name) {
  static constexpr std::string_view kNames[] = {"article-body", "articleBody", "contentBody",  "article-text",
                                                "main-content", "postcontent", "post-content", "single-post"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// As display: none or visibility: hidden, with one blank at most on each side of the colon and behind it.
bool hides(std::string_view style) {
  const auto is_at = [&](std::size_t& at, std::string_view word) {
    if (!is_named(style.substr(at, word.size()), word)) return false;
    at += word.size();
    return true;
  };
  const auto skip_blank = [&](std::size_t at) {
    return at < style.size() && is_space(style[at]) ? at + 1 : at;
  };
  const auto is_declared = [&](std::size_t at, std::string_view name, std::string_view value) {
    if (!is_at(at, name)) return false;
    at = skip_blank(at);
    if (!is_at(at, ":")) return false;
    at = skip_blank(at);
    if (!is_at(at, value)) return false;
    if (at == style.size()) return true;
    at = skip_blank(at);
    return is_at(at, ";");
  };
  for (std::size_t begin = 0;;) {
    if (is_declared(begin, "display", "none") || is_declared(begin, "visibility", "hidden")) return true;
    begin = style.find(';', begin);
    if (begin == style.npos) return false;
    ++begin;
    while (begin < style.size() && is_space(style[begin])) ++begin;
  }
}

bool is_view_count_or_spinner(std::string_view classes) {
  for (std::size_t at = classes.find("short-view-count"); at != classes.npos;
       at = classes.find("short-view-count", at + 1))
    if (opens(Edge::kSpace, classes, at)) return true;
  for (std::size_t at = classes.find("spinner"); at != classes.npos; at = classes.find("spinner", at + 1))
    if (closes(Edge::kJoint, classes, at + 7)) return true;
  return false;
}

}  // namespace stoa::curate::resiliparse
