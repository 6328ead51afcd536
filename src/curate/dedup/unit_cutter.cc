#include <xxhash.h>

#include "curate/dedup/cutter.h"
#include "curate/dedup/position_file.h"
#include "curate/dedup/record_sorter.h"
#include "curate/text/ccnet_form.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

// Lines, or paragraphs between blank lines, that occurred before in any text.
class UnitCutter final : public Cutter {
 public:
  UnitCutter(Unit unit, const UnitCut& options, const CutterPlace& place)
      : unit_(unit),
        options_(options),
        place_(place),
        sorter_(std::make_unique<RecordSorter>(place.folder, place.memory / 2)),
        copies_(place.folder / "copies") {}

  int passes() const override { return 1; }

  void see(int, std::string_view text) override {
    each_unit(text, [&](std::string_view unit, std::size_t) {
      if (const std::string_view form = compared(unit); !form.empty())
        sorter_->add({XXH3_64bits(form.data(), form.size()), position_});
      ++position_;
    });
  }

  void end_pass(int) override {
    fs::create_directories(place_.folder / "order");
    RecordSorter order(place_.folder / "order", place_.memory / 2);
    KeyRecord last;
    std::int64_t seen = 0;
    sorter_->each([&](const KeyRecord& record) {
      seen = seen > 0 && record.key == last.key ? seen + 1 : 1;
      if (seen > options_.copies) order.add({record.document, 0});
      last = record;
    });
    sorter_.reset();
    order.each([&](const KeyRecord& record) { copies_.add(record.key); });
    copies_.finish();
    position_ = 0;
  }

  bool cut(std::string& text) override {
    std::size_t units = 0;
    each_unit(text, [&](std::string_view, std::size_t) { ++units; });
    std::vector<bool> removed(units);
    bool any = false;
    copies_.take_below(position_ + units, [&](std::uint64_t at) { any = removed[at - position_] = true; });
    position_ += units;
    if (!any) return true;
    std::string kept;
    std::size_t number = 0;
    each_unit(text, [&](std::string_view unit, std::size_t with_end) {
      if (!removed[number++]) kept.append(unit.data(), with_end);
    });
    text = strip(kept);
    return !text.empty();
  }

 private:
  // Calls visit(unit, bytes with what ends it).
  template <class F>
  void each_unit(std::string_view text, F&& visit) const {
    const std::string_view separator = unit_ == Unit::kLine ? "\n" : "\n\n";
    while (!text.empty()) {
      const std::size_t found = text.find(separator);
      std::size_t end = found == text.npos ? text.size() : found + separator.size();
      if (unit_ == Unit::kParagraph)
        while (found != text.npos && end < text.size() && text[end] == '\n') ++end;
      visit(text.substr(0, found), end);
      text.remove_prefix(end);
    }
  }

  // What is compared; empty: the unit stays.
  std::string_view compared(std::string_view unit) {
    if (strip(unit).empty() || static_cast<std::int64_t>(count_characters(unit)) < options_.min_characters)
      return {};
    return options_.compare == UnitForm::kCcnet ? ccnet_(unit) : unit;
  }

  const Unit unit_;
  const UnitCut options_;
  const CutterPlace place_;
  std::unique_ptr<RecordSorter> sorter_;
  PositionFile copies_;
  CcnetForm ccnet_;
  std::uint64_t position_ = 0;  // of the next unit in the corpus
};

}  // namespace

std::unique_ptr<Cutter> make_unit_cutter(Unit unit, const UnitCut& options, const CutterPlace& place) {
  return std::make_unique<UnitCutter>(unit, options, place);
}

}  // namespace stoa::curate
