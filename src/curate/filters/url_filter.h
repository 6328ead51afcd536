// Documents dropped by the address they came from, with lists that the user gives: datatrove's rules in its
// order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/schema.h"
#include "curate/stage.h"

namespace stoa::curate {

struct UrlFilter {
  // Files with one entry per line; lines that begin with # are comments. Empty: no such list.
  std::string domains, urls, banned_words, soft_banned_words, banned_subwords;
  std::int64_t soft_word_threshold = 2;
};
void declare(config::Section<UrlFilter>& s);
// IoError where a list cannot be read, ConfigError where there is none.
std::unique_ptr<Stage> make_stage(const UrlFilter& options);

}  // namespace stoa::curate
