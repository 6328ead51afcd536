#include "curate/io/document_reader.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::curate {

std::span<const config::EnumName<TextSplit>> enum_names(TextSplit) {
  static constexpr config::EnumName<TextSplit> kNames[] = {
      {"file", TextSplit::kFile}, {"paragraph", TextSplit::kParagraph}, {"line", TextSplit::kLine}};
  return kNames;
}

void declare(config::Section<InputOptions>& s) {
  s.field("text_key", &InputOptions::text_key)
      .not_empty()
      .help("The key of JSON lines whose value is the text.");
  s.field("id_key", &InputOptions::id_key)
      .not_empty()
      .help("The key whose value is the id; a document without one is named FILE:NUMBER.");
  s.field("text_split", &InputOptions::text_split).help("What is one document of a text file.");
}

namespace {

data::ReadOptions read_options(const InputOptions& options) {
  data::ReadOptions read;
  read.text_split = options.text_split == TextSplit::kFile        ? data::TextSplit::kFile
                    : options.text_split == TextSplit::kParagraph ? data::TextSplit::kParagraph
                                                                  : data::TextSplit::kLine;
  return read;
}

bool is_readable(const fs::path& path) {
  const fs::path inner =
      data::compression_of(path) == data::Compression::kNone ? path : fs::path(path).replace_extension();
  const fs::path extension = inner.extension();
  return data::is_json_lines(path) || extension == ".txt" || extension == ".text" || extension == ".md";
}

}  // namespace

std::vector<data::TextInput> find_inputs(const std::vector<fs::path>& paths) {
  std::vector<data::TextInput> inputs;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      inputs.push_back(data::describe_input(path, {}));
      continue;
    }
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file() && is_readable(entry.path())) files.push_back(entry.path());
    require<ConfigError>(
        !files.empty(),
        "'{}' has no files that can be read; expected .jsonl, .txt or .md, also with .gz or .zst",
        path.string());
    std::sort(files.begin(), files.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    for (const fs::path& file : files) inputs.push_back(data::describe_input(file, {}));
  }
  require<ConfigError>(!inputs.empty(), "no input files");
  return inputs;
}

DocumentReader::DocumentReader(const std::vector<data::TextInput>& inputs, const InputOptions& options,
                               Place from)
    : inputs_(inputs),
      from_(from),
      rest_(inputs.begin() + static_cast<std::ptrdiff_t>(
                                 std::min<std::size_t>(static_cast<std::size_t>(from.input), inputs.size())),
            inputs.end()),
      reader_(rest_, read_options(options)) {}

bool DocumentReader::next(InputBlock& block) {
  for (;;) {
    if (!reader_.next(block.block)) return false;
    block.input = from_.input + (block.block.input - rest_.data());
    const auto count = std::ssize(block.block.documents);
    if (block.input != input_) number_ = 0;
    input_ = block.input;
    block.first = number_;
    number_ += count;
    block.skip = 0;
    if (block.input == from_.input) {
      if (number_ <= from_.number) continue;
      block.skip = static_cast<std::size_t>(std::max<std::int64_t>(0, from_.number - block.first));
    }
    return true;
  }
}

bool DocumentParser::parse(const InputBlock& from, std::size_t index, Document& document) {
  const data::Block& block = from.block;
  const auto [begin, end] = block.documents[index];
  const std::string_view piece = block.text.view().substr(begin, end - begin);
  if (block.input->form == data::TextForm::kJsonLines) {
    if (piece.find_first_not_of(" \t\r") == piece.npos) return false;
    json_.read(piece, block.text.size() + data::kBlockPadding - begin, document);
  } else {
    document.text = piece;
    document.id.clear();
    document.metadata.clear();
  }
  if (document.id.empty())
    document.id = fmt::format("{}:{}", block.input->path.filename().string(),
                              from.first + static_cast<std::int64_t>(index) + 1);
  return true;
}

}  // namespace stoa::curate
