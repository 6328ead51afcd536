#include "curate/html/charset.h"

#include <iconv.h>

#include <algorithm>
#include <cerrno>

#include "curate/html/tokenizer.h"
#include "curate/text/character.h"
#include "data/detect_encoding.h"
#include "data/utf8_scan.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kMetaBytes = 1024;
constexpr std::string_view kMark = "\xef\xbf\xbd";

// "utf-8" of `text/html; charset="UTF-8"`; empty: none.
std::string charset_of(std::string_view content_type) {
  const std::string text = lower_ascii(content_type);
  std::size_t at = text.find("charset");
  if (at == text.npos) return {};
  at = text.find_first_not_of(" \t", at + 7);
  if (at == text.npos || text[at] != '=') return {};
  at = text.find_first_not_of(" \t\"'", at + 1);
  if (at == text.npos) return {};
  return text.substr(at, text.find_first_of(" \t\"';,>", at) - at);
}

std::string charset_of_meta(std::string_view html) {
  HtmlTokenizer tokens(html.substr(0, kMetaBytes));
  std::string found;
  for (HtmlToken token; found.empty() && tokens.next(token);) {
    if (token.kind != HtmlToken::Kind::kStart || token.tag != Tag::kMeta) continue;
    std::string content;
    bool is_type = false;
    each_attribute(token.attributes, [&](std::string_view name, std::string_view value) {
      if (is_named(name, "charset")) found = lower_ascii(value);
      if (is_named(name, "content")) content = charset_of(value);
      if (is_named(name, "http-equiv")) is_type = is_named(value, "content-type");
      return true;
    });
    if (found.empty() && is_type) found = content;
  }
  return found.starts_with("utf-16") ? "utf-8" : found;  // it was read as ASCII
}

// What the WHATWG's standard of encodings takes a name for, where iconv takes it for something narrower.
std::string as_browsers(const std::string& name) {
  if (name == "iso-8859-1" || name == "latin1" || name == "iso8859-1" || name == "ascii" ||
      name == "us-ascii" || name == "l1")
    return "windows-1252";
  if (name == "iso-8859-9" || name == "latin5") return "windows-1254";
  if (name == "tis-620" || name == "iso-8859-11") return "windows-874";
  if (name == "gb2312" || name == "gbk" || name == "x-gbk" || name == "gb_2312-80") return "gb18030";
  if (name == "shift_jis" || name == "sjis" || name == "x-sjis" || name == "shift-jis") return "cp932";
  if (name == "ks_c_5601-1987" || name == "euc-kr" || name == "ksc5601") return "cp949";
  if (name == "big5") return "big5-hkscs";
  if (name == "utf8" || name == "unicode-1-1-utf-8") return "utf-8";
  return name;
}

std::string repaired_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = data::scan_utf8(text).valid;
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += kMark;
    text.remove_prefix(1);
    while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xc0) == 0x80) text.remove_prefix(1);
  }
  return out;
}

// Whether too many bytes are wrong for damage: servers call all that they have UTF-8, old pages included.
bool is_hardly_utf8(std::string_view bytes) {
  constexpr std::size_t kFewest = 8, kBytesEach = 200;
  std::size_t wrong = 0;
  for (std::string_view rest = bytes;; ++wrong) {
    const std::size_t valid = data::scan_utf8(rest).valid;
    if (valid == rest.size()) break;
    rest.remove_prefix(valid + 1);
  }
  return wrong >= kFewest && wrong * kBytesEach > bytes.size();
}

// False where iconv has no such encoding.
bool convert(std::string_view text, const std::string& from, std::string& out) {
  const iconv_t converter = ::iconv_open("UTF-8", from.c_str());
  if (converter == reinterpret_cast<iconv_t>(-1)) return false;
  char buffer[1 << 14];
  char* in = const_cast<char*>(text.data());
  std::size_t left = text.size();
  while (left > 0) {
    char* to = buffer;
    std::size_t room = sizeof buffer;
    const std::size_t status = ::iconv(converter, &in, &left, &to, &room);
    out.append(buffer, static_cast<std::size_t>(to - buffer));
    if (status != static_cast<std::size_t>(-1) || errno == E2BIG) continue;
    out += kMark;
    if (errno != EILSEQ || left == 0) break;
    ++in;
    --left;
  }
  ::iconv_close(converter);
  return true;
}

}  // namespace

std::string page_as_utf8(std::string_view bytes, std::string_view content_type) {
  const data::DetectedEncoding detected = data::detect_encoding(bytes.substr(0, 1 << 16));
  std::string name = lower_ascii(detected.name);
  if (detected.skip == 0) {
    std::string declared = charset_of(content_type);
    if (declared.empty()) declared = charset_of_meta(bytes);
    const bool is_utf8 = data::scan_utf8(bytes).valid == bytes.size();
    // UTF-8 beyond ASCII is hardly ever valid by chance.
    if (is_utf8 && !declared.starts_with("iso-2022") && !name.starts_with("iso-2022"))
      return std::string(bytes);
    if (!declared.empty() && !(as_browsers(declared) == "utf-8" && is_hardly_utf8(bytes)))
      name = as_browsers(declared);
  } else {
    bytes.remove_prefix(detected.skip);
  }
  std::string out;
  if (name.empty() || name == "utf-8" || !convert(bytes, name, out)) return repaired_utf8(bytes);
  return data::scan_utf8(out).valid == out.size() ? out : repaired_utf8(out);
}

}  // namespace stoa::curate
