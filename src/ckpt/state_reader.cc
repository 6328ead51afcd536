#include "ckpt/state_reader.h"

#include "base/error.h"

namespace stoa::ckpt {
namespace {

const fs::path& state_of(const FoundCheckpoint& found) {
  require<DataError>(
      found.state && found.manifest,
      "'{}' is a bare model: it has no training state to resume from (start from its weights instead)",
      found.given.string());
  return *found.state;
}

}  // namespace

StateReader::StateReader(const FoundCheckpoint& found) : tensors_(state_of(found), kStateStem) {
  training_ = found.manifest->training;
}

void StateReader::read(std::string_view prefix, const ShardSpec& shard, const TensorView& out) const {
  read_shard(
      shard,
      [&](const std::string& name) -> const StoredTensor& { return tensors_.at(std::string(prefix) + name); },
      out);
}

}  // namespace stoa::ckpt
