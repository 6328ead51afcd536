// N-grams with their counts, held and sorted in files where they do not fit into memory: for the estimation
// of language models.
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

inline constexpr std::size_t kMostGramWords = 6;

struct Gram {
  std::array<std::uint32_t, kMostGramWords> words{};  // those beyond the order are 0
  std::uint64_t count = 0;
  double probability = 0, back_off = 1;  // after estimation; not logarithms
};

// N-grams in the order in which they were added. Held in memory up to some bytes; when there are more, they
// go to a file, which is removed with the object.
class GramFile {
 public:
  GramFile(fs::path path, std::size_t memory);
  ~GramFile();
  GramFile(const GramFile&) = delete;
  GramFile& operator=(const GramFile&) = delete;

  void add(const Gram& gram);
  void release();  // the memory: all that is held goes to the file
  std::uint64_t size() const { return written_ + held_.size(); }

  // Reads from the beginning; nothing may be added meanwhile.
  class Cursor {
   public:
    explicit Cursor(GramFile& file);
    bool next(Gram& gram);  // false at the end

   private:
    const GramFile& from_;
    std::ifstream file_;
    std::vector<Gram> buffer_;
    std::size_t at_ = 0, held_at_ = 0;
    std::uint64_t left_;  // in the file
  };

 private:
  void write();  // what is held

  const fs::path path_;
  const std::size_t most_;  // n-grams held
  std::ofstream file_;
  std::vector<Gram> held_;
  std::uint64_t written_ = 0;
};

// Sorts n-grams by their words from the first on, or with the first one last (`rotate`, the number of words).
class GramSorter {
 public:
  // Uses at most `memory` bytes (a least amount of some 50 KB), and files whose names begin with `prefix`.
  // `add_counts`: equal n-grams become one with the sum of their counts.
  GramSorter(fs::path prefix, std::size_t memory, bool add_counts, std::size_t rotate = 0);

  void add(const Gram& gram);
  // Calls `visit` with all n-grams in their order. Once.
  void each(const std::function<void(const Gram&)>& visit);
  std::size_t runs_written() const { return names_; }  // in files

 private:
  struct SortedRun {
    std::unique_ptr<GramFile> file;
    int level = 0;  // how often its n-grams were merged
  };
  void sort_held();
  void write_run();
  std::unique_ptr<GramFile> new_run();
  // Reads runs from `first` on as one.
  void merge(std::size_t first, const std::function<void(const Gram&)>& visit);
  bool before(const Gram& a, const Gram& b) const;

  const fs::path prefix_;
  const std::size_t most_;
  const bool add_counts_;
  const std::size_t rotate_;
  std::vector<Gram> held_;
  std::vector<SortedRun> runs_;
  std::size_t names_ = 0;
};

}  // namespace stoa::curate
