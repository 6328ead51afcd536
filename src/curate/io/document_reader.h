// Reads the inputs of a run in blocks of whole documents. A document has a place, (input, number), that does
// not depend on blocks or workers, so that a run can continue where it ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "config/schema.h"
#include "curate/code/licence.h"
#include "curate/document.h"
#include "curate/html/main_text.h"
#include "curate/io/json_document.h"
#include "curate/io/warc.h"
#include "data/text_reader.h"

namespace stoa::curate {

enum class TextSplit { kFile, kParagraph, kLine };
std::span<const config::EnumName<TextSplit>> enum_names(TextSplit);

struct InputOptions {
  std::string text_key = "text", id_key = "id";
  TextSplit text_split = TextSplit::kFile;
  MainText main_text = MainText::kStoa;
  std::string stop_words;
  bool source_code = false;
};
void declare(config::Section<InputOptions>& s);

// The files of `paths` in a fixed order: files as they are given, the readable files of folders (.jsonl,
// .parquet, .txt, .md, .html, archives, also .gz, .zst) sorted by name, with those of folders inside. IoError
// where one is missing, ConfigError where there are none. `source_code`: files of programming languages
// instead, but none in hidden folders.
std::vector<data::TextInput> find_inputs(const std::vector<fs::path>& paths, bool source_code = false);

struct Place {
  std::int64_t input = 0, number = 0;  // of the next document
};

struct InputBlock {
  data::Block block;
  bool is_archive = false;  // its documents are records (warc.h)
  std::int64_t input = 0;   // in the list of inputs
  std::int64_t first = 0;   // number of the first document of the block
  std::size_t skip = 0;     // documents of the block that are not wanted
};

// By its name, compressed or not: .warc or .wet; .html, .htm or .xhtml.
bool is_archive(const fs::path& path);
bool is_page(const fs::path& path);

class DocumentReader {
 public:
  // `inputs` must outlive it. Begins at `from`.
  DocumentReader(const std::vector<data::TextInput>& inputs, const InputOptions& options, Place from);
  // False at the end. Errors that concern a whole file: unreadable, truncated or corrupt compressed data, not
  // text, no records.
  bool next(InputBlock& block);

 private:
  bool open_next();
  bool next_records(InputBlock& block);

  const std::vector<data::TextInput>& inputs_;
  const InputOptions options_;
  const Place from_;
  std::int64_t input_, number_ = 0;   // of the file that is read, and of its next document
  std::uint64_t before_ = 0;          // bytes of the files before it, from the first that was read
  std::vector<data::TextInput> one_;  // that file, for its reader
  std::unique_ptr<data::BlockReader> texts_;
  std::unique_ptr<WarcReader> records_;
};

// Makes documents of the pieces of a block. One per worker.
class DocumentParser {
 public:
  explicit DocumentParser(const InputOptions& options)
      : source_code_(options.source_code),
        json_(options.text_key, options.id_key),
        main_text_(options.main_text, options.stop_words) {}
  // Document `index` of the block; false where there is none (a blank line). `unusable`: why it has no text
  // that stages could judge ("no_page", "http_status", "no_main_text"); empty: it has. DataError: a line that
  // is no document, a page that is corrupt.
  bool parse(const InputBlock& block, std::size_t index, Document& document, std::string& unusable);

 private:
  void read_record(std::string_view record, Document& document, std::string& unusable) const;
  void read_page(std::string_view bytes, std::string_view content_type, Document& document,
                 std::string& unusable) const;
  void read_source(std::string_view bytes, const fs::path& path, Document& document);

  const bool source_code_;
  LicenceFinder licence_of_;
  JsonDocuments json_;
  const MainTextExtractor main_text_;
};

}  // namespace stoa::curate
