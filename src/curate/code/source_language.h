// Programming languages of files, and how much of them is comments.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace stoa::curate {

// By the extension or the name of the file, as GitHub's Linguist names it ("C++", "Makefile"); empty: none
// that is known.
std::string_view source_language(const std::filesystem::path& path);

// Share of the bytes of a file that are comments, and in Python docstrings; nothing for languages whose
// comments are not known. Marks within strings begin no comment.
std::optional<double> comment_share(std::string_view text, std::string_view language);

}  // namespace stoa::curate
