#include "curate/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/timing.h"
#include "curate/run/cut_pass.h"
#include "curate/run/document_watch.h"
#include "curate/run/journal.h"
#include "curate/run/measures.h"
#include "curate/run/piece_file.h"
#include "curate/run/process.h"
#include "curate/run/report.h"
#include "curate/run/second_pass.h"
#include "curate/run/shard.h"
#include "curate/run/shared_work.h"
#include "data/ordered_pipeline.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kInFlightBytes = std::size_t{128} << 20;
constexpr std::chrono::milliseconds kSharedPause(500);
constexpr std::uint64_t kMeasuredBytes = 2'000'000;  // of inputs, for the report

Json describe_inputs(const std::vector<data::TextInput>& inputs, std::span<const Provenance> provenance) {
  Json list = Json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    list.push_back({{"path", shown_path(inputs[i].path)}, {"bytes", inputs[i].bytes}});
    if (provenance.empty()) continue;
    list.back()["source"] = provenance[i].source;
    list.back()["license"] = provenance[i].license;
  }
  return list;
}

// Why the first document in quarantine is there: where all are, the rest mostly are for the same reason.
std::string first_fault(const fs::path& quarantine) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(quarantine, error)) files.push_back(entry.path());
  if (files.empty()) return "";
  std::ifstream file(*std::min_element(files.begin(), files.end()));
  std::string line;
  std::getline(file, line);
  const Json document = Json::parse(line, nullptr, false);
  if (!document.is_object() || !document.contains("reason")) return "";
  return fmt::format("; the first: {}: {}", document.value("id", ""), document.value("reason", ""));
}

std::uint64_t bytes_of(std::span<const data::TextInput> inputs) {
  std::uint64_t total = 0;
  for (const data::TextInput& input : inputs) total += input.bytes;
  return total;
}

// One of so many documents is measured for the report; 0: none, of a tagging run, which measures all.
std::uint64_t sample_every_of(const std::vector<data::TextInput>& inputs, const RunOptions& options) {
  return options.tags ? 0 : 1 + bytes_of(inputs) / kMeasuredBytes;
}

void count(const Outcome& outcome, Flow& flow) {
  flow.read.add(outcome.read_bytes);
  if (outcome.fate == Fate::kKept) flow.kept.add(outcome.bytes);
  if (outcome.fate == Fate::kDropped) flow.dropped[outcome.reason].add(outcome.bytes);
  if (outcome.fate == Fate::kQuarantined) flow.quarantined.add(outcome.bytes);
  flow.damaged_inputs += outcome.is_input;
}

// Takes the outcomes in order and ends a shard whenever enough text was read.
class Writer {
 public:
  Writer(Journal& journal, fs::path output, const Pipeline& pipeline, bool tags)
      : journal_(journal),
        output_(std::move(output)),
        shard_bytes_(pipeline.settings.shard_bytes),
        tags_folder_(tags ? kTagsFolder : kMeasuresFolder),
        with_side_(!tags && pipeline.has_second_pass()),
        shard_(next_shard()) {}

  void add(const ProcessedBlock& block) {
    for (const Outcome& outcome : block.outcomes) {
      shard_.add(
          outcome.fate, std::string_view(block.lines).substr(outcome.begin, outcome.end - outcome.begin),
          std::string_view(block.side).substr(outcome.side_begin, outcome.side_end - outcome.side_begin),
          std::string_view(block.tags).substr(outcome.tags_begin, outcome.tags_end - outcome.tags_begin));
      count(outcome, flow_);
      if (flow_.read.bytes >= shard_bytes_) finish_shard({block.input, outcome.number + 1});
    }
  }
  void finish(Place end) {
    if (flow_.read.documents > 0) finish_shard(end);
  }

 private:
  void finish_shard(Place next) {
    journal_.add({next, flow_, shard_.commit()});
    flow_ = {};
    shard_ = next_shard();
  }
  Shard next_shard() const { return Shard(output_, std::ssize(journal_.shards()), tags_folder_, with_side_); }

  Journal& journal_;
  const fs::path output_;
  const std::int64_t shard_bytes_;
  const char* const tags_folder_;
  const bool with_side_;
  Shard shard_;
  Flow flow_;
};

