#include "foreign/checkpoint/read_back.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "model/same_function.h"

namespace stoa::foreign {

void require_same_model(std::string_view whose, const model::ModelSpec& spec,
                        const std::function<model::ModelConfig()>& read) {
  std::string lost;
  try {
    const model::ModelConfig back = read();
    model::ModelConfig expected = spec.config;
    expected.vocab_size = spec.vocabulary;
    for (const auto& d : model::function_differences(back, expected, model::Purpose::kResume))
      lost += fmt::format("\n  model.{}: {} in {}, {} here", d.path, d.from, whose, d.to);
  } catch (const DataError& error) {
    lost = fmt::format("\n  {}", error.what());
  }
  require<ConfigError>(lost.empty(), "{} has no such model; it would lose:{}", whose, lost);
}

}  // namespace stoa::foreign
