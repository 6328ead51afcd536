// For tests: token files made of literal ids.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/test_paths.h"
#include "data/indexed_writer.h"

namespace stoa::data {

inline void write_documents(const fs::path& prefix, const std::vector<std::vector<std::int32_t>>& documents,
                            TokenDtype dtype = TokenDtype::kUint16) {
  IndexedWriter writer(prefix, dtype);
  for (const auto& ids : documents) writer.add_document(ids);
  writer.commit({});
}

// Documents whose sequences are sentences.
inline void write_sentences(const fs::path& prefix,
                            const std::vector<std::vector<std::vector<std::int32_t>>>& documents) {
  IndexedWriter writer(prefix, TokenDtype::kUint16);
  for (const auto& document : documents) {
    std::vector<std::int32_t> ids, lengths;
    for (const auto& sentence : document) {
      ids.insert(ids.end(), sentence.begin(), sentence.end());
      lengths.push_back(static_cast<std::int32_t>(sentence.size()));
    }
    writer.add_document(ids, lengths);
  }
  writer.commit({});
}

inline nlohmann::json read_fixture(const char* name) {
  return nlohmann::json::parse(read_text(test::source_dir() / "tests/fixtures/data" / name));
}

}  // namespace stoa::data
