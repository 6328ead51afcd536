// Records of web archives (WARC 0.17 to 1.1): version line, headers, a blank line, Content-Length bytes.
// Records of ARC files (arc.h) are read as WARC records. Compressed archives are gzip members one after
// another, which data/byte_source reads as one text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "data/byte_source.h"

namespace stoa::curate {

struct WarcHeaders {
  std::string_view type;  // "conversion"
  std::string_view id, uri, date;
  std::string_view content_type;
  std::string_view payload_type;  // what the crawler found the page to be: "text/html"
  std::uint64_t length = 0;       // of the content
  std::size_t bytes = 0;          // of the headers, blank line included
};

// The headers that `text` begins with; false where they do not end in it. DataError: no WARC record, or no
// length.
bool read_warc_headers(std::string_view text, WarcHeaders& headers);

// The message about damage (WarcReader::kDamage) in `archive`, with its beginning.
std::string describe_damage(const fs::path& archive, std::string_view damage);

class WarcReader {
 public:
  static constexpr std::uint64_t kLongestRecord = std::uint64_t{256} << 20;
  static constexpr std::size_t kLongestHeaders = 1 << 16;
  // The type of what is no record and lies between two: a Content-Length that is too small leaves such. In
  // place of corrupt compressed data stands what is wrong.
  static constexpr std::string_view kDamage = "damage";

  // A content of more than `longest` bytes is handed out up to one byte more than these, without its rest.
  explicit WarcReader(const fs::path& path, std::uint64_t longest = kLongestRecord);
  // The next record, or damage (its beginning; without headers); its views live until the next call. False at
  // the end. DataError names the file and the place: damage that no record follows.
  bool next(WarcHeaders& headers, std::string_view& content);
  std::uint64_t position() const { return source_->position(); }

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }
  bool fill(std::size_t bytes);  // false at the end of the file
  void pass(std::size_t bytes);
  void pass_rest_of_record();
  bool pass_line_ends();
  std::string read_headers(WarcHeaders& headers);
  bool resume();
  bool find_record(std::string_view& before);
  std::string_view take_content(std::uint64_t length, std::size_t headers);
  void next_arc(WarcHeaders& headers, std::string_view& content);

  const fs::path path_;
  const std::uint64_t longest_;
  std::unique_ptr<data::ByteSource> source_;
  std::string buffer_, damage_;
  std::string source_fault_;  // where compressed data is corrupt
  std::uint64_t left_ = 0;    // of the content that was handed out
  bool is_arc_ = false;
  std::size_t arc_fields_ = 4;
  std::string arc_record_;    // as a WARC record
  std::size_t begin_ = 0;     // of what is not yet used
  std::uint64_t offset_ = 0;  // in the archive, decompressed, of begin_
};

}  // namespace stoa::curate
