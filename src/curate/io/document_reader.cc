#include "curate/io/document_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/escape.h"
#include "curate/code/source_language.h"
#include "curate/html/charset.h"
#include "curate/html/tokenizer.h"
#include "curate/io/http.h"
#include "curate/wiki/wikitext.h"
#include "data/file_kind.h"
#include "data/utf8_scan.h"

namespace stoa::curate {

std::span<const config::EnumName<TextSplit>> enum_names(TextSplit) {
  static constexpr config::EnumName<TextSplit> kNames[] = {
      {"file", TextSplit::kFile}, {"paragraph", TextSplit::kParagraph}, {"line", TextSplit::kLine}};
  return kNames;
}

void declare(config::Section<InputOptions>& s) {
  s.field("text_key", &InputOptions::text_key)
      .not_empty()
      .help("The key of JSON lines whose value is the text.");
  s.field("id_key", &InputOptions::id_key)
      .not_empty()
      .help("The key whose value is the id; a document without one is named FILE:NUMBER.");
  s.field("text_split", &InputOptions::text_split).help("What is one document of a text file.");
  s.field("main_text", &InputOptions::main_text)
      .help("How the text of a page (.html, responses in .warc) is found; data.md describes the ways.");
  s.field("stop_words", &InputOptions::stop_words)
      .help("File of stop words, one a line, for main_text justext and union; empty: English ones.");
  s.field("source_code", &InputOptions::source_code)
      .help("Read source files of folders, whole, with members `path`, `language` and `license`.");
  s.field("wiki_namespaces", &InputOptions::wiki_namespaces)
      .not_empty()
      .help("Exports of MediaWiki: numbers of the namespaces whose pages are documents (0: articles).");
  s.field("document_bytes", &InputOptions::document_bytes)
      .range(0, 1e9)
      .unit("bytes")
      .help(
          "Longest document as it is read (a line of JSON, a page with its tags, a file); a longer one goes "
          "to quarantine, with its beginning. 0: any, up to 1 GiB.");
}

namespace {

data::ReadOptions read_options(const InputOptions& options, const fs::path& path) {
  data::ReadOptions read;
  read.longest_document = static_cast<std::size_t>(options.document_bytes);
  read.encoding.name = "unchecked";            // a damaged document goes to quarantine by itself
  if (is_page(path) || options.source_code) {  // says itself how it is encoded, or each file has its own way
    read.encoding.name = "bytes";
    return read;
  }
  read.text_split = options.text_split == TextSplit::kFile        ? data::TextSplit::kFile
                    : options.text_split == TextSplit::kParagraph ? data::TextSplit::kParagraph
                                                                  : data::TextSplit::kLine;
  return read;
}

}  // namespace

DocumentReader::DocumentReader(const std::vector<data::TextInput>& inputs, const InputOptions& options,
                               Place from, bool strict)
    : inputs_(inputs), options_(options), from_(from), strict_(strict), input_(from.input - 1) {}

bool DocumentReader::open_next() {
  if (!one_.empty()) before_ += one_.front().bytes;
  if (++input_ >= std::ssize(inputs_)) return false;
  number_ = 0;
  one_ = {inputs_[static_cast<std::size_t>(input_)]};
  const fs::path& path = one_.front().path;
  try {
    if (!options_.source_code && is_archive(path))
      records_ = std::make_unique<WarcReader>(path, options_.document_bytes > 0
                                                        ? static_cast<std::uint64_t>(options_.document_bytes)
                                                        : WarcReader::kLongestRecord);
    else if (!options_.source_code && is_wiki_export(path))
      wiki_ = std::make_unique<WikiReader>(path);
    else
      texts_ = std::make_unique<data::BlockReader>(one_, read_options(options_, path));
  } catch (const DataError& e) {  // in the first bytes, which tell the encoding
    if (strict_) throw;
    fault_ = e.what();
  }
  return true;
}

void DocumentReader::close() {
  texts_.reset();
  records_.reset();
  wiki_.reset();
}

// The next documents of the file that is open; false at its end, or before its fault.
bool DocumentReader::next_piece(InputBlock& block) {
  if (!fault_.empty()) return false;
  if (records_) return next_records(block);
  if (wiki_) return next_wiki_pages(block);
  try {
    return texts_->next(block.block);
  } catch (const DataError& e) {
    if (strict_) throw;
    fault_ = e.what();
    return texts_->salvage(block.block);
  }
}

bool DocumentReader::next(InputBlock& block) {
  for (;;) {
    if (!is_open() && !open_next()) return false;
    block.is_archive = records_ != nullptr;
    block.site.reset();
    block.fault.clear();
    const bool has_documents = next_piece(block);
    if (!has_documents) {
      close();
      if (fault_.empty()) continue;
      block.fault.swap(fault_);
      block.block.documents.clear();
      block.block.position = one_.front().bytes;
    }
    block.block.input = &inputs_[static_cast<std::size_t>(input_)];
    block.block.position += before_;
    block.input = input_;
    block.first = number_;
    number_ += std::ssize(block.block.documents);
    block.skip = 0;
    if (input_ == from_.input) {
      // A fault stands behind the documents before it.
      if (has_documents ? number_ <= from_.number : number_ < from_.number) continue;
      block.skip = static_cast<std::size_t>(std::max<std::int64_t>(0, from_.number - block.first));
    }
    return true;
  }
}

// As many documents as fill a block; false where there are none. `append(text)` adds the next one to the text
// of the block, or nothing where it is not wanted; false at the end of the file.
template <class Append>
bool DocumentReader::fill(InputBlock& block, const Append& append) {
  block.block.documents.clear();
  std::string text;
  try {
    for (std::size_t begin = 0; text.size() < data::kBlockBytes && append(text); begin = text.size())
      if (text.size() > begin) block.block.documents.emplace_back(begin, text.size());
  } catch (const DataError& e) {
    if (strict_) throw;
    fault_ = e.what();  // told after the documents before it
  }
  if (text.empty()) return false;
  block.block.text.assign(text);
  block.block.text.pad();
  return true;
}

// Pages as XML.
bool DocumentReader::next_wiki_pages(InputBlock& block) {
  std::string_view page;
  const auto append = [&](std::string& text) {
    const bool found = wiki_->next(page);
    if (found) text += page;
    return found;
  };
  if (!fill(block, append)) return false;
  block.site = wiki_->site();
  block.block.position = wiki_->position();
  return true;
}

// Records with texts or pages, headers and all.
bool DocumentReader::next_records(InputBlock& block) {
  WarcHeaders headers;
  std::string_view content;
  const auto append = [&](std::string& text) {
    const bool found = records_->next(headers, content);
    if (strict_ && found && headers.type == WarcReader::kDamage)
      fail<DataError>("{}", describe_damage(one_.front().path, content));
    if (found && (headers.type == "conversion" || headers.type == "response" || headers.type == "resource" ||
                  headers.type == WarcReader::kDamage))
      text.append(content.data() - headers.bytes, headers.bytes + content.size());
    return found;
  };
  if (!fill(block, append)) return false;
  block.block.position = records_->position();
  return true;
}

namespace {

void add_member(std::string_view key, std::string_view value, std::string& metadata) {
  if (value.empty() || data::scan_utf8(value).valid != value.size()) return;
  if (!metadata.empty()) metadata += ',';
  metadata += fmt::format("\"{}\":", key);
  append_json_string(value, metadata);
}

}  // namespace

void DocumentParser::read_page(std::string_view bytes, std::string_view content_type, Document& document,
                               std::string& unusable) const {
  const std::string html = page_as_utf8(bytes, content_type);
  std::string title;
  document.text = main_text_(html, title);
  add_member("title", title, document.metadata);
  if (document.text.empty()) unusable = "no_main_text";
}

void DocumentParser::read_record(std::string_view record, Document& document, std::string& unusable) const {
  WarcHeaders headers;
  require<DataError>(read_warc_headers(record, headers), "a record without content");
  std::string_view id = headers.id;
  if (id.starts_with("<urn:uuid:") && id.ends_with(">")) id = id.substr(10, id.size() - 11);
  document.id = data::scan_utf8(id).valid == id.size() ? id : std::string_view();
  std::string_view uri = headers.uri;  // wget writes <http://…>, as WARC 1.0 has it
  if (uri.starts_with('<') && uri.ends_with('>')) uri = uri.substr(1, uri.size() - 2);
  document.url = data::scan_utf8(uri).valid == uri.size() ? uri : std::string_view();
  document.metadata.clear();
  add_member("url", document.url, document.metadata);
  add_member("date", headers.date, document.metadata);
  const std::string_view content = record.substr(headers.bytes);
  if (headers.type == "conversion") {
    document.text = content;
    require<DataError>(data::scan_utf8(document.text).valid == document.text.size(), "its text is not UTF-8");
    return;
  }
  HttpAnswer answer;
  if (headers.type == "response" && read_http_answer(content, answer)) {
    if (answer.status < 200 || answer.status >= 300) unusable = "http_status";
  } else {
    answer.body = content;
    answer.content_type = headers.type == "resource" ? headers.content_type : std::string_view();
  }
  std::string_view kind = headers.payload_type.empty() ? answer.content_type : headers.payload_type;
  kind = kind.substr(0, kind.find_first_of(",; \t"));
  const std::size_t first = answer.body.find_first_not_of(" \t\r\n");
  const bool is_page = is_named(kind, "text/html") || is_named(kind, "application/xhtml+xml") ||
                       (kind.empty() && first != answer.body.npos && answer.body[first] == '<');
  const bool is_note = uri.starts_with("metadata:");  // what a crawler writes about itself
  if (!unusable.empty() || is_note || (!is_page && !is_named(kind, "text/plain"))) {
    if (unusable.empty()) unusable = "no_page";
    document.text.clear();
    return;
  }
  if (is_page) return read_page(answer.body, answer.content_type, document, unusable);
  document.text = page_as_utf8(answer.body, answer.content_type);
}

void DocumentParser::read_source(std::string_view bytes, const fs::path& path, Document& document) {
  require<DataError>(data::is_utf16(bytes) || bytes.find('\0') == bytes.npos, "a binary file");
  document.text = page_as_utf8(bytes, {});
  document.id = shown_path(path);
  add_member("path", document.id, document.metadata);
  add_member("language", source_language(path), document.metadata);
  add_member("license", licence_of_(path, document.text), document.metadata);
}

void DocumentParser::read_wiki(std::string_view xml, const WikiSite& site, Document& document,
                               std::string& unusable) const {
  const WikiPage page = read_wiki_page(xml);
  document.id = page.id;
  document.url = wiki_address(site, page.title);
  document.text.clear();
  add_member("url", document.url, document.metadata);
  add_member("title", page.title, document.metadata);
  add_member("date", page.date, document.metadata);
  const bool wanted =
      std::find(wiki_namespaces_.begin(), wiki_namespaces_.end(), page.name_space) != wiki_namespaces_.end();
  if (page.is_redirect || !wanted || !page.is_wikitext) {
    unusable = !wanted ? "namespace" : page.is_redirect ? "redirect" : "no_page";
    return;
  }
  document.text = wikitext_to_text(page.text, site);
  if (document.text.empty()) unusable = "no_main_text";
}

void DocumentParser::read_text(std::string_view piece, Document& document) {
  const std::size_t valid = data::scan_utf8(piece).valid;
  require<DataError>(valid == piece.size(), "its byte {} is not UTF-8", valid);
  document.text = piece;
}

bool DocumentParser::parse(const InputBlock& from, std::size_t index, Document& document,
                           std::string& unusable) {
  const data::Block& block = from.block;
  const auto [begin, end] = block.documents[index];
  const std::string_view piece = block.text.view().substr(begin, end - begin);
  document.url.clear();
  unusable.clear();
  require<DataError>(document_bytes_ == 0 || piece.size() <= document_bytes_,
                     "a document of more than {} bytes (input.document_bytes)", document_bytes_);
  if (from.is_archive) {
    read_record(piece, document, unusable);
  } else if (block.input->form == data::TextForm::kJsonLines) {
    if (piece.find_first_not_of(" \t\r") == piece.npos) return false;
    json_.read(piece, block.text.size() + data::kBlockPadding - begin, document);
  } else {
    document.id.clear();
    document.metadata.clear();
    if (source_code_)
      read_source(piece, block.input->path, document);
    else if (from.site)
      read_wiki(piece, *from.site, document, unusable);
    else if (is_page(block.input->path))
      read_page(piece, {}, document, unusable);
    else
      read_text(piece, document);
  }
  if (document.id.empty())
    document.id = fmt::format("{}:{}", shown_path(block.input->path.filename()),
                              from.first + static_cast<std::int64_t>(index) + 1);
  return true;
}

}  // namespace stoa::curate
