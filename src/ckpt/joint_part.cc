#include "ckpt/joint_part.h"

#include <utility>

#include "base/error.h"
#include "ckpt/training_state.h"

namespace stoa::ckpt {

JointPart::JointPart(std::filesystem::path directory, std::vector<TensorEntry> all,
                     std::vector<HeldTensor> held, std::uint64_t max_shard_bytes) {
  std::error_code error;
  require<IoError>(
      std::filesystem::is_directory(directory / "state", error),
      "'{}' was made by rank 0, but this rank does not see it: the run directory must lie on a file "
      "system that all ranks share",
      directory.string());
  thread_ = std::jthread([this, directory = std::move(directory), all = std::move(all),
                          held = std::move(held), max_shard_bytes]() mutable {
    try {
      ShardedWriter writer(directory / "state", kStateStem, std::move(all), Placement::kJoint,
                           max_shard_bytes);
      for (HeldTensor& tensor : held) {
        const Shape shape =
            tensor.shard.flat ? Shape{tensor.shard.flat->end - tensor.shard.flat->begin} : tensor.shard.local;
        writer.write(tensor.shard, TensorView(tensor.bytes.data(), tensor.dtype, shape));
      }
      held.clear();
      writer.commit();
    } catch (...) {
      error_ = std::current_exception();
    }
    done_ = true;
  });
}

void JointPart::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace stoa::ckpt
