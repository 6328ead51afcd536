// Records of ARC files, which crawlers wrote before WARC (archive.org/web/researcher/ArcFileFormat.php): a
// line `URL IP-address date type … length`, then that many bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stoa::curate {

// What the first record of an ARC file begins with.
inline constexpr std::string_view kArcBegin = "filedesc:";

struct ArcLine {
  std::string_view uri, type;
  std::string date;          // as WARC has it
  std::uint64_t length = 0;  // of the content
};

// How many fields follow the address, which may have blanks: 4 in version 1, 9 in version 2, as the content
// of the first record says. DataError: another version.
std::size_t arc_fields(std::string_view first_content);
// A line without its end. DataError: it is none.
ArcLine read_arc_line(std::string_view line, std::size_t fields);
// The headers of the WARC record that holds the content: a response, or a resource where it is no answer of
// HTTP.
std::string warc_headers_of(const ArcLine& line, std::string_view content);

}  // namespace stoa::curate
