#include "ckpt/joint_part.h"

#include <sstream>
#include <utility>

#include "base/error.h"
#include "ckpt/training_state.h"

namespace stoa::ckpt {

std::string sums_text(const std::vector<ShardedWriter::PartSum>& sums) {
  std::string text;
  for (const auto& sum : sums) text += fmt::format("{} {} {}\n", sum.file, sum.bytes, sum.crc);
  return text;
}

std::vector<FileRecord> join_sums(const std::vector<std::string>& parts) {
  std::vector<FileRecord> records;
  for (const std::string& part : parts) {
    std::istringstream lines(part);
    std::string file;
    std::uint64_t bytes = 0;
    std::uint32_t crc = 0;
    std::size_t i = 0;
    for (; lines >> file >> bytes >> crc; ++i) {
      const std::string path = "state/" + file;
      if (&part == &parts.front()) records.push_back({path, bytes, 0, true});
      require<InternalError>(i < records.size() && records[i].path == path && records[i].bytes == bytes,
                             "a part of a checkpoint counts {} bytes of '{}', others do not", bytes, path);
      records[i].checksum ^= crc;
    }
    require<InternalError>(i == records.size(), "a part of a checkpoint counts {} files of {}", i,
                           records.size());
  }
  return records;
}

JointPart::JointPart(std::filesystem::path directory, std::vector<TensorEntry> all,
                     std::vector<HeldTensor> held, bool first, std::uint64_t max_shard_bytes) {
  std::error_code error;
  require<IoError>(std::filesystem::is_directory(directory / "state", error),
                   "'{}' was made by rank 0, but this rank does not see it: the run directory must be on a "
                   "file system that all ranks share",
                   directory.string());
  thread_ = std::jthread([this, directory = std::move(directory), all = std::move(all),
                          held = std::move(held), first, max_shard_bytes]() mutable {
    try {
      ShardedWriter writer(directory / "state", kStateStem, std::move(all), WriteMode::kJoint,
                           max_shard_bytes);
      for (HeldTensor& tensor : held) {
        const Shape shape =
            tensor.shard.flat ? Shape{tensor.shard.flat->end - tensor.shard.flat->begin} : tensor.shard.local;
        writer.write(tensor.shard, TensorView(tensor.bytes.data(), tensor.dtype, shape));
      }
      held.clear();
      writer.commit();
      sums_ = writer.part_sums(first);
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
