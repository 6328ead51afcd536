#include "curate/io/arc.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "curate/io/http.h"

namespace stoa::curate {

std::size_t arc_fields(std::string_view first_content) {
  require<DataError>(first_content.starts_with("1 ") || first_content.starts_with("2 "),
                     "an ARC file of a version that is not known");
  return first_content.front() == '1' ? 4 : 9;
}

ArcLine read_arc_line(std::string_view line, std::size_t fields) {
  ArcLine out;
  std::string_view rest = trim_header(line), date;
  for (std::size_t left = fields; left > 0; --left) {
    const std::size_t blank = rest.rfind(' ');
    require<DataError>(blank != rest.npos, "no line of an ARC record");
    const std::string_view field = rest.substr(blank + 1);
    rest.remove_suffix(rest.size() - blank);
    if (left == fields) {
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), out.length);
      require<DataError>(error == std::errc() && end == field.data() + field.size(),
                         "'{}' where the length of an ARC record is expected", field);
    }
    if (left == 3) out.type = field;
    if (left == 2) date = field;
  }
  out.uri = rest;
  constexpr std::size_t kDigits = 14;  // 20200102030405
  if (date.size() >= kDigits && date.find_first_not_of("0123456789") == date.npos)
    out.date = fmt::format("{}-{}-{}T{}:{}:{}Z", date.substr(0, 4), date.substr(4, 2), date.substr(6, 2),
                           date.substr(8, 2), date.substr(10, 2), date.substr(12, 2));
  return out;
}

std::string warc_headers_of(const ArcLine& line, std::string_view content) {
  const bool is_answer = content.starts_with("HTTP/");
  const std::string_view type = line.uri.starts_with(kArcBegin) ? "warcinfo"
                                : is_answer                     ? "response"
                                                                : "resource";
  return fmt::format(
      "WARC/1.0\r\nWARC-Type: {}\r\nWARC-Target-URI: {}\r\nWARC-Date: {}\r\nContent-Type: {}\r\n"
      "Content-Length: {}\r\n\r\n",
      type, line.uri, line.date, is_answer ? "application/http; msgtype=response" : line.type, line.length);
}

}  // namespace stoa::curate
