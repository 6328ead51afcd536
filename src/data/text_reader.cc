#include "data/text_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/file_kind.h"
#include "data/file_names.h"
#include "data/json_values.h"

namespace stoa::data {
namespace {

// Where the last line end stands, or npos; a search from the end, which string_view does byte by byte.
std::size_t last_line_end(std::string_view text) {
  const void* found = ::memrchr(text.data(), '\n', text.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : text.npos;
}

bool blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

}  // namespace

bool is_json_lines(const fs::path& path) {
  const std::string extension = content_extension(path);
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".json" ||
         extension == ".jsonlines" || is_table(path);
}

TextInput describe_input(const fs::path& path, const ReadOptions& options) {
  std::error_code error;
  require<IoError>(fs::exists(path, error), "no input file '{}'", path.string());
  require<IoError>(!fs::is_directory(path, error), "'{}' is a directory; give its files", path.string());
  TextInput input{path, TextForm::kPlain, 0};
  if (fs::is_regular_file(path, error)) input.bytes = fs::file_size(path, error);
  if (options.form) {
    input.form = *options.form;
    return input;
  }
  const std::string extension = content_extension(path);
  if (is_json_lines(path)) {
    input.form = TextForm::kJsonLines;
  } else {
    require<ConfigError>(
        extension == ".txt" || extension == ".text" || extension == ".md",
        "cannot tell the format of '{}'; expected .jsonl, .json, .txt or .md, also with .gz, "
        ".bz2 or .zst, .parquet or .arrow, or an explicit format ({})",
        path.string(), advice_for(path));
  }
  return input;
}

void TextBuffer::reserve(std::size_t bytes) {
  if (bytes <= capacity_ && data_) return;
  const std::size_t capacity = std::max(bytes, capacity_ + capacity_ / 2);
  auto grown = std::make_unique_for_overwrite<char[]>(capacity + kBlockPadding);
  if (size_ > 0) std::memcpy(grown.get(), data_.get(), size_);
  data_ = std::move(grown);
  capacity_ = capacity;
}

void TextBuffer::assign(std::string_view text) {
  reserve(text.size());
  if (!text.empty()) std::memmove(data_.get(), text.data(), text.size());
  size_ = text.size();
}

void TextBuffer::pad() {
  reserve(size_);
  std::memset(data_.get() + size_, 0, kBlockPadding);
}

BlockReader::BlockReader(const std::vector<TextInput>& inputs, const ReadOptions& options)
    : inputs_(inputs), options_(options) {}

bool BlockReader::open_next() {
  if (opened_ == inputs_.size()) return false;
  const TextInput& input = inputs_[opened_++];
  TextEncoding encoding = options_.encoding;
  encoding.line_ends = encoding.line_ends && input.form == TextForm::kPlain;
  if (is_table(input.path))  // whose rows are UTF-8, whatever statistics say
    encoding.name = encoding.name == "unchecked" ? "bytes" : "UTF-8";
  source_ = open_text(input.path, encoding);
  if (input.form == TextForm::kJsonLines) source_ = one_value_per_line(std::move(source_));
  rest_.set_size(0);
  line_ = 1;
  at_end_ = false;
  return true;
}

bool BlockReader::fill(std::size_t target) {
  while (!at_end_ && rest_.size() < target) {
    require<DataError>(
        options_.longest_document > 0 || rest_.size() <= kLongestDocument,
        "'{}' line {}: a document of more than {} bytes; split it (plain text: by paragraph or line)",
        inputs_[opened_ - 1].path.string(), line_, kLongestDocument);
    rest_.reserve(std::max(target, kBlockBytes));
    const std::size_t got = source_->read(rest_.data() + rest_.size(), target - rest_.size());
    rest_.set_size(rest_.size() + got);
    at_end_ = got == 0;
  }
  return !at_end_;
}

// Hands out the first `cut` bytes of rest_.
void BlockReader::finish(Block& block, std::size_t cut, std::int64_t lines) {
  block.input = &inputs_[opened_ - 1];
  block.first_line = line_;
  block.position = position_ + source_->position();
  line_ += lines;
  std::swap(block.text, rest_);  // only what follows the cut is copied
  rest_.assign(block.text.view().substr(cut));
  block.text.set_size(cut);
  block.text.pad();
}

// Whether the document that begins there, and has no end yet, is.
bool BlockReader::is_too_long(std::size_t begin) const {
  return options_.longest_document > 0 && rest_.size() - begin > options_.longest_document;
}

// The document ends where its line does, before a blank line, or with the file.
void BlockReader::hand_out_beginning(Block& block, std::size_t begin, TextSplit split) {
  const std::size_t size = options_.longest_document + 1;
  const auto forget = [&](std::size_t bytes) {
    const std::string_view gone = rest_.view().substr(0, bytes);
    line_ += std::count(gone.begin(), gone.end(), '\n');
    rest_.assign(rest_.view().substr(bytes));
  };
  forget(begin);
  block.input = &inputs_[opened_ - 1];
  block.first_line = line_;
  block.text.assign(rest_.view().substr(0, size));
  block.text.pad();
  block.documents.assign(1, {0, size});
  auto end_of_it = [&, in_text = true]() mutable {  // in_text: the line so far is not blank
    std::size_t at = 0;
    while (split != TextSplit::kFile) {
      const std::size_t newline = rest_.view().find('\n', at);
      in_text = in_text || !blank(rest_.view().substr(at, newline - at));
      if (newline == std::string_view::npos) break;
      if (!in_text) return std::optional(at);
      at = newline + 1;
      if (split == TextSplit::kLine) return std::optional(at);
      in_text = false;
    }
    return std::optional<std::size_t>();
  };
  for (bool more = true;;) {
    const std::optional<std::size_t> end = end_of_it();
    forget(end.value_or(rest_.size()));
    if (end || !more) break;
    more = fill(kBlockBytes);
  }
  block.position = position_ + source_->position();
}

bool BlockReader::next(Block& block) {
  block.documents.clear();
  for (;;) {
    if (source_) {
      const TextInput& input = inputs_[opened_ - 1];
      const bool found = input.form == TextForm::kJsonLines        ? next_json(block)
                         : options_.text_split == TextSplit::kFile ? next_whole(block)
                                                                   : next_cut(block);
      if (found) return true;
      position_ += source_->position();
      source_.reset();
    }
    if (!open_next()) return false;
  }
}

bool BlockReader::salvage(Block& block) {
  block.documents.clear();
  const bool lines_of_json = opened_ > 0 && inputs_[opened_ - 1].form == TextForm::kJsonLines;
  if (!source_ || (!lines_of_json && options_.text_split != TextSplit::kLine)) return false;
  const std::size_t end = last_line_end(rest_.view());
  rest_.set_size(end == std::string_view::npos ? 0 : end + 1);
  at_end_ = true;
  return rest_.size() > 0 && (lines_of_json ? next_json(block) : next_cut(block));
}

bool BlockReader::next_json(Block& block) {
  std::size_t cut = 0, searched = 0;
  while (cut == 0) {
    if (is_too_long(0)) {  // what is there has no end of a line
      hand_out_beginning(block, 0, TextSplit::kLine);
      return true;
    }
    const bool more = fill(std::max(kBlockBytes, rest_.size() + kBlockBytes / 2));
    if (!more) {
      cut = rest_.size();
      break;
    }
    const std::size_t newline = last_line_end(rest_.view().substr(searched));
    if (newline != std::string_view::npos) cut = searched + newline + 1;
    searched = rest_.size();
  }
  if (cut == 0) return false;
  const std::string_view text = rest_.view().substr(0, cut);
  for (std::size_t begin = 0; begin < cut;) {
    const std::size_t end = std::min(text.find('\n', begin), cut);
    block.documents.emplace_back(begin, end);
    begin = end + 1;
  }
  finish(block, cut, static_cast<std::int64_t>(block.documents.size()));
  return true;
}

bool BlockReader::next_whole(Block& block) {
  while (fill(rest_.size() + std::max(kBlockBytes, rest_.size()))) {
    if (!is_too_long(0)) continue;
    hand_out_beginning(block, 0, TextSplit::kFile);
    return true;
  }
  const std::size_t size = rest_.size();
  if (size == 0) return false;
  finish(block, size, 0);
  block.documents.emplace_back(0, size);
  return true;
}

// Lines or paragraphs, joined up to text_min_bytes. A document ends before the line that begins the next one,
// so blank lines belong to what they follow; line ends at its end are dropped.
bool BlockReader::next_cut(Block& block) {
  std::size_t begin = 0, at = 0;  // of the open document, of the line looked at
  std::int64_t lines = 0, lines_at_begin = 0;
  bool after_blank = true;
  const auto close = [&](std::size_t end) {
    std::size_t last = end;
    while (last > begin && (rest_.view()[last - 1] == '\n' || rest_.view()[last - 1] == '\r')) --last;
    if (!blank(rest_.view().substr(begin, last - begin))) block.documents.emplace_back(begin, last);
    begin = end;
    lines_at_begin = lines;
  };
  // Whether the line whose end is missing begins another document.
  const auto begins_another = [&] {
    return at > begin && at - begin >= options_.text_min_bytes &&
           (options_.text_split == TextSplit::kLine || after_blank) && !blank(rest_.view().substr(at));
  };
  for (bool more = true; more;) {
    more = fill(std::max(kBlockBytes, rest_.size() + kBlockBytes / 2));
    for (;;) {
      const auto newline = rest_.view().find('\n', at);
      if (newline == std::string_view::npos) break;
      const bool is_blank = blank(rest_.view().substr(at, newline - at));
      const bool boundary = !is_blank && (options_.text_split == TextSplit::kLine || after_blank);
      if (boundary && at > begin && at - begin >= options_.text_min_bytes) close(at);
      after_blank = is_blank;
      at = newline + 1;
      ++lines;
    }
    if (is_too_long(begin) && begins_another()) close(at);
    const bool too_long = is_too_long(begin);
    if (too_long && block.documents.empty()) {
      hand_out_beginning(block, begin, options_.text_split);
      return true;
    }
    if ((too_long || (more && begin >= kBlockBytes / 2)) && !block.documents.empty()) {
      auto documents = std::move(block.documents);
      finish(block, begin, lines_at_begin);
      block.documents = std::move(documents);
      return true;
    }
  }
  if (begins_another()) close(at);
  close(rest_.size());
  if (block.documents.empty()) return false;
  auto documents = std::move(block.documents);
  finish(block, rest_.size(), lines);
  block.documents = std::move(documents);
  return true;
}

void each_document(const Block& block, JsonLines& lines, const std::function<void(std::string_view)>& visit) {
  if (block.input->form == TextForm::kJsonLines) return lines.each(block, visit);
  for (const auto& [begin, end] : block.documents) visit(block.text.view().substr(begin, end - begin));
}

void each_document(const TextFile& file, const std::function<void(std::string_view, std::uint64_t)>& visit) {
  ReadOptions options;
  options.text_split = file.split;
  const std::vector<TextInput> inputs{describe_input(file.path, options)};
  BlockReader reader(inputs, options);
  JsonLines lines(file.json_key);
  Block block;
  while (reader.next(block))
    each_document(block, lines, [&](std::string_view document) { visit(document, block.position); });
}

}  // namespace stoa::data
