// What a way of finding copies compares: documents that share a key are copies of one another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "config/schema.h"
#include "curate/dedup/clusters.h"

namespace stoa::curate {

class Fingerprint {  // of one worker
 public:
  virtual ~Fingerprint() = default;
  // Appends the keys of a text. Keys are 64 bits of a hash: among N documents some N^2 / 2^65 pairs per key
  // agree by chance.
  virtual void keys(std::string_view text, std::vector<std::uint64_t>& keys) = 0;
};

struct Deduplication {
  std::string name;
  Survivor keep = Survivor::kFirst;
  std::string score;  // for Survivor::kBest: the member of documents that says how good they are
  std::function<std::unique_ptr<Fingerprint>()> make;
};

struct DeduplicationKind {
  std::string_view name, help;
  config::Schema schema;
  config::Node defaults;
  std::function<Deduplication(const config::Node& keys, config::Node& resolved)> make;  // as StageKind's
};
std::span<const DeduplicationKind> deduplication_kinds();

}  // namespace stoa::curate
