// One block of documents through the stages: what a worker does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "curate/io/collect.h"
#include "curate/io/document_reader.h"
#include "curate/run/pipeline.h"
#include "curate/run/sidecar.h"

namespace stoa::curate {

// Stands for a stage in the reasons of what was read and has no text to judge.
inline constexpr const char* kInputStage = "input";

enum class Fate : std::uint8_t { kKept, kDropped, kQuarantined };

struct Outcome {
  Fate fate = Fate::kKept;
  std::size_t begin = 0, end = 0;            // its line in `lines`
  std::size_t side_begin = 0, side_end = 0;  // of one that is kept: in `side` (sidecar.h)
  std::size_t tags_begin = 0, tags_end = 0;  // of one that was tagged or measured: in `tags`
  std::int64_t read_bytes = 0;               // text as it was read
  std::int64_t bytes = 0;                    // text as it is written
  std::int64_t number = 0;                   // of the document in its input
  bool is_input = false;                     // stands for an input that could not be read whole
  std::string reason;                        // of one that is not kept
};

struct ProcessedBlock {
  std::int64_t input = 0;
  std::uint64_t position = 0;  // bytes of all inputs read up to the end of the block
  std::string lines, side, tags;
  std::vector<Outcome> outcomes;
};

class BadDocuments;
class DocumentWatch;

// What a processor does besides taking documents through the stages.
struct ProcessorOptions {
  bool tags = false;  // stages measure and drop nothing
  std::uint64_t sample_every =
      0;  // one of so many documents, by its id, is measured, too (measures.h); 0: none
  const BadDocuments* bad = nullptr;         // go to quarantine at once
  DocumentWatch* watch = nullptr;            // of the documents under way
  std::span<const Provenance> provenance{};  // by input; empty: none is written into documents
};

class Processor {
 public:
  // `pipeline` must outlive it. One per worker.
  explicit Processor(const Pipeline& pipeline, const ProcessorOptions& options = {});
  void process(const InputBlock& block, ProcessedBlock& out);

 private:
  static void quarantine_input(const InputBlock& block, ProcessedBlock& out);
  void process_one(const InputBlock& block, std::size_t index, ProcessedBlock& out);
  void tag(ProcessedBlock& out);
  void measure(const InputBlock& block, ProcessedBlock& out);

  const Pipeline& pipeline_;
  const ProcessorOptions options_;
  DocumentParser parser_;
  Features features_;
  Document document_;
  std::vector<std::unique_ptr<Fingerprint>> fingerprints_;
  std::vector<SideEntry> side_;  // by deduplication
};

}  // namespace stoa::curate
