#include "curate/html/tags.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "curate/text/character.h"

namespace stoa::curate {
namespace {

// In the order of Tag, which is that of the alphabet.
constexpr std::string_view kNames[] = {
    "",           "a",        "address",  "area",       "article", "aside",    "audio",  "b",      "base",
    "blockquote", "body",     "br",       "button",     "canvas",  "caption",  "center", "code",   "col",
    "colgroup",   "datalist", "dd",       "details",    "dialog",  "dir",      "div",    "dl",     "dt",
    "em",         "embed",    "fieldset", "figcaption", "figure",  "footer",   "form",   "frame",  "frameset",
    "h1",         "h2",       "h3",       "h4",         "h5",      "h6",       "head",   "header", "hgroup",
    "hr",         "html",     "i",        "iframe",     "img",     "input",    "keygen", "label",  "layer",
    "legend",     "li",       "link",     "main",       "marquee", "math",     "menu",   "meta",   "nav",
    "noembed",    "noframes", "noscript", "object",     "ol",      "optgroup", "option", "p",      "param",
    "plaintext",  "pre",      "samp",     "script",     "section", "select",   "source", "span",   "strong",
    "style",      "sub",      "summary",  "sup",        "svg",     "table",    "tbody",  "td",     "template",
    "textarea",   "tfoot",    "th",       "thead",      "time",    "title",    "tr",     "track",  "tt",
    "u",          "ul",       "video",    "wbr",        "xmp"};
static_assert(std::size(kNames) == kTags);
static_assert(std::is_sorted(std::begin(kNames), std::end(kNames)));

enum : std::uint8_t { kVoidBit = 1, kRawBit = 2, kTitleBit = 4, kBlockBit = 8 };

constexpr std::array<std::uint8_t, kTags> kBits = [] {
  std::array<std::uint8_t, kTags> bits{};
  const auto set = [&](std::uint8_t bit, auto... tags) {
    ((bits[static_cast<std::size_t>(tags)] |= bit), ...);
  };
  using enum Tag;
  set(kVoidBit, kArea, kBase, kBr, kCol, kEmbed, kFrame, kHr, kImg, kInput, kKeygen, kLink, kMeta, kParam,
      kSource, kTrack, kWbr);
  set(kRawBit, kScript, kStyle, kXmp, kIframe, kNoembed, kNoframes, kPlaintext);
  set(kTitleBit, kTextarea, kTitle);
  set(kBlockBit, kAddress, kArticle, kAside, kBlockquote, kBody, kCaption, kCenter, kDd, kDetails, kDialog,
      kDir, kDiv, kDl, kDt, kFieldset, kFigcaption, kFigure, kFooter, kForm, kH1, kH2, kH3, kH4, kH5, kH6,
      kHeader, kHgroup, kHr, kHtml, kLegend, kLi, kMain, kMenu, kNav, kOl, kOptgroup, kOption, kP, kPre,
      kSection, kSummary, kTable, kTbody, kTd, kTextarea, kTfoot, kTh, kThead, kTitle, kTr, kUl, kXmp);
  return bits;
}();

bool has(Tag tag, std::uint8_t bit) { return (kBits[static_cast<std::size_t>(tag)] & bit) != 0; }

}  // namespace

Tag tag_of(std::string_view name) {
  constexpr std::size_t kLongest = 10;
  char lower[kLongest];
  if (name.empty() || name.size() > kLongest) return Tag::kUnknown;
  std::transform(name.begin(), name.end(), lower, [](char c) { return lower_ascii(c); });
  const std::string_view wanted(lower, name.size());
  const auto* found = std::lower_bound(std::begin(kNames), std::end(kNames), wanted);
  return found != std::end(kNames) && *found == wanted ? static_cast<Tag>(found - std::begin(kNames))
                                                       : Tag::kUnknown;
}

std::string_view name_of(Tag tag) { return kNames[static_cast<std::size_t>(tag)]; }
bool is_void(Tag tag) { return has(tag, kVoidBit); }
bool is_raw_text(Tag tag) { return has(tag, kRawBit); }
bool is_title_text(Tag tag) { return has(tag, kTitleBit); }
bool is_block(Tag tag) { return has(tag, kBlockBit); }
bool is_heading(Tag tag) { return tag >= Tag::kH1 && tag <= Tag::kH6; }

}  // namespace stoa::curate
