// Answers of web servers as archives hold them: status, headers and a body that may be cut into chunks and
// compressed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stoa::curate {

// Without blanks, tabs and carriage returns at its ends.
std::string_view trim_header(std::string_view text);

struct HttpAnswer {
  int status = 0;
  std::string_view content_type;  // "text/html; charset=utf-8", as it is written
  std::string_view body;          // of the given text, or `decoded`
  std::string decoded;
};

inline constexpr std::size_t kLongestBody = std::size_t{64} << 20;  // also decompressed

// False where the text is no answer. Bodies that are not coded as their headers say (archives keep headers
// and decode bodies) are taken as they are. DataError: a body of more than kLongestBody bytes, or compressed
// data that is corrupt.
bool read_http_answer(std::string_view text, HttpAnswer& answer);

}  // namespace stoa::curate
