#include "curate/io/warc.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "curate/html/tokenizer.h"
#include "curate/io/http.h"

namespace stoa::curate {
bool read_warc_headers(std::string_view text, WarcHeaders& headers) {
  headers = {};
  std::size_t end = text.find('\n');
  if (end == text.npos) {
    require<DataError>(text.size() < 5 || text.starts_with("WARC/"), "no WARC record");
    return false;
  }
  require<DataError>(text.starts_with("WARC/"), "no WARC record");
  bool has_length = false;
  for (;;) {
    const std::size_t begin = end + 1;
    end = text.find('\n', begin);
    if (end == text.npos) return false;
    const std::string_view line = trim_header(text.substr(begin, end - begin));
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;  // a line that continues the one before
    const std::string_view name = trim_header(line.substr(0, colon)),
                           value = trim_header(line.substr(colon + 1));
    if (is_named(name, "warc-type")) headers.type = value;
    if (is_named(name, "warc-record-id")) headers.id = value;
    if (is_named(name, "warc-target-uri")) headers.uri = value;
    if (is_named(name, "warc-date")) headers.date = value;
    if (is_named(name, "content-type")) headers.content_type = value;
    if (is_named(name, "warc-identified-payload-type")) headers.payload_type = value;
    if (is_named(name, "content-length")) {
      const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), headers.length);
      has_length = error == std::errc() && stop == value.data() + value.size();
    }
  }
  require<DataError>(has_length, "a WARC record without a Content-Length");
  headers.bytes = end + 1;
  return true;
}

WarcReader::WarcReader(const fs::path& path) : path_(path), source_(data::open_bytes(path)) {}

bool WarcReader::fill(std::size_t bytes) {
  if (begin_ > 0 && begin_ + bytes > buffer_.capacity()) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  while (buffer_.size() - begin_ < bytes) {
    const std::size_t had = buffer_.size(), wanted = std::max<std::size_t>(bytes - (had - begin_), 1 << 16);
    buffer_.resize(had + wanted);
    const std::size_t got = source_->read(buffer_.data() + had, wanted);
    buffer_.resize(had + got);
    if (got == 0) return false;
  }
  return true;
}

bool WarcReader::next(WarcHeaders& headers, std::string_view& content) {
  const auto rest = [&] { return std::string_view(buffer_).substr(begin_); };
  try {
    // Line ends between records.
    for (;;) {
      if (rest().empty() && !fill(1)) return false;
      const std::size_t ends = std::min(rest().find_first_not_of("\r\n"), rest().size());
      begin_ += ends;
      offset_ += ends;
      if (!rest().empty()) break;
    }
    for (std::size_t wanted = 1024; !read_warc_headers(rest(), headers); wanted *= 2) {
      require<DataError>(rest().size() <= kLongestHeaders, "headers of more than {} bytes", kLongestHeaders);
      const std::size_t had = rest().size();
      fill(std::max(wanted, had + 1));
      require<DataError>(rest().size() > had, "the archive ends within the headers of a record");
    }
    require<DataError>(headers.length <= kLongestRecord, "a record of {} bytes; at most {} are read",
                       headers.length, kLongestRecord);
    const std::size_t all = headers.bytes + static_cast<std::size_t>(headers.length);
    require<DataError>(fill(all), "a record of {} bytes is announced, and {} follow", headers.length,
                       rest().size() - headers.bytes);
    read_warc_headers(rest(), headers);  // the buffer may have moved
    content = rest().substr(headers.bytes, static_cast<std::size_t>(headers.length));
    begin_ += all;
    offset_ += all;
    return true;
  } catch (const DataError& e) {
    fail<DataError>("'{}' byte {}: {}", path_.string(), offset_, e.what());
  }
}

}  // namespace stoa::curate
