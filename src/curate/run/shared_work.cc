#include "curate/run/shared_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "curate/run/journal.h"
#include "curate/run/piece_file.h"

namespace stoa::curate {

SharedWork::SharedWork(fs::path output, const nlohmann::ordered_json& subject)
    : output_(std::move(output)), folder_(output_ / "shared"), inputs_(std::ssize(subject.at("inputs"))) {
  std::error_code error;
  require_place_for_run(output_);
  // Before anything else is there, so that another process finds a place for this run.
  fs::create_directories(output_ / "journal", error);
  require<IoError>(!error, "cannot make the directory '{}': {}", (output_ / "journal").string(),
                   error.message());
  if (is_over()) return;
  try {
    fs::create_directories(folder_, error);
    require<IoError>(!error, "cannot make the directory '{}': {}", folder_.string(), error.message());
    remove_abandoned(folder_);
    const fs::path own = folder_ / "run.json";
    if (!fs::exists(own)) write_text(own, subject.dump(1) + "\n");
    require_same_subject(output_, own, subject);
  } catch (const IoError&) {  // another process has ended the run, and removes the folder
    if (!is_over()) throw;
  }
}

bool SharedWork::is_over() const { return fs::exists(output_ / "manifest.json"); }

fs::path SharedWork::piece(std::int64_t input) const { return folder_ / fmt::format("{:08}.piece", input); }

std::unique_ptr<Lease> SharedWork::take(std::int64_t input) const {
  return Lease::take(folder_, fmt::format("{:08}.lease", input));
}
std::unique_ptr<Lease> SharedWork::take_end() const { return Lease::take(folder_, "end.lease"); }

void SharedWork::each(Place from, const std::function<void(ProcessedBlock&)>& visit) const {
  ProcessedBlock block;
  std::uint64_t before = 0, last = 0;
  for (std::int64_t i = from.input; i < inputs_; ++i, before += last) {
    last = 0;
    for (PieceReader reader(piece(i)); reader.next(block);) {
      block.input = i;
      last = block.position;
      block.position += before;
      if (i == from.input)
        std::erase_if(block.outcomes, [&](const Outcome& outcome) { return outcome.number < from.number; });
      visit(block);
    }
  }
}

void SharedWork::remove() const {
  std::error_code ignored;  // a process that comes late may look into it
  fs::remove_all(folder_, ignored);
}

}  // namespace stoa::curate
