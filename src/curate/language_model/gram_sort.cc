#include "curate/language_model/gram_sort.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "curate/merge_sorted.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kLeastGramsHeld = 1 << 10;
constexpr std::size_t kGramsRead = 1 << 8;  // at a time, of a file
constexpr std::size_t kFanIn = 64;          // runs of one level that become one

}  // namespace

GramFile::GramFile(fs::path path, std::size_t memory)
    : path_(std::move(path)), most_(std::max(kGramsRead, memory / sizeof(Gram))) {}

GramFile::~GramFile() {
  if (written_ == 0) return;
  file_.close();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void GramFile::add(const Gram& gram) {
  if (held_.empty()) held_.reserve(most_);
  held_.push_back(gram);
  if (held_.size() == most_) write();
}

void GramFile::write() {
  if (!file_.is_open()) file_.open(path_, std::ios::binary | std::ios::trunc);
  require<IoError>(file_.is_open(), "cannot write '{}'", path_.string());
  file_.write(reinterpret_cast<const char*>(held_.data()),
              static_cast<std::streamsize>(held_.size() * sizeof(Gram)));
  file_.flush();
  require<IoError>(file_.good(), "cannot write '{}': is the disk full?", path_.string());
  written_ += held_.size();
  held_.clear();
}

void GramFile::release() {
  if (!held_.empty()) write();
  std::vector<Gram>().swap(held_);
}

GramFile::Cursor::Cursor(GramFile& file) : from_(file), left_(file.written_) {
  if (left_ == 0) return;
  file_.open(file.path_, std::ios::binary);
  require<IoError>(file_.is_open(), "cannot read '{}'", file.path_.string());
}

bool GramFile::Cursor::next(Gram& gram) {
  if (at_ == buffer_.size() && left_ > 0) {
    buffer_.resize(std::min<std::uint64_t>(kGramsRead, left_));
    const auto bytes = static_cast<std::streamsize>(buffer_.size() * sizeof(Gram));
    file_.read(reinterpret_cast<char*>(buffer_.data()), bytes);
    require<IoError>(file_.gcount() == bytes, "'{}' ends too soon", from_.path_.string());
    left_ -= buffer_.size();
    at_ = 0;
  }
  if (at_ < buffer_.size()) {
    gram = buffer_[at_++];
    return true;
  }
  if (held_at_ == from_.held_.size()) return false;
  gram = from_.held_[held_at_++];
  return true;
}

GramSorter::GramSorter(fs::path prefix, std::size_t memory, bool add_counts, std::size_t rotate)
    : prefix_(std::move(prefix)),
      most_(std::max(kLeastGramsHeld, memory / sizeof(Gram))),
      add_counts_(add_counts),
      rotate_(rotate) {}

bool GramSorter::before(const Gram& a, const Gram& b) const {
  if (rotate_ == 0) return a.words < b.words;
  const auto from = static_cast<std::ptrdiff_t>(rotate_);
  const auto order = std::lexicographical_compare_three_way(a.words.begin() + 1, a.words.begin() + from,
                                                            b.words.begin() + 1, b.words.begin() + from);
  return order != 0 ? order < 0 : a.words[0] < b.words[0];
}

void GramSorter::sort_held() {
  std::sort(held_.begin(), held_.end(), [this](const Gram& a, const Gram& b) { return before(a, b); });
  if (!add_counts_) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (kept > 0 && held_[kept - 1].words == held_[i].words)
      held_[kept - 1].count += held_[i].count;
    else
      held_[kept++] = held_[i];
  }
  held_.resize(kept);
}

void GramSorter::add(const Gram& gram) {
  if (held_.size() == most_) {
    sort_held();
    if (held_.size() > most_ / 2) write_run();
  }
  if (held_.capacity() < most_) held_.reserve(most_);
  held_.push_back(gram);
}

std::unique_ptr<GramFile> GramSorter::new_run() {
  return std::make_unique<GramFile>(fs::path(prefix_) += fmt::format("-{:04}", names_++), 0);
}

void GramSorter::write_run() {
  SortedRun run{new_run()};
  for (const Gram& gram : held_) run.file->add(gram);
  held_.clear();
  for (;;) {
    run.file->release();
    const int level = run.level;
    runs_.push_back(std::move(run));
    const auto alike =
        std::find_if(runs_.rbegin(), runs_.rend(), [&](const SortedRun& r) { return r.level != level; });
    const auto count = static_cast<std::size_t>(alike - runs_.rbegin());
    if (count < kFanIn) return;
    const std::size_t first = runs_.size() - count;
    run = {new_run(), level + 1};
    merge(first, [&](const Gram& gram) { run.file->add(gram); });
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(first), runs_.end());
  }
}

void GramSorter::merge(std::size_t first, const std::function<void(const Gram&)>& visit) {
  std::vector<std::unique_ptr<GramFile::Cursor>> open;
  for (std::size_t i = first; i < runs_.size(); ++i)
    open.push_back(std::make_unique<GramFile::Cursor>(*runs_[i].file));
  Gram waiting;
  bool waits = false;
  const auto add_up = [&](const Gram& gram) {
    if (waits && add_counts_ && waiting.words == gram.words) {
      waiting.count += gram.count;
      return;
    }
    if (waits) visit(waiting);
    waiting = gram;
    waits = true;
  };
  merge_sorted<Gram>(
      open, [this](const Gram& a, const Gram& b) { return before(a, b); }, add_up);
  if (waits) visit(waiting);
}

void GramSorter::each(const std::function<void(const Gram&)>& visit) {
  sort_held();
  if (runs_.empty()) {
    for (const Gram& gram : held_) visit(gram);
    std::vector<Gram>().swap(held_);
    return;
  }
  if (!held_.empty()) write_run();
  std::vector<Gram>().swap(held_);
  merge(0, visit);
  runs_.clear();
}

}  // namespace stoa::curate
