#include "curate/io/document_reader.h"

#include <algorithm>

#include "base/error.h"
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
}

namespace {

data::ReadOptions read_options(const InputOptions& options) {
  data::ReadOptions read;
  read.text_split = options.text_split == TextSplit::kFile        ? data::TextSplit::kFile
                    : options.text_split == TextSplit::kParagraph ? data::TextSplit::kParagraph
                                                                  : data::TextSplit::kLine;
  return read;
}

fs::path inner_extension(const fs::path& path) {
  return (data::compression_of(path) == data::Compression::kNone ? path : fs::path(path).replace_extension())
      .extension();
}

bool is_readable(const fs::path& path) {
  const fs::path extension = inner_extension(path);
  return data::is_json_lines(path) || is_archive(path) || extension == ".txt" || extension == ".text" ||
         extension == ".md";
}

data::TextInput describe(const fs::path& path) {
  data::ReadOptions options;
  if (is_archive(path)) options.form = data::TextForm::kPlain;  // its records are read one by one
  return data::describe_input(path, options);
}

}  // namespace

std::vector<data::TextInput> find_inputs(const std::vector<fs::path>& paths) {
  std::vector<data::TextInput> inputs;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      inputs.push_back(describe(path));
      continue;
    }
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file() && is_readable(entry.path())) files.push_back(entry.path());
    require<ConfigError>(!files.empty(),
                         "'{}' has no files that can be read; expected .jsonl, .txt, .md, .warc or .wet, "
                         "also with .gz or .zst",
                         path.string());
    std::sort(files.begin(), files.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    for (const fs::path& file : files) inputs.push_back(describe(file));
  }
  require<ConfigError>(!inputs.empty(), "no input files");
  return inputs;
}

bool is_archive(const fs::path& path) {
  const fs::path extension = inner_extension(path);
  return extension == ".warc" || extension == ".wet";
}

DocumentReader::DocumentReader(const std::vector<data::TextInput>& inputs, const InputOptions& options,
                               Place from)
    : inputs_(inputs), options_(options), from_(from), input_(from.input - 1) {}

bool DocumentReader::open_next() {
  if (!one_.empty()) before_ += one_.front().bytes;
  if (++input_ >= std::ssize(inputs_)) return false;
  number_ = 0;
  one_ = {inputs_[static_cast<std::size_t>(input_)]};
  if (is_archive(one_.front().path))
    records_ = std::make_unique<WarcReader>(one_.front().path);
  else
    texts_ = std::make_unique<data::BlockReader>(one_, read_options(options_));
  return true;
}

bool DocumentReader::next(InputBlock& block) {
  for (;;) {
    if (!texts_ && !records_ && !open_next()) return false;
    block.is_archive = records_ != nullptr;
    if (!(records_ ? next_records(block) : texts_->next(block.block))) {
      texts_.reset();
      records_.reset();
      continue;
    }
    block.block.input = &inputs_[static_cast<std::size_t>(input_)];
    block.block.position += before_;
    block.input = input_;
    block.first = number_;
    number_ += std::ssize(block.block.documents);
    block.skip = 0;
    if (input_ == from_.input) {
      if (number_ <= from_.number) continue;
      block.skip = static_cast<std::size_t>(std::max<std::int64_t>(0, from_.number - block.first));
    }
    return true;
  }
}

// Records with extracted texts, headers and all.
bool DocumentReader::next_records(InputBlock& block) {
  block.block.documents.clear();
  std::string text;
  WarcHeaders headers;
  std::string_view content;
  while (text.size() < data::kBlockBytes && records_->next(headers, content)) {
    require<DataError>(headers.type != "response",
                       "'{}' holds pages, not texts: their main text cannot be extracted yet; give the .wet "
                       "files of the crawl",
                       inputs_[static_cast<std::size_t>(input_)].path.string());
    if (headers.type != "conversion") continue;
    const std::size_t begin = text.size();
    text.append(content.data() - headers.bytes, headers.bytes + content.size());
    block.block.documents.emplace_back(begin, text.size());
  }
  if (text.empty()) return false;
  block.block.text.assign(text);
  block.block.text.pad();
  block.block.position = records_->position();
  return true;
}

namespace {

void read_record(std::string_view record, Document& document) {
  WarcHeaders headers;
  require<DataError>(read_warc_headers(record, headers), "a record without content");
  std::string_view id = headers.id;
  if (id.starts_with("<urn:uuid:") && id.ends_with(">")) id = id.substr(10, id.size() - 11);
  document.id = id;
  document.text = record.substr(headers.bytes);
  document.url = headers.uri;
  require<DataError>(data::scan_utf8(document.text).valid == document.text.size(), "its text is not UTF-8");
  document.metadata.clear();
  for (const auto& [key, value] : {std::pair("url", headers.uri), std::pair("date", headers.date)}) {
    if (value.empty() || data::scan_utf8(value).valid != value.size()) continue;
    if (!document.metadata.empty()) document.metadata += ',';
    document.metadata += fmt::format("\"{}\":", key);
    append_json_string(value, document.metadata);
  }
}

}  // namespace

bool DocumentParser::parse(const InputBlock& from, std::size_t index, Document& document) {
  const data::Block& block = from.block;
  const auto [begin, end] = block.documents[index];
  const std::string_view piece = block.text.view().substr(begin, end - begin);
  document.url.clear();
  if (from.is_archive) {
    read_record(piece, document);
  } else if (block.input->form == data::TextForm::kJsonLines) {
    if (piece.find_first_not_of(" \t\r") == piece.npos) return false;
    json_.read(piece, block.text.size() + data::kBlockPadding - begin, document);
  } else {
    document.text = piece;
    document.id.clear();
    document.metadata.clear();
  }
  if (document.id.empty())
    document.id = fmt::format("{}:{}", block.input->path.filename().string(),
                              from.first + static_cast<std::int64_t>(index) + 1);
  return true;
}

}  // namespace stoa::curate
