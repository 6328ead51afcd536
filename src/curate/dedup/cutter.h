// Ways to cut parts of texts that occurred before: the first copy stays. They see all texts of a run in
// order, once or several times, and then cut in the same order: the result does not depend on workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "config/node.h"
#include "config/schema.h"

namespace stoa::curate {

class Cutter {
 public:
  virtual ~Cutter() = default;
  // How often the texts are shown before they are cut.
  virtual int passes() const = 0;
  virtual void see(int pass, std::string_view text) = 0;
  virtual void end_pass(int pass) = 0;
  // The texts again; takes out what occurred before. False: nothing is left that is worth keeping.
  virtual bool cut(std::string& text) = 0;
};

struct CutterPlace {
  fs::path folder;         // exists, for files of its own
  std::size_t memory = 0;  // bytes that it may use
};

struct CutKind {
  std::string_view name, help;
  config::Schema schema;
  config::Node defaults;
  std::function<std::function<std::unique_ptr<Cutter>(const CutterPlace&)>(const config::Node& keys,
                                                                           config::Node& resolved)>
      make;  // as StageKind's
};
std::span<const CutKind> cut_kinds();

enum class UnitForm { kAsWritten, kCcnet };
std::span<const config::EnumName<UnitForm>> enum_names(UnitForm);

struct UnitCut {
  std::int64_t min_characters = 0, copies = 1;
  UnitForm compare = UnitForm::kCcnet;
};
enum class Unit { kLine, kParagraph };
std::unique_ptr<Cutter> make_unit_cutter(Unit unit, const UnitCut& options, const CutterPlace& place);

enum class BloomRule { kBff, kDolma };
std::span<const config::EnumName<BloomRule>> enum_names(BloomRule);

struct BloomCut {
  BloomRule rule = BloomRule::kBff;
  double false_positive_rate = 0.01;
  std::int64_t min_ngram_size = 13, max_ngram_size = 13;
  double filtering_threshold = 0.8;
  std::int64_t min_length = 0, min_words = 0;
  bool skip_empty = true;
};
std::unique_ptr<Cutter> make_bloom_cutter(const BloomCut& options, const CutterPlace& place);

struct SubstringCut {
  std::int64_t min_bytes = 200;
};
std::unique_ptr<Cutter> make_substring_cutter(const SubstringCut& options, const CutterPlace& place);

}  // namespace stoa::curate
