// Recomputes what the manifest of a checkpoint says of its files.
#include <algorithm>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "ckpt/crc32.h"
#include "ckpt/find_checkpoint.h"

namespace stoa::ckpt {
namespace {

std::string problem_of(const fs::path& path, const FileRecord& record, bool checksums, VerifyReport& report) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "missing";
  const auto size = fs::file_size(path, error);
  if (error) return error.message();
  if (size != record.bytes) return fmt::format("is {} bytes, {} were written", size, record.bytes);
  if (!checksums) return "";
  report.bytes += size;
  try {
    FileRecord found = record;
    found.checksum = record.crc ? crc32_file(path) : checksum_file(path);
    if (found.checksum != record.checksum)
      return fmt::format("checksum {} instead of {}", found.checksum_text(), record.checksum_text());
  } catch (const IoError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

std::string VerifyReport::text() const {
  std::string out;
  for (const auto& problem : problems)
    out += fmt::format("{}{}: {}", out.empty() ? "" : "\n", problem.path, problem.problem);
  return out;
}

VerifyReport verify_checkpoint(const fs::path& checkpoint, Verify what) {
  VerifyReport report;
  Manifest manifest;
  try {
    manifest = read_manifest(checkpoint);
  } catch (const Error& e) {
    report.problems.push_back({"state/manifest.json", e.what()});
    return report;
  }
  std::set<std::string> listed{"state/manifest.json"};
  for (const auto& record : manifest.files) {
    listed.insert(record.path);
    ++report.files;
    const bool checksums =
        what == Verify::kAll || (what == Verify::kModel && !record.path.starts_with("state/"));
    if (auto problem = problem_of(checkpoint / record.path, record, checksums, report); !problem.empty())
      report.problems.push_back({record.path, std::move(problem)});
  }
  for (const char* part : {"model", "adapter", "state"}) {
    std::error_code error;
    for (fs::recursive_directory_iterator it(checkpoint / part, error), end; !error && it != end;
         it.increment(error)) {
      const std::string name = it->path().lexically_relative(checkpoint).generic_string();
      if (!it->is_directory(error) && !listed.contains(name)) report.unlisted.push_back(name);
    }
  }
  std::sort(report.unlisted.begin(), report.unlisted.end());
  return report;
}

}  // namespace stoa::ckpt
