// How text files are cut into documents, for commands that read a whole text.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "data/text_reader.h"

namespace stoa::cli {

struct TextArguments {
  std::string split = "file", json_key = "text";

  void add_to(CLI::App& command);
  data::TextFile file(const fs::path& path) const;
};

// The value of --text-split of that name.
data::TextSplit text_split_named(std::string_view name);

}  // namespace stoa::cli
