// `PREFIX.stoa.json`: what Megatron's format has no room for. Megatron ignores the file; Stoa does without it
// (then the tokenizer of the data is unknown).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::data {

struct Provenance {
  std::string tokenizer_fingerprint;  // "" = unknown
  std::int64_t vocabulary = 0;        // 0 = unknown
  std::int64_t eod_id = -1;           // -1 = none or unknown
  bool eod_appended = false;
  std::string json_key;  // "" unless the sources are JSON lines
  struct Source {
    std::string name;  // file name without its folder
    std::uint64_t bytes = 0;
  };
  std::vector<Source> sources;
  // Filled by the writer, checked by the reader.
  std::int64_t documents = 0, sequences = 0, tokens = 0;
  std::string bin_checksum, idx_checksum;  // XXH3, 16 digits
};

fs::path provenance_path(const fs::path& prefix);
std::string to_json(const Provenance& provenance);
// Nothing when the file does not exist; DataError when it is not what Stoa writes.
std::optional<Provenance> load_provenance(const fs::path& prefix);

}  // namespace stoa::data
