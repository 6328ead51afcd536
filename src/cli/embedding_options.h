// How commands make vectors of texts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "infer/text_embedder.h"

namespace stoa::cli {

struct EmbeddingArguments {
  std::string pooling = "auto";
  std::int64_t max_length = 0;

  void add_to(CLI::App& command);
  infer::EmbeddingOptions options() const;
};

}  // namespace stoa::cli
