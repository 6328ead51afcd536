#include "curate/io/input_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "curate/code/source_language.h"
#include "data/file_kind.h"
#include "data/file_names.h"
#include "data/utf8_scan.h"

namespace stoa::curate {
namespace {

constexpr std::string_view kReadKinds =
    ".jsonl, .txt, .md, .html, .warc, .wet, .arc or .xml, also with .gz, .bz2 or .zst, .parquet or .arrow";

// What `datasets` writes next to the rows of a data set that it saves.
bool describes_a_dataset(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  return name == "dataset_info.json" || name == "dataset_infos.json" || name == "dataset_dict.json" ||
         (name == "state.json" && fs::exists(path.parent_path() / "dataset_info.json", error));
}

data::TextInput describe(const fs::path& path, bool source_code) {
  std::error_code error;
  require<ConfigError>(source_code || !fs::exists(path, error) || is_readable_input(path, false),
                       "'{}' is not of a kind that is read: {} ({})", path.string(), kReadKinds,
                       data::advice_for(path));
  data::ReadOptions options;
  if (source_code || is_archive(path) || is_page(path) || is_wiki_export(path))
    options.form = data::TextForm::kPlain;  // not of a kind that it knows
  return data::describe_input(path, options);
}

// What a run dropped is no input, nor are its reports.
void refuse_run(const fs::path& folder) {
  std::error_code error;
  require<ConfigError>(!fs::exists(folder / "journal/run.json", error),
                       "'{}' holds a run of `stoa data`; give what it kept, '{}'", folder.string(),
                       (folder / "kept").string());
}

}  // namespace

std::vector<data::TextInput> find_inputs(const std::vector<fs::path>& paths, InputSearch& search) {
  std::vector<data::TextInput> inputs;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      inputs.push_back(describe(path, search.source_code));
      continue;
    }
    std::vector<data::TextInput> found = inputs_in(path, search);
    require<ConfigError>(!found.empty(), "'{}' has no files that can be read; expected {}", path.string(),
                         search.source_code ? "source code of a language that is known" : kReadKinds);
    std::move(found.begin(), found.end(), std::back_inserter(inputs));
  }
  require<ConfigError>(!inputs.empty(), "no input files");
  return inputs;
}

std::vector<data::TextInput> find_inputs(const std::vector<fs::path>& paths, bool source_code) {
  InputSearch search;
  search.source_code = source_code;
  return find_inputs(paths, search);
}

bool is_readable_input(const fs::path& path, bool source_code) {
  // macOS puts what it knows of a file `a.jsonl` into `._a.jsonl`, in archives too.
  if (path.filename().native().starts_with("._")) return false;
  if (source_code) return !source_language(path).empty();
  // What `datasets` keeps of its maps and filters, next to the data themselves.
  if (data::extension_of(path) == ".arrow" && path.filename().native().starts_with("cache-")) return false;
  const std::string extension = data::content_extension(path);
  return data::is_json_lines(path) || is_archive(path) || is_page(path) || is_wiki_export(path) ||
         extension == ".txt" || extension == ".text" || extension == ".md";
}

std::vector<data::TextInput> inputs_in(const fs::path& folder, InputSearch& search) {
  refuse_run(folder);
  std::vector<fs::path> files;
  std::error_code error;
  fs::path open = folder;
  for (fs::recursive_directory_iterator entry(folder, error), end;; entry.increment(error)) {
    require<IoError>(!error, "cannot read the folder '{}': {}", open.string(), error.message());
    if (entry == end) break;
    open = entry->path();
    const bool is_hidden = open.filename().native().starts_with('.'), is_link = entry->is_symlink(error);
    if (entry->is_directory(error)) {
      search.linked_folders += is_link && !is_hidden;
      if ((search.source_code && is_hidden) ||
          (!search.output.empty() && fs::equivalent(open, search.output, error)))
        entry.disable_recursion_pending();
      else if (!is_link)
        refuse_run(open);
    } else if (!entry->is_regular_file(error) || (search.source_code && is_link)) {
      continue;
    } else if (is_readable_input(open, search.source_code) && !describes_a_dataset(open)) {
      files.push_back(open);
    } else if (!is_hidden) {
      ++search.left_out[data::extension_of(open)];
    }
  }
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  std::vector<data::TextInput> inputs;
  for (const fs::path& file : files) inputs.push_back(describe(file, search.source_code));
  return inputs;
}

std::string words_for_left_out(const InputSearch& search) {
  constexpr std::size_t kMostKinds = 6;
  std::vector<std::pair<std::int64_t, std::string>> kinds;
  std::int64_t files = 0;
  for (const auto& [extension, count] : search.left_out) {
    kinds.emplace_back(count, extension.empty() ? "without extension" : shown_path(extension));
    files += count;
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  if (files > 0) {
    out = fmt::format("{} file{} of kinds that are not read (", files, files == 1 ? "" : "s");
    for (std::size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i)
      out += fmt::format("{}{} {}", i > 0 ? ", " : "", kinds[i].first, kinds[i].second);
    out += kinds.size() > kMostKinds ? ", …)" : ")";
  }
  if (search.linked_folders > 0)
    out += fmt::format("{}{} link{} to folders", out.empty() ? "" : " and ", search.linked_folders,
                       search.linked_folders == 1 ? "" : "s");
  return out.empty() ? out : "left out " + out;
}

std::string shown_path(const fs::path& path) {
  std::string out;
  for (std::string_view rest = path.native(); !rest.empty();) {
    const std::size_t valid = data::scan_utf8(rest).valid;
    out += rest.substr(0, valid);
    if (valid == rest.size()) break;
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(rest[valid]));
    rest.remove_prefix(valid + 1);
  }
  return out;
}

bool is_archive(const fs::path& path) {
  const std::string extension = data::content_extension(path);
  return extension == ".warc" || extension == ".wet" || extension == ".arc";
}

bool is_page(const fs::path& path) {
  const std::string extension = data::content_extension(path);
  return extension == ".html" || extension == ".htm" || extension == ".xhtml";
}

bool is_wiki_export(const fs::path& path) {
  // Parts of a dump are named by their pages: enwiki-20260101-pages-articles1.xml-p1p41242.bz2.
  const std::string extension = data::content_extension(path);
  return extension == ".xml" || extension.starts_with(".xml-p");
}

}  // namespace stoa::curate
