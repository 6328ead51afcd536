#include "curate/dedup/record_sorter.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "curate/merge_sorted.h"
#include "data/byte_source.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kLeastRecords = 1 << 12;  // of a run
constexpr std::size_t kLeastBuffer = 1 << 6;    // records of a run that is read

// A sorted run, some records at a time.
class Run {
 public:
  Run(const fs::path& path, std::size_t buffer)
      : source_(data::open_bytes(path)), path_(path), records_(buffer) {}
  // False at the end.
  bool next(KeyRecord& record) {
    if (at_ == filled_ && !refill()) return false;
    record = records_[at_++];
    return true;
  }

 private:
  bool refill() {
    char* const to = reinterpret_cast<char*>(records_.data());
    const std::size_t wanted = records_.size() * sizeof(KeyRecord);
    std::size_t got = 0;
    while (got < wanted) {
      const std::size_t n = source_->read(to + got, wanted - got);
      if (n == 0) break;
      got += n;
    }
    require<IoError>(got % sizeof(KeyRecord) == 0, "'{}' ends too soon", path_.string());
    at_ = 0;
    filled_ = got / sizeof(KeyRecord);
    return filled_ > 0;
  }

  std::unique_ptr<data::ByteSource> source_;
  const fs::path path_;
  std::vector<KeyRecord> records_;
  std::size_t at_ = 0, filled_ = 0;
};

}  // namespace

RecordSorter::RecordSorter(fs::path folder, std::size_t memory)
    : folder_(std::move(folder)), memory_(memory) {
  records_.reserve(std::max(kLeastRecords, memory_ / sizeof(KeyRecord)));
}

RecordSorter::~RecordSorter() {
  std::error_code ignored;
  for (const fs::path& run : runs_) fs::remove(run, ignored);
}

void RecordSorter::add(const KeyRecord& record) {
  if (records_.size() == records_.capacity()) write_run();
  records_.push_back(record);
}

void RecordSorter::write_run() {
  std::sort(records_.begin(), records_.end());
  const fs::path path = folder_ / fmt::format("run-{:04}", runs_.size());
  write_text(path, {reinterpret_cast<const char*>(records_.data()), records_.size() * sizeof(KeyRecord)});
  runs_.push_back(path);
  records_.clear();
}

void RecordSorter::each(const std::function<void(const KeyRecord&)>& visit) {
  if (runs_.empty()) {
    std::sort(records_.begin(), records_.end());
    for (const KeyRecord& record : records_) visit(record);
    return;
  }
  if (!records_.empty()) write_run();
  std::vector<KeyRecord>().swap(records_);  // assigning {} would keep its memory
  const std::size_t buffer = std::max(kLeastBuffer, memory_ / sizeof(KeyRecord) / runs_.size());
  std::vector<std::unique_ptr<Run>> open;
  for (const fs::path& run : runs_) open.push_back(std::make_unique<Run>(run, buffer));
  merge_sorted<KeyRecord>(open, std::less<>(), visit);
}

}  // namespace stoa::curate
