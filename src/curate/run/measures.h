// What the rules measure of a sample of the documents of a run, for its report: DIR/measures/00000.jsonl has
// lines like those of a tagging run (tags.h), with where the document came from and its language.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "curate/document.h"
#include "curate/run/pipeline.h"
#include "curate/run/tags.h"
#include "curate/text/features.h"
#include "curate/verdict.h"

namespace stoa::curate {

inline constexpr const char* kMeasuresFolder = "measures";

// Takes the document through all stages, whatever fails, and adds what they measure to the line.
void measure_stages(const Pipeline& pipeline, Document& document, Features& features, TagLine& line);

// Appends the line of a document from the file `source`; one that a stage fails on has no more rules.
// `features` are memory for those of the document.
void append_measures(const Pipeline& pipeline, Document document, const fs::path& source, Features& features,
                     std::string& out);

struct MeasuredDocument {
  std::string id, source, language;  // language: empty where no stage or input names it
  std::int64_t bytes = 0;
  std::vector<Verdict::Value> values;  // rules as "stage/rule", in the order in which they decide
  // The first rule that fails it; null: none.
  const Verdict::Value* first_failure() const;
};

// Those of the first `shards` shards. DataError: a line that is none.
std::vector<MeasuredDocument> read_measures(const fs::path& output, std::int64_t shards);

}  // namespace stoa::curate
