// `stoa data blend`: sources mixed and shuffled into token files.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/cores.h"
#include "cli/data_commands.h"
#include "cli/document_encoder.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "curate/blend/blend.h"

namespace stoa::cli {
namespace {

constexpr std::chrono::seconds kBlendStopGrace(10);

struct BlendArguments {
  std::string recipe, tokenizer, output;
  curate::BlendOptions options;
  double memory = 2;
  bool json = false;
};

void run_blend(BlendArguments& a, Context& context) {
  a.options.recipe = a.recipe;
  a.options.output = a.output;
  a.options.memory = static_cast<std::size_t>(a.memory * 1e9);
  context.interrupt.set({.grace = kBlendStopGrace,
                         .words = "exiting, nothing is written (again: exit immediately)",
                         .last_words = [] { return std::string("nothing was written"); }});
  std::optional<TokenizerEncoder> encoder;
  if (!a.tokenizer.empty()) encoder.emplace(token::Tokenizer::load(a.tokenizer), token::EncodeOptions());
  const curate::BlendResult result =
      curate::blend(a.options, encoder ? &*encoder : nullptr, context.console, context.interrupt.token());
  if (a.json)
    print_json_line(nlohmann::ordered_json::parse(read_text(a.output + ".blend.json")));
  else
    print(curate::blend_table(result));
}

}  // namespace

void add_data_blend(CLI::App& data, Context& context) {
  auto a = std::make_shared<BlendArguments>();
  a->options.workers = available_cores();
  CLI::App* c = data.add_subcommand("blend",
                                    "Mix sources by weights, shuffle all documents, write token files per "
                                    "split and how to make them again");
  c->footer("Example: stoa data blend recipe.yaml --tokenizer tok --output data/mix");
  c->add_option("RECIPE", a->recipe,
                "YAML file, or PREFIX.blend.json of a blend, which gives its bytes again")
      ->required();
  c->add_option("--output,-o", a->output, "PREFIX: writes PREFIX-train.bin and so on, and PREFIX.blend.json")
      ->required();
  c->add_option("--tokenizer", a->tokenizer, "for sources that are texts");
  c->add_option("--memory", a->memory, "GB that the shuffle may use; it sorts on disk what does not fit")
      ->check(between(0.001, 1e6))
      ->capture_default_str();
  c->add_option("--workers", a->options.workers, "threads that encode; the result does not depend on them")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  c->add_flag("--json", a->json, "print the manifest");
  c->callback([a, &context] { run_blend(*a, context); });
}

}  // namespace stoa::cli
