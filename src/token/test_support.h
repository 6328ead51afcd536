// Shared by the tests of this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/test_paths.h"
#include "token/tokenizer.h"

namespace stoa::token::test {

inline fs::path fixture(const std::string& name) {
  return stoa::test::source_dir() / "tests/fixtures/token" / name;
}

// The folder of large shared files; empty where there is none.
inline fs::path shared_data() {
  const char* named = std::getenv("STOA_SHARED");
  const fs::path path =
      (named != nullptr ? fs::path(named) : stoa::test::source_dir() / "../shared") / "data";
  return fs::exists(path) ? path : fs::path();
}

inline nlohmann::json read_json(const fs::path& path) { return nlohmann::json::parse(read_text(path)); }

// splitmix64: random bytes for tests, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  std::string bytes(std::size_t n) {
    std::string out(n, '\0');
    for (char& c : out) c = static_cast<char>(next() & 0xFF);
    return out;
  }

 private:
  std::uint64_t state_;
};

// A text with one to four changes: other bytes, cuts, copies of itself and of the other texts.
inline std::string mutated(const std::vector<std::string>& texts, Random& random) {
  std::string out = texts[random.below(texts.size())];
  for (std::size_t n = 1 + random.below(4); n > 0 && out.size() > 1; --n) {
    // Half of the changes near the front, where the structure is.
    const std::size_t at =
        random.below(random.below(2) == 0 ? out.size() : std::min<std::size_t>(out.size(), 2000));
    const std::string& other = texts[random.below(texts.size())];
    switch (random.below(5)) {
      case 0:
        out[at] = static_cast<char>(random.next() & 0xFF);
        break;
      case 1:
        out.erase(at, 1 + random.below(40));
        break;
      case 2:
        out.insert(at, out.substr(random.below(out.size() + 1), random.below(40)));
        break;
      case 3:
        out.resize(at);
        break;
      default:
        out.insert(at, other.substr(random.below(other.size() + 1), random.below(80)));
    }
  }
  return out;
}

}  // namespace stoa::token::test
