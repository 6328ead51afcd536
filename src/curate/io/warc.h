// Records of web archives (WARC 0.17 to 1.1): version line, headers, a blank line, Content-Length bytes.
// Compressed archives are gzip members one after another, which data/byte_source reads as one text.
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

class WarcReader {
 public:
  explicit WarcReader(const fs::path& path);
  // The next record; its views live until the next call. False at the end. DataError names the file and the
  // place.
  bool next(WarcHeaders& headers, std::string_view& content);
  std::uint64_t position() const { return source_->position(); }

  static constexpr std::uint64_t kLongestRecord = std::uint64_t{256} << 20;
  static constexpr std::size_t kLongestHeaders = 1 << 16;

 private:
  bool fill(std::size_t bytes);  // false at the end of the file

  const fs::path path_;
  std::unique_ptr<data::ByteSource> source_;
  std::string buffer_;
  std::size_t begin_ = 0;     // of what is not yet used
  std::uint64_t offset_ = 0;  // in the archive, decompressed, of begin_
};

}  // namespace stoa::curate
