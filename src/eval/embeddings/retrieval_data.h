// A retrieval task in the form of BEIR: a folder with corpus.jsonl ({"_id", "title", "text"}), queries.jsonl
// ({"_id", "text"}) and qrels/SPLIT.tsv (query, document, grade; with a header).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::eval {

// Grades of a query's documents, by the document's id; above 0: relevant.
using Grades = std::map<std::string, std::int64_t>;

struct RetrievalQuery {
  std::string id, text;
  Grades grades;
};

class RetrievalFolder {
 public:
  // DataError: a file is missing (what was looked for), a line cannot be read, or a judged query has no text.
  RetrievalFolder(const fs::path& folder, const std::string& split);

  // Those that are judged, in the order of queries.jsonl.
  const std::vector<RetrievalQuery>& queries() const { return queries_; }
  // Calls `visit` for every document: title and text with a space between them, without white space around.
  void each_document(const std::function<void(std::string id, std::string text)>& visit) const;

 private:
  const fs::path corpus_;
  std::vector<RetrievalQuery> queries_;
};

}  // namespace stoa::eval