// Takes the documents of inputs, from `from` on, through the stages. Calls write(block) in their order.
void process_inputs(const Pipeline& pipeline, const std::vector<data::TextInput>& inputs, Place from,
                    std::uint64_t sample_every, const RunOptions& options,
                    std::span<const Provenance> provenance,
                    const std::function<void(ProcessedBlock&)>& write) {
  const int workers = options.workers;
  const fs::path list = options.output / "journal/bad_documents";
  const BadDocuments bad(list);
  std::optional<DocumentWatch> watch;
  if (options.restart) watch.emplace(list, pipeline.settings.document_seconds, options.restart);
  std::deque<Processor> processors;
  for (int w = 0; w < workers; ++w)
    processors.emplace_back(
        pipeline, ProcessorOptions{options.tags, sample_every, &bad, watch ? &*watch : nullptr, provenance});
  DocumentReader reader(inputs, pipeline.settings.input, from, options.strict);
  data::OrderedPipeline<InputBlock, ProcessedBlock> blocks(
      workers, 2 * std::int64_t{workers} + 2, std::min(kInFlightBytes, options.memory / 8),
      [](const InputBlock& block) { return block.block.text.size(); });
  blocks.run([&](InputBlock& block) { return reader.next(block); },
             [&](int worker, InputBlock& block, ProcessedBlock& out) {
               processors[static_cast<std::size_t>(worker)].process(block, out);
             },
             write);
}

void require_no_stop(const std::stop_token& stop, std::size_t shards) {
  require<Interrupted>(!stop.stop_requested(),
                       "interrupted after {} shards; the same command continues from there", shards);
}

void warn_of_faults(const ProcessedBlock& block, Console& console) {
  for (const Outcome& outcome : block.outcomes)
    if (outcome.is_input) console.warn(outcome.reason + "; the run continues");
}

// Takes the inputs through the stages from where `journal` ends; `shared`: what processes have made of them.
void run_stages(const Pipeline& pipeline, const std::vector<data::TextInput>& inputs,
                const RunOptions& options, const fs::path& output, const SharedWork* shared, Journal& journal,
                Console& console, const std::stop_token& stop) {
  const Place from = journal.shards().empty() ? Place() : journal.shards().back().next;
  if (from.input == std::ssize(inputs)) return;
  const auto before =
      static_cast<double>(bytes_of(std::span(inputs).first(static_cast<std::size_t>(from.input))));
  Writer writer(journal, output, pipeline, options.tags);
  Progress progress(console, "stages", static_cast<double>(bytes_of(inputs)), "B");
  const auto write = [&](ProcessedBlock& out) {
    require_no_stop(stop, journal.shards().size());
    writer.add(out);
    warn_of_faults(out, console);
    progress.update(before + static_cast<double>(out.position));
  };
  if (shared)
    shared->each(from, write);
  else
    process_inputs(pipeline, inputs, from, sample_every_of(inputs, options), options, options.provenance,
                   write);
  writer.finish({std::ssize(inputs), 0});
  progress.finish();
}

// Does pieces of a shared run until none is left that nobody else works on. Whether all are done.
bool do_pieces(const Pipeline& pipeline, const std::vector<data::TextInput>& inputs,
               const RunOptions& options, const SharedWork& shared, Console& console,
               const std::stop_token& stop) {
  Progress progress(console, "inputs", static_cast<double>(inputs.size()), " inputs");
  const std::uint64_t sample_every = sample_every_of(inputs, options);
  std::int64_t done = 0;
  for (std::int64_t i = 0; i < std::ssize(inputs); ++i) {
    require_no_stop(stop, 0);
    if (shared.is_over()) return false;
    const auto lease = shared.is_done(i) ? nullptr : shared.take(i);
    if (lease && !shared.is_done(i)) {
      PieceWriter piece(shared.piece(i));
      const auto number = static_cast<std::size_t>(i);
      const std::span<const Provenance> own = options.provenance.empty()
                                                  ? std::span<const Provenance>()
                                                  : std::span(options.provenance).subspan(number, 1);
      process_inputs(pipeline, {inputs[number]}, {}, sample_every, options, own, [&](ProcessedBlock& out) {
        require_no_stop(stop, 0);
        piece.add(out);
      });
      piece.commit();
    }
    done += shared.is_done(i);
    progress.update(static_cast<double>(i + 1));
  }
  progress.finish();
  return done == std::ssize(inputs);
}

}  // namespace

void write_manifest(const fs::path& path, const nlohmann::ordered_json& subject, const Journal& journal,
                    const Flow& flow) {
  Json files = Json::array();
  for (const ShardRecord& shard : journal.shards())
    for (const OutputFile& file : shard.files) files.push_back(to_json(file));
  Json manifest{{"format", 1}};
  manifest.update(subject);
  manifest["flow"] = to_json(flow);
  manifest["files"] = std::move(files);
  write_text(path, manifest.dump(1) + "\n");
}

