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

void each_document_of(const fs::path& file, const TextArguments& arguments,
                      const std::function<void(std::string_view, std::uint64_t)>& visit) {
  data::ReadOptions options;
  options.text_split = text_split_named(arguments.split);
  const std::vector<data::TextInput> inputs{data::describe_input(file, options)};
  data::BlockReader reader(inputs, options);
  data::JsonLines json(arguments.json_key);
  data::Block block;
  while (reader.next(block))
    data::each_document(block, json, [&](std::string_view document) { visit(document, block.position); });
}

}  // namespace stoa::cli
