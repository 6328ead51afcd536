#include "curate/run/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/checksum.h"
#include "base/error.h"
#include "curate/run/measures.h"
#include "curate/run/tags.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;

ShardRecord record_from_json(const Json& json) {
  ShardRecord record;
  record.next = {json.at("next").at("input").get<std::int64_t>(),
                 json.at("next").at("number").get<std::int64_t>()};
  record.flow = flow_from_json(json.at("flow"));
  for (const Json& file : json.at("files"))
    record.files.push_back({file.at("name").get<std::string>(), file.at("documents").get<std::int64_t>(),
                            file.at("bytes").get<std::uint64_t>(),
                            std::stoull(file.at("checksum").get<std::string>(), nullptr, 16)});
  return record;
}

// The first line in which two texts differ.
std::string first_difference(const std::string& before, const std::string& now) {
  std::istringstream a(before), b(now);
  std::string x, y;
  for (;;) {
    const bool more_a = static_cast<bool>(std::getline(a, x)), more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a && !more_b) return "";
    if (!more_a) x = "(nothing)";
    if (!more_b) y = "(nothing)";
    if (x != y) return fmt::format("before: {}; now: {}", x, y);
  }
}

void check_subject(const fs::path& output, const Json& before, const Json& now) {
  for (const auto& [title, value] : now.items()) {
    const Json old = before.value(title, Json());
    if (old == value) continue;
    const auto text = [](const Json& j) { return j.is_string() ? j.get<std::string>() : j.dump(1); };
    fail<ConfigError>(
        "'{}' holds a run that differs in its {}: {}; choose another --output, or remove that one",
        output.string(), title, first_difference(text(old), text(value)));
  }
}

}  // namespace

void require_place_for_run(const fs::path& output) {
  std::error_code error;
  require<ConfigError>(
      !fs::exists(output, error) || (fs::is_directory(output, error) && fs::is_empty(output, error)) ||
          fs::exists(output / "journal", error),
      "'{}' exists and holds no run; choose an --output that is new or empty", output.string());
}

void require_same_subject(const fs::path& output, const fs::path& file, const Json& subject) {
  try {
    check_subject(output, Json::parse(read_text(file)), subject);
  } catch (const nlohmann::json::exception& e) {
    fail<DataError>("'{}' is damaged ({}); remove '{}' and run again", file.string(), e.what(),
                    output.string());
  }
}

Json to_json(const OutputFile& file) {
  return {{"name", file.name},
          {"documents", file.documents},
          {"bytes", file.bytes},
          {"checksum", checksum_text(file.checksum)}};
}

Journal::Journal(fs::path output, const Json& subject) : directory_(output / "journal") {
  std::error_code error;
  const bool begun = fs::exists(directory_ / "run.json", error);
  require_place_for_run(output);
  fs::create_directories(directory_, error);
  require<IoError>(!error, "cannot make the directory '{}': {}", directory_.string(), error.message());
  require<ConfigError>(lock_.take(directory_ / "lock"), "another run is working in '{}'", output.string());
  for (const char* folder : kFolders) remove_abandoned(output / folder);
  for (const char* folder : {kTagsFolder, kMeasuresFolder}) remove_abandoned(output / folder);
  remove_abandoned(directory_);
  remove_abandoned(output);
  if (!begun) {
    write_text(directory_ / "run.json", subject.dump(1) + "\n");
    return;
  }
  require_same_subject(output, directory_ / "run.json", subject);
  try {
    for (;;) {
      const fs::path path = directory_ / fmt::format("{:05}.json", shards_.size());
      if (!fs::exists(path)) break;
      shards_.push_back(record_from_json(Json::parse(read_text(path))));
      for (const OutputFile& file : shards_.back().files)
        require<IoError>(fs::exists(output / file.name) && fs::file_size(output / file.name) == file.bytes,
                         "'{}' is missing or was changed since the run wrote it; remove '{}' and run again",
                         (output / file.name).string(), output.string());
    }
  } catch (const nlohmann::json::exception& e) {
    fail<DataError>("'{}' is damaged ({}); remove '{}' and run again", directory_.string(), e.what(),
                    output.string());
  }
}

Journal::Lock::~Lock() {
  if (fd_ >= 0) ::close(fd_);
}

bool Journal::Lock::take(const fs::path& path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require<IoError>(fd_ >= 0, "cannot write '{}': {}", path.string(), std::strerror(errno));
  return ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

void Journal::add(ShardRecord record) {
  Json files = Json::array();
  for (const OutputFile& file : record.files) files.push_back(to_json(file));
  const Json json{{"next", {{"input", record.next.input}, {"number", record.next.number}}},
                  {"flow", to_json(record.flow)},
                  {"files", std::move(files)}};
  write_text(directory_ / fmt::format("{:05}.json", shards_.size()), json.dump(1) + "\n");
  shards_.push_back(std::move(record));
}

}  // namespace stoa::curate
