#include "cli/constraint_arguments.h"

#include <algorithm>

#include "base/file.h"

namespace stoa::cli {

using Kind = constraint::Source::Kind;

void ConstraintArguments::add_to(CLI::App& command) {
  const std::vector<CLI::Option*> options{
      command.add_flag("--json-object", json_, "The text is a JSON object"),
      command.add_option("--json-schema", schema_, "File: the text is JSON that fits this JSON schema"),
      command.add_option("--regex", regex_, "The whole text matches this regular expression"),
      command.add_option("--grammar", grammar_, "File: the text follows this GBNF grammar"),
      command.add_option("--choice", choices_, "The text is one of these, separated by commas")
          ->delimiter(',')};
  for (CLI::Option* option : options)
    for (CLI::Option* other : options)
      if (option != other) option->excludes(other);
  options_.assign(options.begin(), options.end());
}

std::string ConstraintArguments::given() const {
  const auto found =
      std::find_if(options_.begin(), options_.end(), [](const CLI::Option* o) { return o->count() > 0; });
  return found == options_.end() ? "" : (*found)->get_name();
}

constraint::Source ConstraintArguments::source() const {
  const std::string option = given();
  if (option == "--json-schema") return {Kind::kSchema, read_text(schema_)};
  if (option == "--grammar") return {Kind::kGrammar, read_text(grammar_)};
  if (option == "--regex") return {Kind::kRegex, regex_};
  if (option == "--choice") return {Kind::kChoice, {}, choices_};
  return {Kind::kJsonObject};
}

void ConstraintArguments::refuse(const constraint::ConstraintError& error) const {
  const std::string option = given();
  const std::string file = option == "--json-schema" ? schema_ : option == "--grammar" ? grammar_ : "";
  fail<ConfigError>("{}{}{}: {}", option, file.empty() ? "" : " ", file, error.what());
}

std::shared_ptr<constraint::Constraint> ConstraintArguments::compile(infer::OpenModel& model) const {
  if (given().empty()) return nullptr;
  try {
    return constraint::ConstraintStore(model.tokenizer(), model.model().vocabulary).get(source());
  } catch (const constraint::ConstraintError& error) {
    refuse(error);
  }
}

}  // namespace stoa::cli
