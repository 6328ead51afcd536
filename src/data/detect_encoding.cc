#include "data/detect_encoding.h"

#include <uchardet/uchardet.h>

#include <algorithm>
#include <array>
#include <memory>

#include "data/utf8_scan.h"

namespace stoa::data {
namespace {

using namespace std::string_view_literals;

struct Mark {
  std::string_view bytes;
  const char* name;
};
constexpr std::array kMarks{Mark{"\xef\xbb\xbf"sv, "UTF-8"}, Mark{"\xff\xfe\0\0"sv, "UTF-32LE"},
                            Mark{"\0\0\xfe\xff"sv, "UTF-32BE"}, Mark{"\xff\xfe"sv, "UTF-16LE"},
                            Mark{"\xfe\xff"sv, "UTF-16BE"}};

// Line ends, spaces and Latin letters of UTF-16 and UTF-32 have zero bytes at the same places in every unit.
std::string wide_encoding(std::string_view sample) {
  std::array<std::size_t, 4> zeros{};
  for (std::size_t i = 0; i < sample.size(); ++i) zeros[i % 4] += sample[i] == '\0' ? 1 : 0;
  const std::size_t all = zeros[0] + zeros[1] + zeros[2] + zeros[3], units = sample.size() / 4;
  if (all * 64 < sample.size() || sample.size() < 4) return "";
  const auto mostly = [&](std::size_t count) { return count * 10 >= units * 9; };
  if (mostly(zeros[3]) && mostly(zeros[2])) return "UTF-32LE";
  if (mostly(zeros[0]) && mostly(zeros[1])) return "UTF-32BE";
  const std::size_t even = zeros[0] + zeros[2], odd = zeros[1] + zeros[3];
  // ASCII with a few zero bytes, such as records that end with one: as UTF-16 it would have one per letter.
  const bool ascii = std::all_of(sample.begin(), sample.end(), [](char c) {
    return c == '\0' || (c >= '\t' && c <= '\r') || (c >= ' ' && c <= '~');
  });
  if (ascii && all * 4 < sample.size()) return "";
  if (odd > 20 * even) return "UTF-16LE";
  if (even > 20 * odd) return "UTF-16BE";
  return "";
}

// Old mail and pages of Japan and Korea are bytes of ASCII that escapes make to characters.
std::string escaped_encoding(std::string_view sample) {
  const bool high =
      std::any_of(sample.begin(), sample.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (high || sample.find('\x1b') == sample.npos) return "";
  if (sample.find("\x1b$)C") != sample.npos) return "ISO-2022-KR";
  const bool japanese = sample.find("\x1b$B") != sample.npos || sample.find("\x1b$@") != sample.npos;
  return japanese ? "ISO-2022-JP" : "";
}

struct Counts {
  std::size_t characters = 0, wrong = 0, high = 0;  // of UTF-8 beyond ASCII; bytes that are no part of any
};

Counts count_utf8(std::string_view rest) {
  Counts counts;
  for (const char c : rest) counts.high += static_cast<unsigned char>(c) >= 0x80 ? 1 : 0;
  while (!rest.empty()) {
    const Utf8Scan scan = scan_utf8(rest);
    for (const char c : rest.substr(0, scan.valid))
      counts.characters += static_cast<unsigned char>(c) >= 0xc0 ? 1 : 0;
    if (scan.truncated || scan.valid == rest.size()) break;
    ++counts.wrong;
    rest.remove_prefix(scan.valid + 1);
  }
  return counts;
}

std::string statistics(std::string_view sample) {
  const std::unique_ptr<uchardet, void (*)(uchardet_t)> detector(::uchardet_new(), ::uchardet_delete);
  if (::uchardet_handle_data(detector.get(), sample.data(), sample.size()) != 0) return "";
  ::uchardet_data_end(detector.get());
  return ::uchardet_get_charset(detector.get());
}

}  // namespace

DetectedEncoding detect_encoding(std::string_view sample) {
  for (const Mark& mark : kMarks)
    if (sample.starts_with(mark.bytes)) return {mark.name, mark.bytes.size()};
  if (std::string wide = wide_encoding(sample); !wide.empty()) return {std::move(wide), 0};
  if (std::string escaped = escaped_encoding(sample); !escaped.empty()) return {std::move(escaped), 0};
  const Counts counts = count_utf8(sample);
  // A few wrong bytes in a text of UTF-8 are damage: they are named where they stand.
  if (counts.wrong == 0 || counts.characters >= 4 * counts.wrong) return {"UTF-8", 0};
  // Statistics need letters. Few of them among many of ASCII are most often a Western European text's.
  constexpr std::size_t kFewest = 32;
  const bool western = counts.high * 4 < sample.size();
  std::string name = counts.high < kFewest && western ? "" : statistics(sample);
  // What says Latin-1 means Windows' superset of it (WHATWG's Encoding Standard, section 4.2).
  if ((name.empty() && western) || name == "ISO-8859-1" || name == "ASCII" || name == "UTF-8")
    name = "WINDOWS-1252";
  return {std::move(name), 0};
}

bool has_windows_line_ends(std::string_view sample) {
  std::size_t ends = 0, windows = 0;
  for (std::size_t at = sample.find('\n'); at != std::string_view::npos; at = sample.find('\n', at + 1)) {
    ++ends;
    windows += at > 0 && sample[at - 1] == '\r' ? 1 : 0;
  }
  return windows > 0 && windows * 10 >= ends * 9;
}

}  // namespace stoa::data
