#include "curate/wiki/dump.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "curate/html/entities.h"
#include "curate/html/tokenizer.h"
#include "curate/text/character.h"
#include "curate/wiki/namespaces.h"
#include "data/text_source.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kRead = 1 << 16;
constexpr std::string_view kPage = "<page>", kPageEnd = "</page>", kExportEnd = "</mediawiki>";

// What stands between <name …> and </name>, references resolved; false where there is no such element.
bool element(std::string_view xml, std::string_view name, std::string& content) {
  for (std::size_t at = xml.find('<'); at != xml.npos; at = xml.find('<', at + 1)) {
    const std::string_view rest = xml.substr(at + 1);
    if (!rest.starts_with(name) || rest.size() == name.size()) continue;
    const char after = rest[name.size()];
    if (after != '>' && after != ' ' && after != '/') continue;
    const std::size_t end = rest.find('>');
    if (end == rest.npos) return false;
    content.clear();
    if (rest[end - 1] == '/') return true;
    const std::string_view inside = rest.substr(end + 1);
    append_unescaped(inside.substr(0, inside.find(fmt::format("</{}>", name))), content);
    return true;
  }
  return false;
}

std::string attribute(std::string_view tag, std::string_view name) {
  const std::string mark = fmt::format(" {}=\"", name);
  const std::size_t at = tag.find(mark);
  if (at == tag.npos) return {};
  const std::string_view rest = tag.substr(at + mark.size());
  return std::string(rest.substr(0, rest.find('"')));
}

void add_lower(std::string_view name, std::vector<std::string>& names) {
  std::string lower;
  append_lower(name, lower);
  if (!lower.empty() && std::find(names.begin(), names.end(), lower) == names.end())
    names.push_back(std::move(lower));
}

// Names with | between them.
void add_names(std::string_view list, std::vector<std::string>& names) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find('|'), list.size());
    add_lower(list.substr(0, end), names);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

bool begins_redirect(std::string_view text) {
  text = strip_left(text);
  constexpr std::string_view kMark = "#redirect";
  return text.size() > kMark.size() && is_named(text.substr(0, kMark.size()), kMark);
}

}  // namespace

WikiSite read_wiki_site(std::string_view head) {
  WikiSite site;
  const std::size_t root = head.find("<mediawiki");
  if (root != head.npos)
    site.language = attribute(head.substr(root, head.find('>', root) - root), "xml:lang");
  std::string name;
  if (site.language.empty() && element(head, "dbname", name) && name.ends_with("wiki"))
    site.language = name.substr(0, name.size() - 4);
  if (element(head, "base", name) && name.find('/') != name.npos)
    site.base = name.substr(0, name.rfind('/') + 1);
  for (const WikiNames& names : wiki_names())
    if (names.language.empty() || names.language == site.language) {
      add_names(names.files, site.file_names);
      add_names(names.categories, site.category_names);
    }
  constexpr std::string_view kNamespace = "<namespace ";
  for (std::size_t at = head.find(kNamespace); at != head.npos; at = head.find(kNamespace, at + 1)) {
    const std::string_view rest = head.substr(at);
    const std::string key = attribute(rest.substr(0, rest.find('>')), "key");
    if (key != "6" && key != "14") continue;
    if (element(rest, "namespace", name)) add_lower(name, key == "6" ? site.file_names : site.category_names);
  }
  return site;
}

WikiPage read_wiki_page(std::string_view xml) {
  WikiPage page;
  const std::size_t revision = std::min(xml.rfind("<revision>"), xml.size());
  const std::string_view head = xml.substr(0, std::min(xml.find("<revision>"), xml.size()));
  const std::string_view last = xml.substr(revision);
  require<DataError>(element(head, "title", page.title), "a page without a title");
  require<DataError>(element(last, "text", page.text), "page '{}' has no text", page.title);
  element(head, "id", page.id);
  element(last, "timestamp", page.date);
  std::string value;
  if (element(head, "ns", value)) std::from_chars(value.data(), value.data() + value.size(), page.name_space);
  page.is_redirect = element(head, "redirect", value) || begins_redirect(page.text);
  page.is_wikitext = !element(last, "model", value) || value == "wikitext";
  return page;
}

std::string wiki_address(const WikiSite& site, std::string_view title) {
  if (site.base.empty()) return {};
  std::string address = site.base;
  for (const char c : title) {
    if (is_ascii_alphanumeric(c) || std::string_view("-_.~;@$!*(),/:").find(c) != std::string_view::npos)
      address += c;
    else if (c == ' ')
      address += '_';
    else
      address += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return address;
}

WikiReader::WikiReader(const fs::path& path)
    : path_(path), source_(data::open_text(path, {.name = "auto", .line_ends = false})) {}

bool WikiReader::fill() {
  if (begin_ > kRead && begin_ > buffer_.size() / 2) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const std::size_t had = buffer_.size();
  buffer_.resize(had + kRead);
  buffer_.resize(had + source_->read(buffer_.data() + had, kRead));
  return buffer_.size() > had;
}

std::size_t WikiReader::find(std::string_view mark, std::size_t most) {
  for (std::size_t searched = 0;;) {
    const std::size_t at = std::string_view(buffer_).substr(begin_).find(mark, searched);
    if (at != std::string::npos) return at;
    const std::size_t left = buffer_.size() - begin_;
    require<DataError>(left <= most, "'{}': no {} in {} bytes", path_.string(), mark, most);
    searched = left - std::min(left, mark.size() - 1);
    if (!fill()) return std::string::npos;
  }
}

bool WikiReader::next(std::string_view& page) {
  std::size_t at = find(kPage, site_ ? kLongestPage : kLongestHead);
  const std::string_view before = std::string_view(buffer_).substr(begin_, at);
  if (!site_) {
    require<DataError>(before.find("<mediawiki") != before.npos, "'{}' is no export of MediaWiki",
                       path_.string());
    site_ = std::make_shared<const WikiSite>(read_wiki_site(before));
  }
  if (at == std::string::npos) {
    require<DataError>(before.find(kExportEnd) != before.npos, "'{}' is truncated: it ends without {}",
                       path_.string(), kExportEnd);
    return false;
  }
  begin_ += at;
  at = find(kPageEnd, kLongestPage);
  require<DataError>(at != std::string::npos, "'{}' is truncated: it ends within a page", path_.string());
  page = std::string_view(buffer_).substr(begin_, at + kPageEnd.size());
  begin_ += page.size();
  return true;
}

}  // namespace stoa::curate
