// `stoa config show`, `check` and the references.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/print.h"
#include "cli/schema.h"
#include "foreign/megatron/table.h"

namespace stoa::cli {
namespace {

nlohmann::ordered_json to_json(const config::Node& node) {
  using Kind = config::Node::Kind;
  switch (node.kind) {
    case Kind::kNull:
      return nullptr;
    case Kind::kScalar:
      if (!node.quoted) {
        if (node.scalar == "true" || node.scalar == "false") return node.scalar == "true";
        if (const auto integer = config::parse_integer(node.scalar)) return *integer;
        if (const auto real = config::parse_real(node.scalar)) return *real;
      }
      return node.scalar;
    case Kind::kSequence: {
      auto list = nlohmann::ordered_json::array();
      for (const auto& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case Kind::kMap: {
      auto object = nlohmann::ordered_json::object();
      for (const auto& [key, value] : node.entries) object[key] = to_json(value);
      return object;
    }
  }
  return nullptr;
}

void show(const ConfigArguments& arguments, bool json, Context& context) {
  const RunConfig run = load_config(arguments, Purpose::kShow, context.console);
  if (!json) return print(show_run_config(run));
  const auto tree = to_json(run_schema().schema().print(&run));
  print_json(tree);
}

void check(const ConfigArguments& arguments, bool json) {
  const FoundConfig found = read_config(arguments, Purpose::kShow);
  if (json) {
    const nlohmann::ordered_json answer{{"valid", true}, {"ignored", found.ignored}, {"notes", found.notes}};
    return print_json(answer);
  }
  for (const auto& line : found.ignored) print("ignored: " + line + "\n");
  for (const auto& line : found.notes) print("note: " + line + "\n");
  print(fmt::format("{}: valid\n", arguments.source()));
}

}  // namespace

void add_config_command(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("config", "show, check and explain configurations");
  command->require_subcommand(1);

  struct Options {
    ConfigArguments arguments;
    bool json = false;
  };
  const auto with_options = [command](const char* name, const char* text, const char* example) {
    CLI::App* sub = command->add_subcommand(name, text);
    auto options = std::make_shared<Options>();
    options->arguments.add_to(*sub);
    options->arguments.add_output(*sub);
    sub->add_flag("--json", options->json, "answer in JSON");
    sub->footer(std::string("Example: ") + example);
    return std::make_pair(sub, options);
  };
  const auto [show_command, show_options] = with_options("show", "print the resolved configuration",
                                                         "stoa config show gpt2-124m model.num_layers=6");
  show_command->callback(
      [options = show_options, &context] { show(options->arguments, options->json, context); });

  const auto [check_command, check_options] = with_options(
      "check", "validate only; list ignored keys with their reasons", "stoa config check run.yaml");
  check_command->callback([options = check_options] { check(options->arguments, options->json); });

  CLI::App* reference =
      command->add_subcommand("reference", "print the reference of all fields, as Markdown");
  reference->footer("Example: stoa config reference > docs/configuration.md");
  reference->callback([] { print(reference_page()); });
  CLI::App* megatron = command->add_subcommand(
      "megatron-arguments", "print what becomes of each argument of Megatron-LM, as Markdown");
  megatron->footer("Example: stoa config megatron-arguments > docs/megatron-arguments.md");
  megatron->callback([] { print(foreign::megatron_table_page()); });
}

}  // namespace stoa::cli
