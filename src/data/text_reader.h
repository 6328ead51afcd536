// Reads corpora in blocks of whole documents: cutting is cheap and sequential; parsing is done by the thread
// that processes the block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "data/text_source.h"

namespace stoa::data {

enum class TextForm {
  kJsonLines,  // one JSON object per line
  kPlain,      // text
};
enum class TextSplit {  // of plain text into documents
  kFile,                // the whole file
  kParagraph,           // at blank lines
  kLine,                // every line
};

struct ReadOptions {
  std::optional<TextForm> form;  // unset: by the file's extension
  TextSplit text_split = TextSplit::kFile;
  std::size_t text_min_bytes = 0;  // paragraphs or lines are joined until a document has this many bytes
  // Only this many bytes and one more of a longer document are handed out, as a block of its own; the rest
  // is read and forgotten. 0: a document of more than kLongestDocument is an error.
  std::size_t longest_document = 0;
  TextEncoding encoding = {};  // JSON is split into lines as UTF-8
};

struct TextInput {
  fs::path path;
  TextForm form = TextForm::kPlain;
  std::uint64_t bytes = 0;  // size on disk, compressed or not
};

// By its name, compressed or not; a Parquet file is read as lines of JSON.
bool is_json_lines(const fs::path& path);
// IoError when the file is missing or a folder; ConfigError when its form cannot be determined.
TextInput describe_input(const fs::path& path, const ReadOptions& options);

inline constexpr std::size_t kBlockPadding = 64;

// A buffer that grows without zeroing new bytes and has kBlockPadding readable bytes after its content.
class TextBuffer {
 public:
  std::string_view view() const { return {data_.get(), size_}; }
  char* data() { return data_.get(); }
  std::size_t size() const { return size_; }
  void reserve(std::size_t bytes);  // keeps the content
  void set_size(std::size_t bytes) {
    size_ = bytes;
  }  // at most what was reserved; new bytes are indeterminate
  void assign(std::string_view text);
  void pad();  // zeros the padding

 private:
  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0, capacity_ = 0;  // without padding
};

struct Block {
  const TextInput* input = nullptr;  // owned by the reader's caller
  std::int64_t first_line = 1;       // number in the input of the line where `text` begins
  TextBuffer text;
  // [begin, end) in `text`, without line ends. JSON: its lines, blank ones too.
  std::vector<std::pair<std::size_t, std::size_t>> documents;
  std::uint64_t position = 0;  // bytes of all inputs consumed when the block was complete
};
inline constexpr std::size_t kBlockBytes = 128 << 10;  // blocks are about this long, or one document
inline constexpr std::size_t kLongestDocument = std::size_t{1} << 30;

class BlockReader {
 public:
  // `inputs` must outlive the reader.
  BlockReader(const std::vector<TextInput>& inputs, const ReadOptions& options);

  // False after the last block. Errors name the file and, where there are lines, the line.
  bool next(Block& block);
  // After next() threw: the whole lines of the input that were read before the fault and not handed out,
  // where lines are documents (JSON, TextSplit::kLine). False where there are none.
  bool salvage(Block& block);

 private:
  bool open_next();
  bool fill(std::size_t target);  // reads until `rest_` has `target` bytes; false at the end of the file
  void finish(Block& block, std::size_t cut, std::int64_t lines);
  bool is_too_long(std::size_t begin) const;
  void hand_out_beginning(Block& block, std::size_t begin, TextSplit split);
  bool next_json(Block& block);
  bool next_whole(Block& block);
  bool next_cut(Block& block);

  const std::vector<TextInput>& inputs_;
  const ReadOptions options_;
  std::size_t opened_ = 0;  // inputs opened so far
  std::unique_ptr<ByteSource> source_;
  TextBuffer rest_;             // read, not handed out
  std::int64_t line_ = 1;       // of the first byte of rest_
  std::uint64_t position_ = 0;  // bytes of the inputs that are done
  bool at_end_ = false;
};

// Takes the text of each JSON line. One per thread.
class JsonLines {
 public:
  explicit JsonLines(std::string key);
  ~JsonLines();
  // Calls `visit` with the value of the key of every line that is not blank; the view lives until the call
  // returns. DataError names file, line and fault.
  void each(const Block& block, const std::function<void(std::string_view)>& visit);

 private:
  std::string_view text_of(const char* line, std::size_t bytes, std::size_t readable);
  struct Parser;
  std::unique_ptr<Parser> parser_;
  const std::string key_;
};

// Calls `visit` with every document of a block of either form.
void each_document(const Block& block, JsonLines& json, const std::function<void(std::string_view)>& visit);

// A .txt, .jsonl (also .gz, .zst) or .parquet file and what in it is a document.
struct TextFile {
  fs::path path;
  TextSplit split = TextSplit::kFile;
  std::string json_key = "text";  // whose value is the text
};
// Calls `visit` with every document of a file, and with the bytes of the file read so far.
void each_document(const TextFile& file,
                   const std::function<void(std::string_view document, std::uint64_t position)>& visit);

}  // namespace stoa::data
