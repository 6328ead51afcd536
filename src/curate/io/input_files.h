// The files that a run reads: which of those in a folder, in which order, and of which kind each is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/text_reader.h"

namespace stoa::curate {

// How folders are searched, and what was left out.
struct InputSearch {
  bool source_code = false;  // files of programming languages instead, but none in hidden folders
  fs::path output;           // a folder whose files are no inputs: that of the run
  std::map<std::string, std::int64_t> left_out;  // files of kinds that are not read, by extension
  std::int64_t linked_folders = 0;               // symbolic links to folders, which are not followed
};

// The files of `paths` in a fixed order: files as they are given, the readable files of folders (.jsonl,
// .parquet, .txt, .md, .html, archives, also .gz, .zst) sorted by name, with those of folders inside. IoError
// where one is missing or a folder cannot be read, ConfigError where there are none.
std::vector<data::TextInput> find_inputs(const std::vector<fs::path>& paths, InputSearch& search);
std::vector<data::TextInput> find_inputs(const std::vector<fs::path>& paths, bool source_code = false);

// Those of one folder; there may be none.
std::vector<data::TextInput> inputs_in(const fs::path& folder, InputSearch& search);
// "left out 3 files of kinds that are not read (2 .xz, 1 .csv) and 1 link to a folder"; empty: nothing.
std::string words_for_left_out(const InputSearch& search);
// As UTF-8, which names of files need not be: other bytes as \xff.
std::string shown_path(const fs::path& path);
// Whether a file is taken out of a folder, by its name.
bool is_readable_input(const fs::path& path, bool source_code = false);

// By its name, compressed or not: .warc, .wet or .arc; .html, .htm or .xhtml; .xml.
bool is_archive(const fs::path& path);
bool is_page(const fs::path& path);
bool is_wiki_export(const fs::path& path);

}  // namespace stoa::curate
