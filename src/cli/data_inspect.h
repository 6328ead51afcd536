// What `stoa data inspect` says about token files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/indexed_dataset.h"
#include "token/tokenizer.h"

namespace stoa::cli {

struct InspectOptions {
  std::int64_t documents = 3;  // shown from the beginning
  std::int64_t tokens = 48;    // of each
  bool verify = false;         // read everything: checksums and the range of ids
};

// Counts, document lengths, type, tokenizer, first documents (decoded when there is a tokenizer).
nlohmann::ordered_json inspect_data(const data::IndexedDataset& data,
                                    const std::optional<token::Tokenizer>& tokenizer,
                                    const InspectOptions& options);
std::string describe_inspection(const nlohmann::ordered_json& report);  // the same for people

}  // namespace stoa::cli
