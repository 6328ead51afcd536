#include "curate/io/warc.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/escape.h"
#include "curate/html/tokenizer.h"
#include "curate/io/arc.h"
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

std::string describe_damage(const fs::path& archive, std::string_view damage) {
  constexpr std::size_t kShown = 200;
  return fmt::format("'{}': between two records are bytes that belong to none: {}", archive.string(),
                     escape_controls(damage.substr(0, kShown)));
}

WarcReader::WarcReader(const fs::path& path, std::uint64_t longest)
    : path_(path), longest_(longest), source_(data::open_bytes(path)) {}

bool WarcReader::fill(std::size_t bytes) {
  if (begin_ > 0 && begin_ + bytes > buffer_.capacity()) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  while (buffer_.size() - begin_ < bytes) {
    const std::size_t had = buffer_.size(), wanted = std::max<std::size_t>(bytes - (had - begin_), 1 << 16);
    buffer_.resize(had + wanted);
    std::size_t got = 0;
    try {
      got = source_->read(buffer_.data() + had, wanted);
    } catch (const DataError& e) {
      source_fault_ = e.what();
      throw;
    }
    buffer_.resize(had + got);
    if (got == 0) return false;
  }
  return true;
}

void WarcReader::pass(std::size_t bytes) {
  begin_ += bytes;
  offset_ += bytes;
}

void WarcReader::pass_rest_of_record() {
  while (left_ > 0) {
    require<DataError>(!rest().empty() || fill(1), "the archive ends {} bytes before its last record does",
                       left_);
    const std::size_t bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_, rest().size()));
    pass(bytes);
    left_ -= bytes;
  }
}

// False at the end of the file.
bool WarcReader::pass_line_ends() {
  for (;;) {
    if (rest().empty() && !fill(1)) return false;
    pass(std::min(rest().find_first_not_of("\r\n"), rest().size()));
    if (!rest().empty()) return true;
  }
}

// What is wrong; empty: nothing.
std::string WarcReader::read_headers(WarcHeaders& headers) {
  for (std::size_t wanted = 1024;; wanted *= 2) {
    try {
      if (read_warc_headers(rest(), headers)) return {};
    } catch (const DataError& e) {
      return e.what();
    }
    if (rest().size() > kLongestHeaders) return fmt::format("headers of more than {} bytes", kLongestHeaders);
    const std::size_t had = rest().size();
    fill(std::max(wanted, had + 1));
    if (rest().size() == had) return "the archive ends within the headers of a record";
  }
}

// Goes to the next line that begins as a record does. False: there is none.
bool WarcReader::find_record(std::string_view& before) {
  constexpr std::string_view kBegin = "\nWARC/";
  constexpr std::size_t kMostShown = 1 << 16;
  damage_.clear();
  for (;;) {
    const std::size_t found = rest().find(kBegin);
    const std::size_t without = rest().size() - std::min(rest().size(), kBegin.size() - 1);
    const std::size_t gone = found != std::string_view::npos ? found + 1 : without;
    damage_ += rest().substr(0, std::min(gone, kMostShown - std::min(kMostShown, damage_.size())));
    pass(gone);
    before = damage_;
    if (found != std::string_view::npos) return true;
    if (!fill(rest().size() + 1)) return false;
  }
}

// The content behind `headers` bytes, or what is shown of it.
std::string_view WarcReader::take_content(std::uint64_t length, std::size_t headers) {
  const std::uint64_t shown = std::min(length, longest_ + 1);
  const std::size_t all = headers + static_cast<std::size_t>(shown);
  require<DataError>(fill(all), "a record of {} bytes is announced, and {} follow", length,
                     rest().size() - headers);
  const std::string_view content = rest().substr(headers, static_cast<std::size_t>(shown));
  pass(all);
  left_ = length - shown;
  return content;
}

void WarcReader::next_arc(WarcHeaders& headers, std::string_view& content) {
  std::size_t end = rest().find('\n');
  while (end == std::string_view::npos) {
    require<DataError>(rest().size() <= kLongestHeaders && fill(rest().size() + 1),
                       "the archive ends within the line of a record");
    end = rest().find('\n');
  }
  const std::string line(rest().substr(0, end));
  const bool is_first = line.starts_with(kArcBegin);
  const ArcLine read = read_arc_line(line, is_first ? 4 : arc_fields_);
  content = take_content(read.length, end + 1);
  if (is_first) arc_fields_ = arc_fields(content);
  arc_record_ = warc_headers_of(read, content);
  const std::size_t bytes = arc_record_.size();
  arc_record_ += content;
  read_warc_headers(arc_record_, headers);
  content = std::string_view(arc_record_).substr(bytes);
}

// Whether there is more behind corrupt compressed data.
bool WarcReader::resume() {
  buffer_.clear();
  begin_ = 0;
  left_ = 0;
  try {
    return fill(1) || !rest().empty();
  } catch (const DataError&) {
    return false;
  }
}

bool WarcReader::next(WarcHeaders& headers, std::string_view& content) {
  std::uint64_t place = offset_;
  try {
    pass_rest_of_record();
    if (!pass_line_ends()) return false;
    place = offset_;
    is_arc_ = is_arc_ || (offset_ == 0 && (fill(kArcBegin.size()), rest().starts_with(kArcBegin)));
    if (is_arc_) {
      next_arc(headers, content);
      return true;
    }
    if (const std::string fault = read_headers(headers); !fault.empty()) {
      require<DataError>(offset_ > 0 && find_record(content), "{}", fault);
      headers = {};
      headers.type = kDamage;
      return true;
    }
    content = take_content(headers.length, headers.bytes);
    read_warc_headers({content.data() - headers.bytes, headers.bytes}, headers);  // the buffer may have moved
    return true;
  } catch (const DataError& e) {
    damage_.swap(source_fault_);
    source_fault_.clear();
    if (damage_.empty() || !resume()) fail<DataError>("'{}' byte {}: {}", path_.string(), place, e.what());
    headers = {};
    headers.type = kDamage;
    content = damage_;
    return true;
  }
}

}  // namespace stoa::curate
