// Sources mixed, shuffled as a whole and written as token files, PREFIX-train, PREFIX-validation,
// PREFIX-test, with PREFIX.blend.json, which makes the same bytes again. A document belongs to one split,
// whatever its epochs.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/console.h"
#include "curate/blend/recipe.h"
#include "data/prepare.h"

namespace stoa::curate {

struct BlendOptions {
  fs::path recipe;
  fs::path output;                            // PREFIX
  std::size_t memory = std::size_t{2} << 30;  // bytes for the shuffle; beyond it sorts on disk
  int workers = 1;
};

struct BlendedSource {
  std::string name, checksum;              // of its index of token files
  std::int64_t documents = 0, tokens = 0;  // of the source
  std::int64_t train_tokens = 0;           // of its training split, once
  SourceShare share;
  std::int64_t taken_documents = 0, taken_tokens = 0;  // in training, epochs counted
};

struct BlendResult {
  std::vector<BlendedSource> sources;
  struct Split {
    std::string name;
    data::Provenance provenance;
  };
  std::vector<Split> splits;
};

// `encoder`: null where all sources are token files. ConfigError: no tokenizer for texts, sources of several
// tokenizers, a manifest whose sources have changed, an output that exists. Nothing is left behind when it
// throws.
BlendResult blend(const BlendOptions& options, const data::DocumentEncoder* encoder, Console& console,
                  const std::stop_token& stop = {});

std::string blend_table(const BlendResult& result);

}  // namespace stoa::curate
