// A pipeline as a YAML file describes it.
//
//   input: {text_key: text}
//   stages:
//     - gopher_repetition
//     - gopher_quality: {min_doc_words: 20}
//   deduplicate:
//     - exact
//     - minhash: {keep: longest}
//   cut:
//     - lines: {min_characters: 20}
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/node.h"
#include "curate/dedup/cutter.h"
#include "curate/dedup/fingerprint.h"
#include "curate/io/document_reader.h"
#include "curate/stage.h"

namespace stoa::curate {

struct PipelineSettings {
  InputOptions input;
  std::int64_t shard_bytes = 64'000'000;  // of text read per pair of output files
  bool allow_empty = false;
  double document_seconds = 300;  // of a processor
};

struct NamedStage {
  std::string name;
  std::unique_ptr<Stage> stage;
};

struct NamedCut {
  std::string name;
  std::function<std::unique_ptr<Cutter>(const CutterPlace&)> make;
};

struct Pipeline {
  PipelineSettings settings;
  std::vector<NamedStage> stages;
  std::vector<Deduplication> deduplications;  // of what the stages kept, in order
  std::vector<NamedCut> cuts;                 // out of what deduplication kept, in order
  bool has_second_pass() const { return !deduplications.empty() || !cuts.empty(); }
  std::string resolved;  // YAML with the values of all keys: what decides the output
};

// ConfigError lists what is wrong, with its line.
Pipeline read_pipeline(const fs::path& path);

// The pipeline that a tree describes, also one without any list. ConfigError as above.
Pipeline pipeline_of(config::Node root);

// Names of all that may drop a document, in order: the input, stages, deduplications and cuts.
std::vector<std::string> stage_names(const Pipeline& pipeline);

// Markdown: every key of a pipeline and of every stage.
std::string pipeline_reference();

}  // namespace stoa::curate
