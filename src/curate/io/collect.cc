#include "curate/io/collect.h"

#include <set>
#include <sstream>

#include "base/error.h"
#include "base/escape.h"
#include "curate/code/licence.h"
#include "curate/io/glob.h"
#include "curate/io/json_document.h"
#include "data/file_names.h"
#include "data/utf8_scan.h"

namespace stoa::curate {
namespace {

struct Wanted {
  std::string path, source, license;
};

// The name of a file without its extensions.
std::string stem_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t dot = name.find('.', 1);
  return name.substr(0, dot);
}

std::vector<Wanted> read_list(const fs::path& list, const CollectRequest& request) {
  std::vector<Wanted> wanted;
  std::string text = read_text(list);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  require<DataError>(data::scan_utf8(text).valid == text.size() && text.find('\0') == text.npos,
                     "'{}' is not a list of inputs: it is not UTF-8 text", list.string());
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    std::vector<std::string> columns{""};
    for (const char c : line) c == '\t' ? void(columns.emplace_back()) : columns.back().push_back(c);
    require<DataError>(
        columns.size() <= 3 && !columns[0].empty(),
        "'{}', line {}: expected PATH, or PATH, SOURCE and LICENCE with tabs between them; got "
        "'{}'",
        list.string(), number, line);
    require<DataError>(!columns[0].starts_with('@'), "'{}', line {}: a list in a list", list.string(),
                       number);
    columns.resize(3);
    const fs::path path(columns[0]);
    wanted.push_back({path.is_absolute() ? columns[0] : (list.parent_path() / path).string(),
                      columns[1].empty() ? request.source : columns[1],
                      columns[2].empty() ? request.license : columns[2]});
  }
  require<ConfigError>(!wanted.empty(), "the list '{}' names no input", list.string());
  return wanted;
}

// Appends the files of one input that is not a list.
class Collector {
 public:
  explicit Collector(InputSearch& search) : search_(search) {}

  void add(const Wanted& wanted) {
    std::error_code error;
    if (!is_pattern(wanted.path) || fs::exists(wanted.path, error))
      return add_inputs(find_inputs({wanted.path}, search_), wanted.path, wanted);
    std::size_t readable = 0;
    const std::vector<fs::path> found = expand_pattern(wanted.path);
    for (const fs::path& path : found) {
      std::vector<data::TextInput> inputs;
      if (fs::is_directory(path, error))
        inputs = inputs_in(path, search_);
      else if (is_readable_input(path, search_.source_code))
        inputs = find_inputs({path}, search_);
      else
        ++search_.left_out[data::extension_of(path)];
      readable += !inputs.empty();
      add_inputs(inputs, path, wanted);
    }
    require<ConfigError>(readable > 0, "'{}' names {}", wanted.path,
                         found.empty() ? "no file: is the pattern right, and the folder mounted?"
                                       : "no file that can be read, of the " + std::to_string(found.size()) +
                                             " that it matches");
  }
  std::vector<CollectedFile> take() { return std::move(files_); }

 private:
  // `path`: the file itself, or the folder that has them.
  void add_inputs(const std::vector<data::TextInput>& inputs, const fs::path& path, const Wanted& wanted) {
    std::error_code error;
    const bool folder = fs::is_directory(path, error);
    for (const data::TextInput& input : inputs) {
      if (!seen_.insert(fs::weakly_canonical(input.path, error).native()).second) continue;
      Provenance from;
      const fs::path root = fs::absolute(path).lexically_normal();
      from.source_given = !wanted.source.empty();
      from.license_given = !wanted.license.empty();
      from.source = from.source_given ? wanted.source
                    : folder ? shown_path((root.has_filename() ? root : root.parent_path()).filename())
                             : shown_path(stem_of(path));
      from.file = shown_path(folder ? input.path.lexically_relative(path) : input.path.filename());
      from.license = wanted.license;
      if (from.license.empty()) from.license = licence_of_(input.path, {});
      if (from.license.empty()) from.license = "unknown";
      files_.push_back({input.path, std::move(from)});
    }
  }

  InputSearch& search_;
  LicenceFinder licence_of_;
  std::set<std::string> seen_;
  std::vector<CollectedFile> files_;
};

}  // namespace

std::vector<CollectedFile> collect_files(const CollectRequest& request, InputSearch& search) {
  Collector collector(search);
  for (const std::string& input : request.inputs) {
    if (!input.starts_with('@')) {
      collector.add({input, request.source, request.license});
      continue;
    }
    for (const Wanted& wanted : read_list(input.substr(1), request)) collector.add(wanted);
  }
  std::vector<CollectedFile> files = collector.take();
  require<ConfigError>(!files.empty(), "no input files");
  return files;
}

void add_provenance(const Provenance& from, Document& document) {
  const auto add = [&](const char* key, const std::string& value, bool given) {
    if (!given && has_member(key, document.metadata)) return;
    std::string json;
    append_json_string(value, json);
    set_member(key, json, document.metadata);
  };
  add("source", from.source, from.source_given);
  add("file", from.file, false);
  add("license", from.license, from.license_given);
}

}  // namespace stoa::curate
