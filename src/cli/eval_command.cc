// `stoa eval`: its commands, and `stoa eval baselines --train FILE --text FILE`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/eval_task_options.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "eval/byte_ngram.h"
#include "eval/xz_size.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BaselineArguments {
  TextArguments form;
  std::string train, text;
  int order = 5;
  bool json = false;
};

// All documents of a file; a newline between two.
std::string whole_text(const std::string& file, const TextArguments& form) {
  std::string out;
  bool first = true;
  data::each_document(form.file(file), [&](std::string_view document, std::uint64_t) {
    if (!std::exchange(first, false)) out += '\n';
    out += document;
  });
  return out;
}

void baselines(const BaselineArguments& a) {
  eval::ByteNgram ngram(a.order);
  const std::string train = whole_text(a.train, a.form), text = whole_text(a.text, a.form);
  require<DataError>(!text.empty(), "'{}' holds no text", a.text);
  const auto bytes = static_cast<double>(text.size());
  ngram.train(train);
  const double ngram_bits = ngram.bits(text) / bytes;
  const double xz_bits =
      8.0 * static_cast<double>(eval::xz_size({train, text}) - eval::xz_size({train})) / bytes;
  if (a.json) {
    Json answer{{"train", a.train},
                {"text", a.text},
                {"train_bytes", train.size()},
                {"bytes", text.size()},
                {"order", a.order}};
    answer["ngram_bits_per_byte"] = ngram_bits;
    answer["xz_bits_per_byte"] = xz_bits;
    return print_json_line(answer);
  }
  print(fmt::format(
      "byte {}-gram (Witten-Bell)  {:.4f} bits per byte\n"
      "xz -9                      {:.4f} bits per byte (size of training and held-out text, minus "
      "training text)\n",
      a.order, ngram_bits, xz_bits));
}

void add_baselines(CLI::App& eval) {
  auto a = std::make_shared<BaselineArguments>();
  CLI::App* c = eval.add_subcommand(
      "baselines",
      "Bits per byte of a byte n-gram model and of xz -9 on a text, given a training text. "
      "Example: stoa eval baselines --train train.txt --text held-out.txt");
  c->add_option("--train", a->train, "The training text: .txt or .jsonl, also .gz or .zst")->required();
  c->add_option("--text", a->text, "The held-out text")->required();
  c->add_option("--order", a->order, "Order of the n-gram model")
      ->check(CLI::Range(1, eval::ByteNgram::kMaxOrder))
      ->capture_default_str();
  a->form.add_to(*c);
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a] { baselines(*a); });
}

}  // namespace

void add_eval_command(CLI::App& app, Context& context) {
  CLI::App* eval =
      app.add_subcommand("eval", "Measure a model on benchmark tasks, on text and on vectors of texts");
  eval->require_subcommand(1);
  add_eval_run(*eval, context);
  add_eval_tasks(*eval, context);
  add_eval_contamination(*eval, context);
  add_eval_compare(*eval, context);
  add_eval_report(*eval, context);
  add_eval_perplexity(*eval, context);
  add_eval_embeddings(*eval, context);
  add_baselines(*eval);
}

}  // namespace stoa::cli
