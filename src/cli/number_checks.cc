#include "cli/number_checks.h"

#include <fmt/format.h>

#include "config/value.h"

namespace stoa::cli {
namespace {

constexpr const char* kBounds = "bounds";  // name of the validator, by which an option's own is found

bool is_whole(const std::string& type) { return type.starts_with("INT") || type.starts_with("UINT"); }
bool is_number(const std::string& type) { return is_whole(type) || type.starts_with("FLOAT"); }

bool has_bounds(CLI::Option& option) {
  try {
    return option.get_validator(kBounds) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

// A list of words that belongs to no option, such as changes of the configuration.
bool has_positional_list(CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional() && option->get_items_expected_max() > 1) return true;
  return false;
}

void complete(CLI::Option& option, CLI::App& command) {
  if (!option.get_positional() && option.get_items_expected_max() > 1 && has_positional_list(command))
    option.allow_extra_args(false);
  const std::string type = option.get_type_name();
  if (option.get_items_expected_max() == 0 || !is_number(type)) return;
  if (!has_bounds(option)) option.check(between(0, 1e9));
  if (!is_whole(type)) return;
  option.check(CLI::Validator(
      [](std::string& text) {
        return config::parse_integer(text) ? std::string()
                                           : fmt::format("expected a whole number, got '{}'", text);
      },
      ""));
}

}  // namespace

CLI::Validator between(double low, double high) {
  return CLI::Validator(
             [low, high](std::string& text) {
               const auto value = config::parse_real(text);
               if (value && *value >= low && *value <= high) return std::string();
               return fmt::format("expected a number from {} to {}, got '{}'", low, high, text);
             },
             "")
      .name(kBounds);
}

void counts_only_with(CLI::App& command, std::initializer_list<const char*> options, const char* other) {
  for (const char* option : options) command.get_option(option)->needs(command.get_option(other));
}

void counts_only_without(CLI::App& command, std::initializer_list<const char*> options, const char* other) {
  for (const char* option : options) command.get_option(option)->excludes(command.get_option(other));
}

void complete_options(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) complete(*option, app);
  for (CLI::App* command : app.get_subcommands(nullptr)) complete_options(*command);
}

}  // namespace stoa::cli
