#include "cli/checkpoint_quantize.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "ckpt/find_checkpoint.h"
#include "cli/calibration_tokens.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "eval/divergence.h"
#include "infer/engine/paged_decoder.h"
#include "model/gguf/mixtures.h"
#include "run/export_gguf.h"
#include "run/export_quantised.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeArguments {
  ModelArguments model;
  TextArguments form;
  std::string format, output, imatrix, text;
  std::int64_t imatrix_tokens = 8192, tokens = 512, window = 256;
  bool json = false;
};

std::vector<std::string> all_formats() {
  std::vector<std::string> out = model::gguf::mixture_names();
  const auto more = run::quantised_formats();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

bool is_directory_format(const std::string& format) {
  const auto names = run::quantised_formats();
  return std::find(names.begin(), names.end(), format) != names.end();
}

std::uint64_t bytes_of(const fs::path& path) {
  if (fs::is_regular_file(path)) return fs::file_size(path);
  std::uint64_t total = 0;
  for (const auto& item : fs::directory_iterator(path))
    if (item.is_regular_file()) total += item.file_size();
  return total;
}

// The original, opened, and the text on which the two are compared: errors in either are reported before
// anything is written.
class Comparison {
 public:
  explicit Comparison(const QuantizeArguments& a)
      : arguments_(a),
        original_(open(a.model.model)),
        ids_(calibration_tokens(original_, a.form.file(a.text), a.tokens + 1)) {
    original_.require_kind(model::ModelKind::kGpt);
  }

  eval::Divergence run(Context& context) {
    infer::OpenModel written = open(arguments_.output);
    const infer::EngineUse use{.context = arguments_.window, .sequences = 1, .pass_tokens = 1, .scored = 1};
    const auto first = infer::load_paged_decoder(original_, use),
               second = infer::load_paged_decoder(written, use);
    Progress progress(context.console, "compare", static_cast<double>(ids_.size() - 1), "tokens");
    const auto out =
        eval::measure_divergence(*first, *second, ids_, arguments_.window,
                                 [&](std::int64_t done) { progress.update(static_cast<double>(done)); });
    progress.finish();
    return out;
  }

 private:
  infer::OpenModel open(const std::string& path) const {
    ModelArguments arguments = arguments_.model;
    arguments.model = path;
    if (arguments.dtype.empty()) arguments.dtype = "fp32";
    return arguments.open();
  }

  const QuantizeArguments& arguments_;
  infer::OpenModel original_;
  const std::vector<std::int32_t> ids_;
};

void quantize(const QuantizeArguments& a, Context& context) {
  const ckpt::FoundCheckpoint found = ckpt::find_checkpoint(a.model.model, ckpt::Verify::kModel);
  require<ConfigError>(!found.adapter && a.model.adapter.empty(),
                       "'{}' with an adapter: merge it first (stoa checkpoint merge)", a.model.model);
  const bool directory = is_directory_format(a.format);
  require<UsageError>(a.imatrix.empty() || !directory, "--imatrix is for GGUF formats, {} is none", a.format);
  std::optional<Comparison> comparison;
  if (!a.text.empty()) comparison.emplace(a);
  context.interrupt.set({.grace = std::chrono::seconds(10),
                         .words = "exiting, nothing is written (again: exit immediately)",
                         .last_words = {}});
  std::unique_ptr<Progress> progress;
  const auto advance = [&](std::uint64_t done, std::uint64_t total) {
    if (!progress)
      progress = std::make_unique<Progress>(context.console, "quantize", static_cast<double>(total), "B");
    progress->update(static_cast<double>(done));
    require<Interrupted>(!context.interrupt.token().stop_requested(), "interrupted; nothing was written");
  };
  if (directory) {
    run::export_quantised(found, a.format, a.output, advance);
  } else {
    run::Importance importance;
    if (!a.imatrix.empty())
      importance =
          measured_on(a.model.model, a.model.machine, a.form.file(a.imatrix), a.imatrix_tokens).matrices;
    const auto out =
        run::export_gguf(found, a.format, a.output, a.imatrix.empty() ? nullptr : &importance, advance);
    for (const auto& note : out.notes) context.console.warn(note);
  }
  if (progress) progress->finish();
  context.interrupt.set({});  // it is there
  const std::uint64_t before = bytes_of(found.model), after = bytes_of(a.output);
  Json answer{{"path", a.output}, {"format", a.format}, {"bytes", after}, {"bytes_before", before}};
  std::string line =
      fmt::format("{}: {}, {} (before: {})\n", a.output, a.format, format_bytes(static_cast<double>(after)),
                  format_bytes(static_cast<double>(before)));
  if (comparison) {
    const eval::Divergence d = comparison->run(context);
    answer["tokens"] = d.tokens;
    answer["perplexity"] = d.other_perplexity();
    answer["perplexity_before"] = d.perplexity();
    answer["kl_divergence"] = d.kl();
    answer["top_agreement"] = d.top_agreement();
    line += fmt::format(
        "perplexity {:.4f} (before: {:.4f}) | KL divergence {:.5f} nats | same first choice {:.2f} % | {} "
        "tokens\n",
        d.other_perplexity(), d.perplexity(), d.kl(), 100 * d.top_agreement(), d.tokens);
  }
  if (a.json) return print_json(answer);
  print(line);
}

}  // namespace

void add_checkpoint_quantize(CLI::App& checkpoint, Context& context) {
  auto a = std::make_shared<QuantizeArguments>();
  CLI::App* c = checkpoint.add_subcommand("quantize",
                                          "Write a model with fewer bits: a GGUF file (q4_k_m, q8_0, …), or "
                                          "a Hugging Face directory (int8, fp8, nf4), and "
                                          "compare its answers with the original's");
  c->footer(
      "Example: stoa checkpoint quantize llama --format q4_k_m --imatrix calibration.txt --text held-out.txt "
      "--output "
      "llama-q4_k_m.gguf");
  a->model.add_to(*c);
  c->add_option("--format", a->format, fmt::format("One of {}", fmt::join(all_formats(), ", ")))
      ->required()
      ->check(CLI::IsMember(all_formats()));
  c->add_option("--output", a->output, "A new .gguf file, or a new or empty directory")->required();
  c->add_option(
      "--imatrix", a->imatrix,
      "Calibration text: errors of inputs that are large there count more (GGUF formats of K and IQ kind)");
  c->add_option("--imatrix-tokens", a->imatrix_tokens, "Tokens of it that are read")
      ->capture_default_str()
      ->check(between(2, 1 << 24));
  c->add_option("--text", a->text, "Text on which the result is compared with the original");
  c->add_option("--tokens", a->tokens, "Tokens of it that are predicted")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  c->add_option("--window", a->window, "Tokens that both models see at once")
      ->capture_default_str()
      ->check(between(1, 1 << 20));
  a->form.add_to(*c);
  c->add_flag("--json", a->json, "Answer as JSON");
  c->callback([a, &context] { quantize(*a, context); });
}

}  // namespace stoa::cli
