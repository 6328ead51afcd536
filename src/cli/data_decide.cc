// `stoa data decide`: limits applied to documents that `stoa data tag` has measured.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/data_commands.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "curate/run/decide.h"

namespace stoa::cli {
namespace {

struct DecideArguments {
  std::string tagged, output;
  std::vector<std::string> limits;
  std::string what_if;
  bool json = false;
};

void run_decide(const DecideArguments& a, Context& context) {
  const curate::Decision decision =
      curate::decide({a.tagged, a.output, a.limits, a.what_if}, context.console, context.interrupt.token());
  if (a.json)
    print_json_line(curate::to_json(decision));
  else
    print(curate::decision_table(decision));
}

}  // namespace

void add_data_decide(CLI::App& data, Context& context) {
  auto a = std::make_shared<DecideArguments>();
  CLI::App* c = data.add_subcommand(
      "decide", "What the limits of a pipeline, or others, keep of documents that `data tag` has measured");
  c->footer("Example: stoa data decide tagged --limit gopher_quality/gopher_short_doc=20 --output clean");
  c->add_option("TAGGED", a->tagged, "directory that `data tag` wrote")->required();
  c->add_option(
      "--limit", a->limits,
      "RULE=VALUE, as the report names rules; RULE<=VALUE or RULE>=VALUE where a rule has two limits; "
      "VALUE `off` switches it off");
  c->add_option("--what-if", a->what_if, "a rule: what other limits of it would keep");
  c->add_option("--output,-o", a->output,
                "directory for kept/, dropped/, manifest.json; without it, only the report");
  c->add_flag("--json", a->json, "print the report as JSON");
  c->callback([a, &context] { run_decide(*a, context); });
}

}  // namespace stoa::cli
