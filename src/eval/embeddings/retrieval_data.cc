#include "eval/embeddings/retrieval_data.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/nearest.h"
#include "eval/data/documents.h"

namespace stoa::eval {
namespace {

// FILE, or FILE.gz, or FILE.zst.
std::optional<fs::path> find_file(const fs::path& folder, const std::string& name) {
  for (const char* packed : {"", ".gz", ".zst"})
    if (fs::path path = folder / (name + packed); fs::is_regular_file(path)) return path;
  return std::nullopt;
}

fs::path file_in(const fs::path& folder, const std::string& name) {
  const auto found = find_file(folder, name);
  require<DataError>(found.has_value(),
                     "'{}' is no folder of a retrieval task: it has no {} (also .gz, .zst)", folder.string(),
                     name);
  return *found;
}

fs::path judgements_in(const fs::path& folder, const std::string& split) {
  const fs::path qrels = folder / "qrels";
  if (const auto found = find_file(qrels, split + ".tsv")) return *found;
  std::vector<std::string> splits;
  if (fs::is_directory(qrels))
    for (const auto& entry : fs::directory_iterator(qrels))
      if (const std::string name = entry.path().filename().string(); name.find(".tsv") != std::string::npos)
        splits.push_back(name.substr(0, name.find(".tsv")));
  fail<DataError>("'{}' has no judgements qrels/{}.tsv{}", folder.string(), split,
                  splits.empty() ? "" : did_you_mean(split, splits));
}

std::map<std::string, Grades> read_judgements(const fs::path& path) {
  std::map<std::string, Grades> out;
  const std::string content = unpacked_content(path);
  std::string_view text = content;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::vector<std::string_view> cells = pieces_of(strip(text.substr(0, end)), "\t");
    text.remove_prefix(std::min(end + 1, text.size()));
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (cells.size() == 4) cells.erase(cells.begin() + 1);  // as TREC writes them
    std::int64_t grade = 0;
    const bool number = cells.size() == 3 &&
                        std::from_chars(cells[2].data(), cells[2].data() + cells[2].size(), grade).ptr ==
                            cells[2].data() + cells[2].size() &&
                        !cells[2].empty();
    if (line == 1 && !number) continue;  // the header
    require<DataError>(number, "{}:{}: expected a query, a document and a grade, with tabs between them",
                       path.string(), line);
    out[std::string(cells[0])][std::string(cells[1])] = grade;
  }
  require<DataError>(!out.empty(), "{}: no judgement", path.string());
  return out;
}

std::string text_of(const Json& document, const char* field, const fs::path& path) {
  const auto it = document.find(field);
  require<DataError>(it != document.end() && (it->is_string() || it->is_number_integer()),
                     "{}: a line without '{}'", path.string(), field);
  return str_of(*it);
}

}  // namespace

RetrievalFolder::RetrievalFolder(const fs::path& folder, const std::string& split)
    : corpus_(file_in(folder, "corpus.jsonl")) {
  const fs::path path = file_in(folder, "queries.jsonl"), judgements = judgements_in(folder, split);
  std::map<std::string, Grades> grades = read_judgements(judgements);
  each_json_line(path, [&](const Json& line) {
    const auto own = grades.find(text_of(line, "_id", path));
    if (own == grades.end()) return;
    queries_.push_back({own->first, text_of(line, "text", path), std::move(own->second)});
    grades.erase(own);
  });
  require<DataError>(grades.empty(), "{}: the query '{}' of {} is missing", path.string(),
                     grades.empty() ? "" : grades.begin()->first, judgements.string());
}

void RetrievalFolder::each_document(
    const std::function<void(std::string id, std::string text)>& visit) const {
  each_json_line(corpus_, [&](const Json& line) {
    std::string text = text_of(line, "text", corpus_);
    if (const auto title = line.find("title"); title != line.end() && title->is_string())
      text = title->get<std::string>() + " " + text;
    visit(text_of(line, "_id", corpus_), std::string(strip(text)));
  });
}

}  // namespace stoa::eval
