#include "cli/text_files.h"

namespace stoa::cli {

void TextArguments::add_to(CLI::App& command) {
  command.add_option("--text-split", split, "What is one document of a .txt file")
      ->check(CLI::IsMember({"file", "paragraph", "line"}))
      ->capture_default_str();
  command.add_option("--json-key", json_key, "The key of .jsonl whose value is the text")
      ->capture_default_str();
}

data::TextSplit text_split_named(std::string_view name) {
  return name == "file"        ? data::TextSplit::kFile
         : name == "paragraph" ? data::TextSplit::kParagraph
                               : data::TextSplit::kLine;
}

data::TextFile TextArguments::file(const fs::path& path) const {
  return {path, text_split_named(split), json_key};
}

}  // namespace stoa::cli
