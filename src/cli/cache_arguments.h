// In what type a command's engine keeps keys and values.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "infer/open_model.h"
#include "tensor/dtype.h"

namespace stoa::cli {

class CacheArguments {
 public:
  void add_to(CLI::App& command);
  // None: chosen by the model. ConfigError: no such type.
  std::optional<DType> type() const;
  // ConfigError: the option is given, and the model does not continue texts: it keeps no keys and values of
  // texts under way.
  void require_use(const infer::OpenModel& model) const;

 private:
  std::string name_ = "auto";
};

}  // namespace stoa::cli
