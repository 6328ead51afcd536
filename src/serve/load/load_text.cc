#include "serve/load/load_text.h"

#include <array>
#include <string_view>

#include "base/philox.h"

namespace stoa::serve {
namespace {

constexpr std::array<std::string_view, 64> kWords{
    "time",  "people", "water",  "house",  "night", "world",  "light",  "paper", "river", "music", "story",
    "black", "white",  "green",  "small",  "large", "young",  "early",  "first", "last",  "north", "south",
    "above", "under",  "after",  "before", "never", "always", "today",  "often", "again", "still", "make",
    "take",  "give",   "find",   "think",  "leave", "carry",  "begin",  "write", "read",  "build", "break",
    "stone", "table",  "street", "garden", "horse", "summer", "winter", "money", "voice", "chair", "glass",
    "heart", "letter", "window", "father", "child", "friend", "dinner", "place", "reason"};

}  // namespace

std::string load_text(std::uint64_t seed, std::int64_t number, std::int64_t words) {
  const PhiloxKey key = philox_key(seed, RandomPurpose::kSampling, "words " + std::to_string(number));
  std::string out = std::to_string(number);
  for (std::int64_t i = 0; i < words; ++i) {
    out += ' ';
    out += kWords[philox_word(key, static_cast<std::uint64_t>(i)) % kWords.size()];
  }
  return out;
}

}  // namespace stoa::serve
