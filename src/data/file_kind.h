// What the first bytes of a file say that it is, for messages about files that are not what their names say.
#pragma once

#include <string_view>

#include "base/file.h"

namespace stoa::data {

// "is gzip data: give it a name that ends with .gz" for bytes that no text begins with; empty: none of the
// kinds that are known.
std::string_view other_kind(std::string_view head);
// What to do with a file whose name is not of a kind that is read: "unpack it".
std::string_view advice_for(const fs::path& path);
// Whether a text begins with the mark of UTF-16.
bool is_utf16(std::string_view head);
// DataError: `head` begins a file of another kind, or one of UTF-16. `name`: in the message.
void require_utf8_text(std::string_view head, std::string_view name);

}  // namespace stoa::data
