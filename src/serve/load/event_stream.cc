#include "serve/load/event_stream.h"

#include <utility>

#include "base/error.h"

namespace stoa::serve {
namespace {

constexpr std::size_t kLongestEvent = std::size_t{64} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::vector<std::string> EventStream::feed(std::string_view bytes) {
  std::vector<std::string> events;
  if (after_return_ && bytes.starts_with('\n')) bytes.remove_prefix(1);
  after_return_ = after_return_ && bytes.empty();
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    require<DataError>(line_.size() + data_.size() <= kLongestEvent, "an event of more than {} bytes",
                       kLongestEvent);
    if (end == std::string_view::npos) break;
    const bool carriage_return = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (carriage_return && bytes.starts_with('\n'))
      bytes.remove_prefix(1);
    else
      after_return_ = carriage_return && bytes.empty();
    end_line(events);
  }
  return events;
}

void EventStream::end_line(std::vector<std::string>& events) {
  std::string_view line = line_;
  if (std::exchange(at_start_, false) && line.starts_with(kByteOrderMark))
    line.remove_prefix(kByteOrderMark.size());
  if (line.empty()) {
    if (std::exchange(has_data_, false)) events.push_back(std::exchange(data_, {}));
  } else if (const std::size_t colon = line.find(':'); line.substr(0, colon) == "data") {
    std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += value;
  }
  line_.clear();
}

}  // namespace stoa::serve
