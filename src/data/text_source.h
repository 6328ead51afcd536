// The text of a file as UTF-8 with Unix line endings, whatever it was written as.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "data/byte_source.h"

namespace stoa::data {

struct TextEncoding {
  // "auto": by the first bytes; "unchecked": also, with wrong bytes of UTF-8; "bytes": unchanged; or iconv's.
  std::string name = "auto";
  bool line_ends = true;  // "\r\n" becomes "\n" where nearly all lines end so
  // Called once per file that is converted.
  std::function<void(std::string_view)> notice = {};
};

// As open_bytes(), decompressed. DataError: bytes that the encoding has not, with file and offset in the
// (decompressed) content; an encoding that cannot be told. ConfigError: an unknown name.
std::unique_ptr<ByteSource> open_text(const fs::path& path, const TextEncoding& encoding);
// The same of bytes from anywhere; `name` stands in messages.
std::unique_ptr<ByteSource> text_of(std::unique_ptr<ByteSource> bytes, const std::string& name,
                                    const TextEncoding& encoding);

}  // namespace stoa::data