RunResult run_pipeline(const Pipeline& pipeline, const RunOptions& options, Console& console,
                       const std::stop_token& stop) {
  require<ConfigError>(options.workers >= 1, "{} workers; expected at least 1", options.workers);
  const auto start = std::chrono::steady_clock::now();
  InputSearch search;
  search.source_code = pipeline.settings.input.source_code;
  search.output = options.output;
  const std::vector<data::TextInput> inputs = find_inputs(options.inputs, search);
  if (!search.source_code && options.provenance.empty())  // whoever collected files has told
    if (const std::string words = words_for_left_out(search); !words.empty()) console.line(words);
  require<InternalError>(options.provenance.empty() || options.provenance.size() == inputs.size(),
                         "inputs without a provenance");
  Json subject{{"pipeline", pipeline.resolved}, {"inputs", describe_inputs(inputs, options.provenance)}};
  if (options.tags) subject["tags"] = true;
  std::optional<SharedWork> shared;
  std::unique_ptr<Lease> end;  // of the process that writes the output
  if (options.shared) {
    shared.emplace(options.output, subject);
    try {
      // Another process may take the end, or pieces that one has left.
      while (!shared->is_over() && (!do_pieces(pipeline, inputs, options, *shared, console, stop) ||
                                    (end = shared->take_end()) == nullptr)) {
        require_no_stop(stop, 0);
        std::this_thread::sleep_for(kSharedPause);
      }
    } catch (const IoError&) {  // whoever ends the run removes what is shared, under this process too
      if (!shared->is_over()) throw;
    }
  }
  if (shared && !end) {  // another process has written it
    shared->remove();    // with what this one has made since
    RunResult result;
    result.flow = flow_from_json(Json::parse(read_text(options.output / "manifest.json")).at("flow"));
    result.was_complete = true;
    result.seconds = seconds_since(start);
    return result;
  }
  Journal journal(options.output, subject);
  const fs::path manifest = options.output / "manifest.json", work = options.output / "work";
  RunResult result;
  result.was_complete = fs::exists(manifest);
  result.resumed_shards = std::ssize(journal.shards());
  if (!result.was_complete) {
    if (options.tags || !pipeline.has_second_pass()) {
      run_stages(pipeline, inputs, options, options.output, shared ? &*shared : nullptr, journal, console,
                 stop);
    } else {
      Journal first(work, subject);
      if (journal.shards().empty()) result.resumed_shards = std::ssize(first.shards());
      run_stages(pipeline, inputs, options, work, shared ? &*shared : nullptr, first, console, stop);
      const Duplicates duplicates =
          find_duplicates(pipeline, work, std::ssize(first.shards()), options.memory, console);
      fs::path texts;
      if (!pipeline.cuts.empty())
        texts =
            cut_copies(pipeline, work, std::ssize(first.shards()), duplicates, options.memory, console, stop);
      write_second_pass(pipeline, work, first, duplicates, texts, options.output, journal, console, stop);
    }
  }
  for (const ShardRecord& shard : journal.shards()) result.flow.add(shard.flow);
  result.shards = std::ssize(journal.shards());
  require<DataError>(result.flow.kept.documents > 0 || pipeline.settings.allow_empty,
                     "no document was kept: {} read, {} dropped, {} in quarantine ('{}' has the reasons{}); "
                     "`allow_empty: true` in the "
                     "pipeline allows it",
                     result.flow.read.documents, result.flow.dropped_in_all().documents,
                     result.flow.quarantined.documents, options.output.string(),
                     first_fault(options.output / "quarantine"));
  if (!result.was_complete) {
    write_report(options.output, pipeline, subject, journal, result.flow);
    write_manifest(manifest, subject, journal, result.flow);
  }
  fs::remove_all(work);
  if (shared) shared->remove();
  result.seconds = seconds_since(start);
  return result;
}

Forecast forecast(const Pipeline& pipeline, const std::vector<fs::path>& paths, double share) {
  Forecast forecast;
  Processor processor(pipeline);
  const auto start = std::chrono::steady_clock::now();
  ProcessedBlock out;
  for (const data::TextInput& input : find_inputs(paths, pipeline.settings.input.source_code)) {
    const std::vector<data::TextInput> one{input};
    DocumentReader reader(one, pipeline.settings.input, {});
    const double wanted = share * static_cast<double>(input.bytes);
    std::uint64_t position = 0;
    for (InputBlock block; static_cast<double>(position) < wanted && reader.next(block);) {
      processor.process(block, out);
      for (const Outcome& outcome : out.outcomes) count(outcome, forecast.flow);
      position = out.position;
    }
    forecast.sampled_bytes += static_cast<std::int64_t>(position);
    forecast.input_bytes += static_cast<std::int64_t>(input.bytes);
  }
  if (!pipeline.deduplications.empty()) forecast.bytes_per_document = bytes_per_document(pipeline);
  forecast.seconds = seconds_since(start);
  return forecast;
}

}  // namespace stoa::curate
