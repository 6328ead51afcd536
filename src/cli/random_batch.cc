#include "cli/random_batch.h"

#include "base/philox.h"
#include "data/whole_rows.h"

namespace stoa::cli {

data::Batch random_batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                         std::uint64_t part) {
  const auto key = philox_key(1 + part, RandomPurpose::kTest, "bench");
  const auto word = [&](std::int64_t i) {
    return static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i)) %
                                     static_cast<std::uint64_t>(vocabulary));
  };
  return data::whole_rows(rows, length,
                          [&](std::int64_t i) { return std::pair(word(i), word(i + rows * length)); });
}

}  // namespace stoa::cli
