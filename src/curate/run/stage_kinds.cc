#include "curate/run/stage_kinds.h"

#include <vector>

#include "config/reader.h"
#include "curate/filters/classifier.h"
#include "curate/filters/code_per_extension.h"
#include "curate/filters/code_quality.h"
#include "curate/filters/datatrove.h"
#include "curate/filters/dclm.h"
#include "curate/filters/decontaminate.h"
#include "curate/filters/dolma.h"
#include "curate/filters/language_filter.h"
#include "curate/filters/minhash_signature.h"
#include "curate/filters/nemo.h"
#include "curate/filters/perplexity.h"
#include "curate/filters/pii/pii.h"
#include "curate/filters/repair.h"
#include "curate/filters/roots.h"
#include "curate/filters/rpv2.h"
#include "curate/filters/url_filter.h"

namespace stoa::curate {
namespace {

template <class Options>
StageKind kind_of(std::string_view name, std::string_view help) {
  config::Section<Options> section;
  declare(section);
  const Options defaults;
  StageKind kind{name, help, section.schema(), section.schema().print(&defaults), {}};
  kind.make = [section](const config::Node& keys, config::Node& resolved) {
    Options options;
    config::read_object(section.schema(), keys.is_null() ? config::Node::map() : keys, &options, {});
    resolved = section.schema().print(&options);
    return make_stage(options);
  };
  return kind;
}

}  // namespace

std::span<const StageKind> stage_kinds() {
  static const std::vector<StageKind> kinds = {
      kind_of<FixTextOptions>("fix_text", "Repairs mojibake, references, quotes, line ends … (ftfy's rules)"),
      kind_of<GopherRepetition>(
          "gopher_repetition",
          "Repeated lines, paragraphs and sequences of words (Gopher; datatrove's rules)"),
      kind_of<GopherQuality>("gopher_quality",
                             "Length, symbols, bullets, ellipses, stop words (Gopher; datatrove's rules)"),
      kind_of<C4Quality>("c4_quality",
                         "Drops lines and documents, and rewrites the text (C4; datatrove's rules)"),
      kind_of<C4BadWords>("c4_bad_words",
                          "Drops documents with a word of a list of yours (C4; datatrove's rule)"),
      kind_of<FineWebQuality>("fineweb_quality",
                              "Punctuation, short and repeated lines (FineWeb; datatrove's rules)"),
      kind_of<NemoHeuristics>("nemo_heuristics",
                              "The heuristic filters of NeMo Curator, in the order of its English chain"),
      kind_of<DolmaTaggers>("dolma_taggers",
                            "The attributes of dolma's taggers gopher and c4, with Dolma's thresholds"),
      kind_of<DclmHeuristics>("dclm_heuristics",
                              "The page filters and line rules of DCLM's RefinedWeb chain, in its order"),
      kind_of<RedPajamaSignals>("rpv2_signals",
                                "The quality signals of RedPajama-Data v2, with Gopher's thresholds"),
      kind_of<RootsFilter>("roots_filter", "The word and character filters of ROOTS, BLOOM's corpus"),
      kind_of<UrlFilter>("url_filter",
                         "Drops documents by their `url`, with lists of yours (datatrove's rules)"),
      kind_of<Decontaminate>("decontaminate",
                             "Cuts or drops what tests of models hold (GPT-3's, datatrove's, dolma's rules)"),
      kind_of<LanguageFilter>("language", "Names the language of documents, and drops those in others"),
      kind_of<CodeQuality>(
          "code_quality",
          "Drops generated files, data and files without comments among source code (StarCoder)"),
      kind_of<CodePerExtension>(
          "code_per_extension",
          "Source files by StarCoder's table of extensions, as NeMo Curator applies it"),
      kind_of<ClassifierFilter>(
          "classifier",
          "Drops documents to which a classifier gives a low probability of a label (DCLM, GPT-3)"),
      kind_of<PerplexityFilter>("perplexity",
                                "Drops documents that an n-gram model predicts badly, or too well (CCNet)"),
      kind_of<MinHashSignature>("minhash_signature",
                                "Writes the MinHash signature (datatrove's) into documents; drops nothing"),
      kind_of<PiiOptions>(
          "pii", "Replaces addresses of people and machines (the patterns of datatrove, dolma or StarCoder)"),
  };
  return kinds;
}

}  // namespace stoa::curate
