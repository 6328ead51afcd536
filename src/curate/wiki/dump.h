// Exports of MediaWiki, such as Wikipedia's dumps (pages-articles.xml.bz2, also in many streams): what a site
// calls its namespaces, then pages with their wikitext.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/byte_source.h"

namespace stoa::curate {

struct WikiSite {
  std::string language;  // "en"; empty: not known
  std::string base;      // of addresses of pages: "https://en.wikipedia.org/wiki/"; empty: not known
  // Names of the namespaces of files and categories in small letters: English ones, the site's own, and those
  // that it had in earlier years.
  std::vector<std::string> file_names, category_names;
};
// What stands before the first page.
WikiSite read_wiki_site(std::string_view head);

struct WikiPage {
  std::string title, id, date;  // date: of the revision
  std::string text;             // wikitext, of the last revision
  std::int64_t name_space = 0;  // its number: 0 articles, 1 their talk pages, 10 templates …
  bool is_redirect = false, is_wikitext = true;
};
// `xml`: from <page> to </page>. DataError: a page without title or text.
WikiPage read_wiki_page(std::string_view xml);

// The address of a page as MediaWiki writes it.
std::string wiki_address(const WikiSite& site, std::string_view title);

class WikiReader {
 public:
  explicit WikiReader(const fs::path& path);
  // The XML of the next page; lives until the next call. False at the end. DataError: no export, or one that
  // ends too soon.
  bool next(std::string_view& page);
  // To which the pages belong that next() gave.
  const std::shared_ptr<const WikiSite>& site() const { return site_; }
  std::uint64_t position() const { return source_->position(); }

  static constexpr std::size_t kLongestPage = std::size_t{256}
                                              << 20;  // with all revisions that the export has
  static constexpr std::size_t kLongestHead = 1 << 20;

 private:
  // Where `mark` stands behind begin_, reading on; npos: nowhere before the end. DataError: not in `most`
  // bytes.
  std::size_t find(std::string_view mark, std::size_t most);
  bool fill();

  const fs::path path_;
  std::unique_ptr<data::ByteSource> source_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what is not yet used
  std::shared_ptr<const WikiSite> site_;
};

}  // namespace stoa::curate
