// `stoa embed`: a vector per line of text.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "cli/command.h"
#include "cli/embedding_options.h"
#include "cli/input_lines.h"
#include "cli/model_argument.h"
#include "cli/print.h"
#include "infer/text_embedder.h"

namespace stoa::cli {
namespace {

struct EmbedArguments {
  ModelArguments model;
  EmbeddingArguments embedding;
  std::string file;
  bool json = false, raw = false;
};

void show(std::span<const double> vector, const EmbedArguments& arguments) {
  double squares = 0;
  for (const double x : vector) squares += x * x;
  const double scale = arguments.raw || squares == 0 ? 1 : 1 / std::sqrt(squares);
  nlohmann::json json = nlohmann::json::array();
  std::string text;
  for (const double x : vector) {
    const auto value = static_cast<float>(x * scale);
    if (arguments.json)
      json.push_back(value);
    else
      text += fmt::format("{}{}", text.empty() ? "" : " ", value);
  }
  if (arguments.json) return print_json_line(nlohmann::json{{"embedding", json}});
  print(text + "\n");
}

void embed(const EmbedArguments& arguments, Context& context) {
  InputLines in(arguments.file);
  infer::OpenModel model = arguments.model.open();
  infer::TextEmbedder embedder(model, arguments.embedding.options(),
                               [&](std::span<const double> vector) { show(vector, arguments); });
  for (std::string line; in.next(line);) embedder.add(line);
  embedder.flush();
  if (embedder.shortened() > 0)
    context.console.warn(
        fmt::format("{} lines were truncated to {} tokens", embedder.shortened(), embedder.longest()));
}

}  // namespace

void add_embed_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<EmbedArguments>();
  CLI::App* command = app.add_subcommand(
      "embed",
      "A vector per line of text, from an encoder (BERT, RoBERTa). Example: echo 'To be' | stoa embed "
      "models/all-MiniLM-L6-v2");
  arguments->model.add_to(*command);
  command->add_option("FILE", arguments->file, "Text, one piece per line (default: standard input)");
  arguments->embedding.add_to(*command);
  command->add_flag("--raw", arguments->raw, "Do not scale vectors to length 1");
  command->add_flag("--json", arguments->json, "{\"embedding\":[…]} per line");
  command->callback([arguments, &context] { embed(*arguments, context); });
}

}  // namespace stoa::cli
