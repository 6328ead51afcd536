#include "curate/html/page_parts.h"

#include <algorithm>
#include <iterator>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

// Words of a part that is not the main text.
constexpr std::string_view kBoilerplateWords[] = {"ad",
                                                  "ads",
                                                  "advert",
                                                  "advertisement",
                                                  "advertising",
                                                  "adverts",
                                                  "alert",
                                                  "banner",
                                                  "breadcrumb",
                                                  "breadcrumbs",
                                                  "bylines",
                                                  "comment",
                                                  "comments",
                                                  "consent",
                                                  "cookie",
                                                  "cookies",
                                                  "copyright",
                                                  "disclaimer",
                                                  "disqus",
                                                  "footer",
                                                  "foot",
                                                  "gdpr",
                                                  "headerlink",
                                                  "login",
                                                  "masthead",
                                                  "menu",
                                                  "menubar",
                                                  "modal",
                                                  "nav",
                                                  "navbar",
                                                  "navfooter",
                                                  "navheader",
                                                  "navi",
                                                  "navigation",
                                                  "newsletter",
                                                  "outbrain",
                                                  "overlay",
                                                  "pager",
                                                  "paginate",
                                                  "pagination",
                                                  "popup",
                                                  "promo",
                                                  "promoted",
                                                  "promotion",
                                                  "recommend",
                                                  "recommendation",
                                                  "recommendations",
                                                  "recommended",
                                                  "related",
                                                  "share",
                                                  "sharebar",
                                                  "sharing",
                                                  "sidebar",
                                                  "sidenav",
                                                  "signin",
                                                  "signup",
                                                  "sitemap",
                                                  "skip",
                                                  "skiplink",
                                                  "social",
                                                  "sphinxsidebar",
                                                  "sponsor",
                                                  "sponsored",
                                                  "subscribe",
                                                  "subscription",
                                                  "taboola",
                                                  "tags",
                                                  "teaser",
                                                  "toc",
                                                  "toolbar",
                                                  "tooltip",
                                                  "topbar",
                                                  "topnav",
                                                  "trending",
                                                  "widget",
                                                  "widgets"};

constexpr std::string_view kRoles[] = {"alert",  "alertdialog", "banner",  "complementary", "contentinfo",
                                       "dialog", "directory",   "menu",    "menubar",       "navigation",
                                       "search", "status",      "tablist", "toolbar",       "tooltip"};

template <std::size_t N>
bool is_in(const std::string_view (&list)[N], std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

}  // namespace

// Words are pieces of letters, cut where a capital follows a small letter: navBar-left has nav, bar and left.
bool is_named_as_boilerplate(std::string_view text) {
  std::string word;
  char before = ' ';
  for (const char c : text) {
    const bool capital = c >= 'A' && c <= 'Z', small = c >= 'a' && c <= 'z';
    if ((!capital && !small) || (capital && before >= 'a' && before <= 'z')) {
      if (is_in(kBoilerplateWords, word)) return true;
      word.clear();
    }
    if (capital || small) word += lower_ascii(c);
    before = c;
  }
  return is_in(kBoilerplateWords, word);
}

bool is_hidden_element(const HtmlTree& tree, NodeId id) {
  bool hidden = false;
  each_attribute(tree[id].attributes, [&](std::string_view name, std::string_view value) {
    if (is_named(name, "hidden")) hidden = !is_named(value, "until-found");
    if (is_named(name, "aria-hidden")) hidden = is_named(value, "true");
    if (is_named(name, "role")) hidden = is_in(kRoles, value);
    if (is_named(name, "style")) {
      std::string style;
      for (const char c : value)
        if (c != ' ') style += lower_ascii(c);
      hidden = style.find("display:none") != style.npos || style.find("visibility:hidden") != style.npos;
    }
    return !hidden;
  });
  return hidden;
}

}  // namespace stoa::curate
