#include "cli/embedding_options.h"

#include "cli/number_checks.h"

namespace stoa::cli {

void EmbeddingArguments::add_to(CLI::App& command) {
  command
      .add_option("--pooling", pooling,
                  "mean of the tokens' states, or the first (cls) or last token's state; auto: as in the "
                  "model's 1_Pooling, else mean, of a decoder last")
      ->check(CLI::IsMember({"auto", "mean", "cls", "last"}))
      ->capture_default_str();
  command
      .add_option("--max-length", max_length,
                  "Longer texts are truncated to this many tokens (default: the model's limit)")
      ->check(between(1, 1 << 24));
}

infer::EmbeddingOptions EmbeddingArguments::options() const {
  infer::EmbeddingOptions out{{}, max_length};
  for (const auto& [name, value] : model::enum_names(infer::Pooling::kMean))
    if (pooling == name) out.pooling = value;
  return out;
}

}  // namespace stoa::cli
