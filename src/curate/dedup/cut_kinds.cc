#include <vector>

#include "config/reader.h"
#include "curate/dedup/cutter.h"

namespace stoa::curate {
namespace {

void declare_cut(config::Section<UnitCut>& s) {
  s.field("min_characters", &UnitCut::min_characters)
      .at_least(0)
      .unit("characters")
      .help("Shorter ones stay.");
  s.field("copies", &UnitCut::copies)
      .at_least(1)
      .help("How many of equal ones stay, the first in the corpus.");
  s.field("compare", &UnitCut::compare)
      .help("as_written, or ccnet: in lower case, digits as 0, without CCNet's punctuation marks.");
}

void declare_cut(config::Section<BloomCut>& s) {
  s.field("rule", &BloomCut::rule)
      .help(
          "bff: paragraphs and documents by the share of n-grams seen before (DCLM's old-both); dolma: "
          "paragraphs seen before.");
  s.field("false_positive_rate", &BloomCut::false_positive_rate)
      .range(1e-30, 0.5)
      .help(
          "Share of new n-grams or paragraphs that pass for seen ones, at most; decides the size of the "
          "filter.");
  s.field("min_ngram_size", &BloomCut::min_ngram_size)
      .range(1, 1000)
      .unit("words")
      .help("bff: shorter paragraphs stay.");
  s.field("max_ngram_size", &BloomCut::max_ngram_size)
      .range(1, 1000)
      .unit("words")
      .help("bff: length of n-grams; a paragraph that is shorter is one.");
  s.field("filtering_threshold", &BloomCut::filtering_threshold)
      .range(0, 1)
      .help("bff: a larger share of n-grams seen before cuts the paragraph, or drops the document.");
  s.field("min_length", &BloomCut::min_length)
      .at_least(0)
      .unit("characters")
      .help("dolma: shorter paragraphs stay.");
  s.field("min_words", &BloomCut::min_words).at_least(0).help("dolma: paragraphs of fewer words stay.");
  s.field("skip_empty", &BloomCut::skip_empty).help("dolma: empty paragraphs stay.");
}

void declare_cut(config::Section<SubstringCut>& s) {
  s.field("min_bytes", &SubstringCut::min_bytes)
      .range(8, 1e6)
      .unit("bytes")
      .help("Length from which on a repeated stretch is cut, in whole words and characters.");
}

template <class Options, class Make>
CutKind cut_kind_of(std::string_view name, std::string_view help, Make make_cutter) {
  config::Section<Options> section;
  declare_cut(section);
  const Options defaults;
  CutKind kind{name, help, section.schema(), section.schema().print(&defaults), {}};
  kind.make = [section, make_cutter](const config::Node& keys, config::Node& resolved) {
    Options options;
    config::read_object(section.schema(), keys.is_null() ? config::Node::map() : keys, &options, {});
    resolved = section.schema().print(&options);
    return [options, make_cutter](const CutterPlace& place) { return make_cutter(options, place); };
  };
  return kind;
}

}  // namespace

std::span<const config::EnumName<UnitForm>> enum_names(UnitForm) {
  static constexpr config::EnumName<UnitForm> kNames[] = {{"as_written", UnitForm::kAsWritten},
                                                          {"ccnet", UnitForm::kCcnet}};
  return kNames;
}

std::span<const config::EnumName<BloomRule>> enum_names(BloomRule) {
  static constexpr config::EnumName<BloomRule> kNames[] = {{"bff", BloomRule::kBff},
                                                           {"dolma", BloomRule::kDolma}};
  return kNames;
}

std::span<const CutKind> cut_kinds() {
  static const std::vector<CutKind> kinds = {
      cut_kind_of<UnitCut>("lines", "Lines that occurred before in any document",
                           [](const UnitCut& options, const CutterPlace& place) {
                             return make_unit_cutter(Unit::kLine, options, place);
                           }),
      cut_kind_of<UnitCut>("paragraphs", "Paragraphs, between blank lines, that occurred before",
                           [](const UnitCut& options, const CutterPlace& place) {
                             return make_unit_cutter(Unit::kParagraph, options, place);
                           }),
      cut_kind_of<BloomCut>("bloom",
                            "Lines by a Bloom filter over what came before (BFF's and dolma's rules)",
                            make_bloom_cutter),
      cut_kind_of<SubstringCut>("substrings", "Stretches of any kind that occurred before, byte by byte",
                                make_substring_cutter),
  };
  return kinds;
}

}  // namespace stoa::curate
