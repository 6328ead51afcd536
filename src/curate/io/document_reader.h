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
#include "curate/io/input_files.h"
#include "curate/io/json_document.h"
#include "curate/io/warc.h"
#include "curate/wiki/dump.h"
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
  std::vector<std::int64_t> wiki_namespaces = {0};
  std::int64_t document_bytes = 64'000'000;
};
void declare(config::Section<InputOptions>& s);

struct Place {
  std::int64_t input = 0, number = 0;  // of the next document
};

struct InputBlock {
  data::Block block;
  bool is_archive = false;               // its documents are records (warc.h)
  std::shared_ptr<const WikiSite> site;  // its documents are pages of an export of MediaWiki (wiki/dump.h)
  std::int64_t input = 0;                // in the list of inputs
  std::int64_t first = 0;                // number of the first document of the block
  std::size_t skip = 0;                  // documents of the block that are not wanted
  std::string fault;  // why the input cannot be read beyond `first`; the block has no documents then
};

class DocumentReader {
 public:
  // `inputs` must outlive it. Begins at `from`. `strict`: an input that is truncated, corrupt, not text or
  // has no records is an error (DataError); else its block with a `fault` follows what could be read of it.
  DocumentReader(const std::vector<data::TextInput>& inputs, const InputOptions& options, Place from,
                 bool strict = false);
  // False at the end. IoError: a file that cannot be read.
  bool next(InputBlock& block);

 private:
  bool open_next();
  bool next_piece(InputBlock& block);
  template <class Append>
  bool fill(InputBlock& block, const Append& append);
  bool next_records(InputBlock& block);
  bool next_wiki_pages(InputBlock& block);
  bool is_open() const { return texts_ || records_ || wiki_; }
  void close();

  const std::vector<data::TextInput>& inputs_;
  const InputOptions options_;
  const Place from_;
  const bool strict_;
  std::string fault_;                 // of the file that is read
  std::int64_t input_, number_ = 0;   // of the file that is read, and of its next document
  std::uint64_t before_ = 0;          // bytes of the files before it, from the first that was read
  std::vector<data::TextInput> one_;  // that file, for its reader
  std::unique_ptr<data::BlockReader> texts_;
  std::unique_ptr<WarcReader> records_;
  std::unique_ptr<WikiReader> wiki_;
};

// Makes documents of the pieces of a block. One per worker.
class DocumentParser {
 public:
  explicit DocumentParser(const InputOptions& options)
      : source_code_(options.source_code),
        wiki_namespaces_(options.wiki_namespaces),
        document_bytes_(static_cast<std::size_t>(options.document_bytes)),
        json_(options.text_key, options.id_key),
        main_text_(options.main_text, options.stop_words) {}
  // Document `index` of the block; false where there is none (a blank line). `unusable`: why it has no text
  // that stages could judge ("no_page", "http_status", "redirect", "namespace", "no_main_text"); empty: it
  // has. DataError: a line that is no document, a page that is corrupt, more bytes than a document may have.
  bool parse(const InputBlock& block, std::size_t index, Document& document, std::string& unusable);

 private:
  void read_record(std::string_view record, Document& document, std::string& unusable) const;
  void read_page(std::string_view bytes, std::string_view content_type, Document& document,
                 std::string& unusable) const;
  void read_source(std::string_view bytes, const fs::path& path, Document& document);
  static void read_text(std::string_view piece, Document& document);
  void read_wiki(std::string_view xml, const WikiSite& site, Document& document, std::string& unusable) const;

  const bool source_code_;
  const std::vector<std::int64_t> wiki_namespaces_;
  const std::size_t document_bytes_;
  LicenceFinder licence_of_;
  JsonDocuments json_;
  const MainTextExtractor main_text_;
};

}  // namespace stoa::curate
