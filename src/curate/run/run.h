// A run of a pipeline over files. Its output is a function of the inputs and the pipeline alone: documents
// stay in the order of the inputs, files end after a fixed amount of text, and nothing of machine, time or
// number of workers is written.
//
//   DIR/kept/00000.jsonl …     id, text and the other members of kept documents
//   DIR/dropped/00000.jsonl …  dropped ones, with `reason`: STAGE/RULE of the first rule that failed
//   DIR/quarantine/…           what is no document, or made a stage fail; only where there is some
//   DIR/attributes/…           of a run that tags (tags.h): what every rule measured; nothing is dropped then
//   DIR/report.html, DIR/DATASHEET.md  what people read (report.h)
//   DIR/manifest.json          written last: pipeline, inputs, counts per rule, checksums
//   DIR/journal/               how far the run has come: one that was killed continues from there
//   DIR/work/                  what the stages kept, until deduplication has seen all of it
//   DIR/shared/                what the processes of a shared run have made of each input (shared_work.h)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "curate/io/collect.h"
#include "curate/run/flow.h"
#include "curate/run/journal.h"
#include "curate/run/pipeline.h"

namespace stoa::curate {

struct RunOptions {
  std::vector<fs::path> inputs;
  fs::path output;
  int workers = 1;
  std::size_t memory = std::size_t{2} << 30;  // bytes that a deduplication may use
  bool strict = false;  // an input that is damaged ends the run; else it goes to quarantine
  bool shared = false;  // several processes, on any machines, give this run at the same time
  // Starts the program again in its place, which is asked for when a document ends it or takes too long; does
  // not return. Empty: such documents are not watched for.
  std::function<void()> restart{};
  std::vector<Provenance> provenance{};  // of the inputs, which are files then; empty: not recorded
  bool tags = false;                     // the stages measure and drop nothing; deduplications are left out
};

struct RunResult {
  Flow flow;
  std::int64_t shards = 0;
  bool was_complete = false;        // nothing was left to do
  std::int64_t resumed_shards = 0;  // found finished
  double seconds = 0;
};

// ConfigError: a directory that holds something else, another pipeline or other inputs (with the difference),
// or is in use; a result without any kept document. Interrupted: a stop was requested; the next run
// continues.
RunResult run_pipeline(const Pipeline& pipeline, const RunOptions& options, Console& console,
                       const std::stop_token& stop = {});

// The manifest: what decides the output, counts and files. Written last.
void write_manifest(const fs::path& path, const nlohmann::ordered_json& subject, const Journal& journal,
                    const Flow& flow);

struct Forecast {
  Flow flow;                                        // of the sample
  std::int64_t sampled_bytes = 0, input_bytes = 0;  // on disk
  double seconds = 0;                               // of the sample, one worker
  std::size_t bytes_per_document = 0;               // of kept ones, that deduplication holds in memory
};
// Runs a sample of about `share` of the inputs, the beginning of every one, in memory.
Forecast forecast(const Pipeline& pipeline, const std::vector<fs::path>& inputs, double share);

}  // namespace stoa::curate
