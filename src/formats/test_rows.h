// What the tests of readers of rows (Arrow, Parquet) share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/philox.h"

namespace stoa::test {

// Lines of JSON.
inline std::vector<nlohmann::ordered_json> lines_of(std::string_view text) {
  std::vector<nlohmann::ordered_json> out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out.push_back(nlohmann::ordered_json::parse(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  return out;
}

template <class RowReader>
std::string all_rows(std::string_view file, const std::string& name) {
  RowReader reader(file, name);
  std::string out;
  while (reader.next(out)) {
  }
  return out;
}

// The message of the DataError; "read": there is none.
template <class RowReader>
std::string refusal(std::string_view file, const std::string& name) {
  try {
    all_rows<RowReader>(file, name);
  } catch (const DataError& error) {
    return error.what();
  }
  return "read";
}

// Anything may be refused, with a DataError; nothing may crash or read beyond the bytes.
template <class RowReader>
void read_any_rows(const char* data, std::size_t size) {
  const std::vector<char> copy(data, data + size);  // a sanitizer sees the first byte read beyond it
  std::string rows;
  try {
    RowReader reader({copy.data(), copy.size()}, "fuzz");
    for (int i = 0; i < 200 && rows.size() < (1 << 20) && reader.next(rows); ++i) {
    }
  } catch (const DataError&) {
  }
}

// Where a file says what everything else in it is: half of the changes hit these bytes.
struct Directory {
  std::size_t bytes = 0;
  bool at_end = false;
};

// Reads `seeds`, changed in a few places, for a second. `tokens` stand in some of the places.
template <class RowReader>
void read_changed_rows(const std::vector<std::string>& seeds, const std::vector<std::string>& tokens,
                       Directory directory, std::string_view purpose) {
  const PhiloxKey key = philox_key(2026, RandomPurpose::kTest, purpose);
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(philox_word(key, draw++) % n); };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < 20 || std::chrono::steady_clock::now() < end; ++i) {
    std::string file = seeds[static_cast<std::size_t>(i) % seeds.size()];
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) {
      const bool anywhere = below(2) == 0;
      std::size_t at = below(anywhere ? file.size() : std::min(file.size(), directory.bytes));
      if (!anywhere && directory.at_end) at = file.size() - 1 - at;
      const std::string& token = tokens[below(tokens.size())];
      if (below(3) == 0)
        file.replace(at, token.size(), token);
      else
        file[at] = static_cast<char>(below(256));
    }
    read_any_rows<RowReader>(file.data(), file.size());
  }
}

}  // namespace stoa::test
