// Pages as UTF-8, whatever they were written as.
#pragma once

#include <string>
#include <string_view>

namespace stoa::curate {

// The text of a page: its encoding is that of a byte-order mark, else of the HTTP header, else of a <meta> in
// the first 1,024 bytes, else UTF-8 where it is valid, else what statistics say. Names mean what they mean to
// browsers (ISO-8859-1 is windows-1252). A header or <meta> that is plainly wrong about UTF-8 is not
// believed. Bytes that the encoding does not have become U+FFFD.
std::string page_as_utf8(std::string_view bytes, std::string_view content_type);

}  // namespace stoa::curate
