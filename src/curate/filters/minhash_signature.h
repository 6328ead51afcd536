// Writes the MinHash signature of documents into them, for programs that find near-duplicates elsewhere.
#pragma once

#include <memory>
#include <string>

#include "config/schema.h"
#include "curate/dedup/minhash.h"
#include "curate/stage.h"

namespace stoa::curate {

struct MinHashSignature {
  std::string member = "minhash";
  MinHashOptions hash;
};
void declare(config::Section<MinHashSignature>& s);
std::unique_ptr<Stage> make_stage(const MinHashSignature& options);

}  // namespace stoa::curate
