#include "ckpt/checkpoint_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>

#include "base/checksum.h"
#include "base/console.h"
#include "base/error.h"
#include "base/timing.h"
#include "ckpt/adapter_directory.h"
#include "ckpt/find_checkpoint.h"

namespace stoa::ckpt {
namespace {

std::uint64_t bytes_of(const std::vector<TensorEntry>& tensors) {
  std::uint64_t total = 0;
  for (const auto& tensor : tensors) total += tensor.bytes();
  return total;
}

// Detects a full disk before the first byte is written, if the file system reports its free space.
void require_space(const fs::path& directory, std::uint64_t needed) {
  std::error_code error;
  const auto space = fs::space(directory, error);
  if (error || space.available == static_cast<std::uintmax_t>(-1)) return;
  require<IoError>(space.available >= needed, "{} are needed, {} are free in '{}'",
                   format_bytes(static_cast<double>(needed)),
                   format_bytes(static_cast<double>(space.available)), directory.string());
}

// Adds the records of files whose checksum is known from writing them.
void write_tensors(const fs::path& directory, const std::string& folder, std::string_view stem,
                   std::vector<TensorEntry> tensors, std::uint64_t shard_bytes,
                   const std::function<void(ShardedWriter&)>& body, std::vector<FileRecord>& records) {
  ShardedWriter writer(directory / folder, stem, std::move(tensors), WriteMode::kInPlace, shard_bytes);
  body(writer);
  writer.commit();
  for (const auto& [name, sum] : writer.checksums())
    records.push_back({folder + "/" + name, fs::file_size(directory / folder / name), sum});
}

// The records of all files of `directory`; files in `records` are not read again.
std::vector<FileRecord> records_of(const fs::path& directory, std::vector<FileRecord> records) {
  const auto known = [&, count = records.size()](const std::string& path) {
    const auto end = records.begin() + static_cast<std::ptrdiff_t>(count);
    return std::find_if(records.begin(), end, [&](const FileRecord& r) { return r.path == path; }) != end;
  };
  for (const auto& item : fs::recursive_directory_iterator(directory)) {
    if (!item.is_regular_file()) continue;
    std::string path = item.path().lexically_relative(directory).generic_string();
    if (!known(path)) records.push_back({std::move(path), item.file_size(), checksum_file(item.path())});
  }
  std::sort(records.begin(), records.end(),
            [](const FileRecord& a, const FileRecord& b) { return a.path < b.path; });
  return records;
}

constexpr std::string_view kReplaced = ".replaced";

// "step-0000100" of ".step-0000100.tmp-….replaced".
std::optional<std::string> replaced_name(const std::string& name) {
  if (!is_unfinished_name(name) || !name.ends_with(kReplaced)) return std::nullopt;
  return name.substr(1, name.find(".tmp-") - 1);
}

}  // namespace

std::error_code exchange_directories(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return {};
  return {errno, std::generic_category()};
}

CheckpointWriter::CheckpointWriter(fs::path checkpoints, WriterOptions options)
    : checkpoints_(std::move(checkpoints)), options_(std::move(options)) {
  std::error_code error;
  fs::create_directories(checkpoints_, error);
  require<IoError>(!error && fs::is_directory(checkpoints_),
                   "cannot create the directory '{}' for checkpoints: {}", checkpoints_.string(),
                   error ? error.message() : "a file of that name exists");
  try {
    lock();
    clean();
    for (const auto& listed : list_checkpoints(checkpoints_))
      if (listed.manifest) next_sequence_ = std::max(next_sequence_, listed.manifest->sequence + 1);
  } catch (...) {
    ::close(lock_fd_);
    throw;
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
  ::close(lock_fd_);  // frees the lock
}

void CheckpointWriter::lock() {
  const fs::path path = checkpoints_ / ".lock";
  lock_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  require<IoError>(lock_fd_ >= 0, "cannot write checkpoints in '{}': {}", checkpoints_.string(),
                   std::strerror(errno));
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) {
    locked_ = true;
    return;
  }
  require<IoError>(errno != EWOULDBLOCK,
                   "another process writes checkpoints in '{}': give this run its own directory",
                   checkpoints_.string());
  // A file system without locks: continue, but do not remove files that may be another writer's.
}

void CheckpointWriter::clean() {
  if (!locked_) return;
  std::vector<fs::path> leftovers;
  for (const auto& item : fs::directory_iterator(checkpoints_)) {
    const std::string name = item.path().filename().string();
    if (is_unfinished_name(name) || name.starts_with(".latest.tmp-")) leftovers.push_back(item.path());
  }
  for (const auto& path : leftovers) {
    if (const auto original = replaced_name(path.filename().string()))
      if (!fs::exists(checkpoints_ / *original)) {
        fs::rename(path, checkpoints_ / *original);
        sync_directory(checkpoints_);
        continue;
      }
    discard(path);
    removed_.push_back(path.filename().string());
  }
}

bool CheckpointWriter::busy() const { return busy_; }

void CheckpointWriter::save(TrainingState state, std::unique_ptr<Snapshot> snapshot) {
  start(std::move(state), std::move(snapshot), {});
}

fs::path CheckpointWriter::open_joint(std::int64_t step, std::uint64_t bytes) {
  wait();
  const fs::path directory = temporary_of(step);
  discard(directory);
  create(directory, bytes);
  return directory;
}

void CheckpointWriter::commit_joint(TrainingState state, fs::path directory, std::unique_ptr<Snapshot> model,
                                    std::vector<FileRecord> summed) {
  start(std::move(state), std::move(model), {std::move(directory), std::move(summed)});
}

void CheckpointWriter::start(TrainingState state, std::unique_ptr<Snapshot> snapshot, Joint joint) {
  wait();
  busy_ = true;
  thread_ = std::jthread(
      [this, state = std::move(state), snapshot = std::move(snapshot), joint = std::move(joint)]() mutable {
        try {
          write(std::move(state), *snapshot, joint);
        } catch (...) {
          error_ = std::current_exception();
        }
        snapshot.reset();
        busy_ = false;
      });
}

void CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

CheckpointWriter::Cost CheckpointWriter::last_cost() {
  if (thread_.joinable()) thread_.join();
  return cost_;
}

fs::path CheckpointWriter::temporary_of(std::int64_t step) const {
  return checkpoints_ / fmt::format(".{}.tmp-{}", checkpoint_name(step), ::getpid());
}

void CheckpointWriter::write(TrainingState state, Snapshot& snapshot, const Joint& joint) {
  const auto start = std::chrono::steady_clock::now();
  const std::string name = checkpoint_name(state.step);
  const bool alone = joint.directory.empty();
  const fs::path temporary = alone ? temporary_of(state.step) : joint.directory;
  try {
    if (alone) discard(temporary);
    write_files(temporary, std::move(state), snapshot, joint);
    publish(temporary, name);
  } catch (const std::exception& e) {
    discard(temporary);
    if (dynamic_cast<const InternalError*>(&e)) throw;
    fail<IoError>("cannot save checkpoint '{}': {}; earlier checkpoints are intact",
                  (checkpoints_ / name).string(), e.what());
  } catch (...) {
    discard(temporary);
    throw;
  }
  retire(name);
  stage("retired");
  cost_.seconds = seconds_since(start);
}

void CheckpointWriter::create(const fs::path& directory, std::uint64_t bytes) {
  require_space(checkpoints_, bytes);
  for (const fs::path& made : {directory, directory / "state"}) fs::create_directory(made);
  stage("created");
}

void CheckpointWriter::write_files(const fs::path& directory, TrainingState state, Snapshot& snapshot,
                                   const Joint& joint) {
  const bool alone = joint.directory.empty();
  auto model_tensors = snapshot.model_tensors();
  if (alone) create(directory, bytes_of(model_tensors) + bytes_of(snapshot.state_tensors()));
  const fs::path part = directory / snapshot.part();
  const bool whole = snapshot.part() == "model";
  fs::create_directory(part);
  std::vector<FileRecord> known = joint.summed;
  write_tensors(
      directory, std::string(snapshot.part()), snapshot.stem(), std::move(model_tensors),
      whole ? options_.max_shard_bytes : std::numeric_limits<std::uint64_t>::max(),
      [&](ShardedWriter& writer) { snapshot.write_model(writer); }, known);
  for (const auto& file : snapshot.model_files()) {
    fs::create_directories((part / file.name).parent_path());
    write_text(part / file.name, file.text);
  }
  stage("model");
  if (alone)
    write_tensors(
        directory, "state", kStateStem, snapshot.state_tensors(), options_.max_shard_bytes,
        [&](ShardedWriter& writer) { snapshot.write_state(writer); }, known);
  stage("state");
  Manifest manifest;
  manifest.sequence = next_sequence_++;
  manifest.training = std::move(state);
  manifest.files = records_of(directory, std::move(known));
  cost_.bytes = 0;
  for (const auto& file : manifest.files) cost_.bytes += file.bytes;
  write_text(manifest_path(directory), manifest_text(manifest));
  stage("manifest");
  for (const fs::path& written : {part, directory / "state", directory}) sync_directory(written);
  stage("synced");
}

void CheckpointWriter::replace(const fs::path& temporary, const std::string& name) {
  const fs::path target = checkpoints_ / name;
  const std::error_code error = options_.exchange(temporary, target);
  if (!error) {
    sync_directory(checkpoints_);
    return discard(temporary);
  }
  // NFS and others cannot.
  require<IoError>(error == std::errc::invalid_argument || error == std::errc::function_not_supported ||
                       error == std::errc::operation_not_supported,
                   "cannot replace the existing one: {}", error.message());
  const fs::path aside = temporary.string() + std::string(kReplaced);
  discard(aside);
  fs::rename(target, aside);
  stage("moved aside");
  std::error_code failed;
  fs::rename(temporary, target, failed);
  if (failed) fs::rename(aside, target);
  require<IoError>(!failed, "cannot replace the existing one: {}", failed.message());
  sync_directory(checkpoints_);
  discard(aside);
}

void CheckpointWriter::publish(const fs::path& temporary, const std::string& name) {
  const fs::path target = checkpoints_ / name;
  if (fs::exists(target)) {
    replace(temporary, name);  // the step was saved before an earlier resume
  } else {
    fs::rename(temporary, target);
    sync_directory(checkpoints_);
  }
  stage("renamed");
  const fs::path link = checkpoints_ / fmt::format(".latest.tmp-{}", ::getpid());
  discard(link);
  std::error_code error;
  fs::create_directory_symlink(name, link, error);
  if (!error) fs::rename(link, checkpoints_ / "latest", error);
  if (error) {  // a file system without links: the newest is found by its manifest
    discard(link);
    const bool unsupported =
        error == std::errc::operation_not_permitted || error == std::errc::operation_not_supported;
    require<IoError>(unsupported, "cannot write the link '{}': {}", (checkpoints_ / "latest").string(),
                     error.message());
  }
  sync_directory(checkpoints_);
  stage("linked");
}

void CheckpointWriter::retire(const std::string& newest) {
  const Retention& rule = options_.retention;
  if (rule.keep_last <= 0) return;
  auto listed = list_checkpoints(checkpoints_);
  // Damaged checkpoints are neither counted nor deleted: users may want to examine them.
  std::erase_if(listed, [](const ListedCheckpoint& c) { return !c.manifest; });
  std::set<std::string> keep{newest};
  for (std::size_t i = 0; i < listed.size() && i < static_cast<std::size_t>(rule.keep_last); ++i)
    keep.insert(listed[i].path.filename().string());
  std::vector<std::pair<double, std::string>> ranked;
  for (const auto& c : listed)
    if (const auto it = c.manifest->training.metrics.find(rule.metric);
        it != c.manifest->training.metrics.end())
      ranked.emplace_back(rule.lower_is_better ? it->second : -it->second, c.path.filename().string());
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < ranked.size() && i < static_cast<std::size_t>(std::max(0, rule.keep_best)); ++i)
    keep.insert(ranked[i].second);

  for (const auto& c : listed) {
    const std::string name = c.path.filename().string();
    if (keep.contains(name)) continue;
    // Rename it before deleting it: a partially deleted directory must not look like a checkpoint.
    const fs::path aside = checkpoints_ / fmt::format(".{}.tmp-retired-{}", name, ::getpid());
    std::error_code error;
    fs::rename(c.path, aside, error);
    if (!error) discard(aside);
  }
}

void CheckpointWriter::discard(const fs::path& directory) noexcept {
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

void CheckpointWriter::stage(std::string_view name) const {
  if (options_.on_stage) options_.on_stage(name);
}

}  // namespace stoa::ckpt
