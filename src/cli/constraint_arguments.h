// What a text must be, from the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "constraint/store.h"
#include "infer/open_model.h"

namespace stoa::cli {

// Options that generate, chat and bench masks share; one of them at most.
class ConstraintArguments {
 public:
  void add_to(CLI::App& command);
  // The option that was given; "": none.
  std::string given() const;
  // What the option that was given says.
  constraint::Source source() const;
  // ConfigError: what is wrong with the constraint, after the option and its file.
  [[noreturn]] void refuse(const constraint::ConstraintError& error) const;
  // Null: none was given. Errors as above.
  std::shared_ptr<constraint::Constraint> compile(infer::OpenModel& model) const;

 private:
  bool json_ = false;
  std::string schema_, regex_, grammar_;
  std::vector<std::string> choices_;
  std::vector<const CLI::Option*> options_;
};

}  // namespace stoa::cli
