// The output of a run as pages: its report, the documents of every reason with words looked for, documents
// whole, clusters of near-duplicates.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace stoa::curate {

struct BrowsedPage {
  int status = 200;
  std::string content_type = "text/html; charset=utf-8", body;
};

class RunBrowser {
 public:
  // ConfigError: no output of a run that is complete.
  explicit RunBrowser(fs::path output);

  //   /                              the report, with a field for a search
  //   /search/FOLDER/WORDS           documents of kept, dropped or quarantine (all: of any) whose line has
  //   the
  //                                  words, in small or capital letters of ASCII
  //   /document/ID                   a document, whole
  //   /cluster/NUMBER                documents of a cluster
  //   /DATASHEET.md, /manifest.json  the files
  // `path` is decoded. May be called from several threads.
  BrowsedPage page(std::string_view path) const;

 private:
  // Calls visit(folder, line) for the lines of the folders, until it returns false.
  void each_line(std::string_view folder,
                 const std::function<bool(std::string_view, std::string_view)>& visit) const;
  BrowsedPage search(std::string_view folder, std::string_view words) const;
  BrowsedPage document(std::string_view id) const;
  BrowsedPage cluster(std::string_view number) const;

  const fs::path output_;
};

}  // namespace stoa::curate
