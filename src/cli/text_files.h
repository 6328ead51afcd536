// The documents of text files, for commands that read a whole text.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_reader.h"

namespace stoa::cli {

struct TextArguments {
  std::string split = "file", json_key = "text";

  void add_to(CLI::App& command);
};

// The value of --text-split of that name.
data::TextSplit text_split_named(std::string_view name);

// Calls `visit` with every document of a .txt or .jsonl file (also .gz, .zst), and with the bytes of the file
// read so far.
void each_document_of(const fs::path& file, const TextArguments& arguments,
                      const std::function<void(std::string_view document, std::uint64_t position)>& visit);

}  // namespace stoa::cli
