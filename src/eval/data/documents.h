// The documents of a data set.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "eval/python/text.h"

namespace stoa::eval {

// What a task says of its files, which their names do not.
struct DocumentForm {
  std::optional<char> separator = {};  // of CSV; without it, a comma, and a tab in .tsv
  std::string field = {};              // of a JSON object: the list of documents; empty: the file is the list
};

// JSON lines, a JSON list, CSV, TSV (each also .gz or .zst), Parquet or Arrow, by the files' names. All
// documents have the same fields in the same order: one that a document lacks is null.
// DataError "file:line: …".
std::vector<Json> read_documents(const std::vector<fs::path>& files, const DocumentForm& form = {});
// The content of a file, unpacked.
std::string unpacked_content(const fs::path& path);
// Calls `visit` for every object of a file of JSON lines, in bounded memory. DataError "file:line: …".
void each_json_line(const fs::path& path, const std::function<void(Json document)>& visit);
// Rows of a CSV file as pandas.read_csv types their columns, which is what the harness's data loader uses.
std::vector<Json> parse_csv(std::string_view text, char separator, const std::string& source);

}  // namespace stoa::eval
