#include "curate/run/process.h"

#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "curate/io/json_document.h"
#include "curate/run/document_watch.h"
#include "curate/run/measures.h"
#include "curate/run/tags.h"
#include "data/utf8_scan.h"

namespace stoa::curate {

namespace {

constexpr std::size_t kMostQuarantined = 1'000'000;  // bytes of a document that its line in quarantine shows

// The text with U+FFFD for bytes that are not UTF-8.
std::string utf8_or_marks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = data::scan_utf8(text).valid;
    out += text.substr(0, valid);
    if (valid == text.size()) break;
    out += "\xef\xbf\xbd";
    text.remove_prefix(valid + 1);
  }
  return out;
}

// What a reader of archives hands out between records (warc.h); empty: the document is a record.
std::string_view damage_in(const InputBlock& block, std::size_t index) {
  const auto [begin, end] = block.block.documents[index];
  const std::string_view text = block.block.text.view().substr(begin, end - begin);
  return block.is_archive && !text.starts_with("WARC/") ? text : std::string_view();
}

}  // namespace

Processor::Processor(const Pipeline& pipeline, const ProcessorOptions& options)
    : pipeline_(pipeline),
      options_(options),
      parser_(pipeline.settings.input),
      side_(pipeline.deduplications.size()) {
  for (const Deduplication& how : pipeline.deduplications) fingerprints_.push_back(how.make());
}

void Processor::process(const InputBlock& block, ProcessedBlock& out) {
  out.input = block.input;
  out.position = block.block.position;
  out.lines.clear();
  out.side.clear();
  out.tags.clear();
  out.outcomes.clear();
  if (!block.fault.empty()) quarantine_input(block, out);
  for (std::size_t i = block.skip; i < block.block.documents.size(); ++i) process_one(block, i, out);
}

void Processor::quarantine_input(const InputBlock& block, ProcessedBlock& out) {
  Outcome outcome{.fate = Fate::kQuarantined,
                  .begin = out.lines.size(),
                  .number = block.first,
                  .is_input = true,
                  .reason = utf8_or_marks(block.fault)};
  append_json_line({shown_path(block.block.input->path.filename()), {}, {}, {}}, outcome.reason, out.lines);
  outcome.end = out.lines.size();
  out.outcomes.push_back(std::move(outcome));
}

void Processor::tag(ProcessedBlock& out) {
  TagLine line(document_.id, out.tags);
  measure_stages(pipeline_, document_, features_, line);
  line.finish(document_.text.size());
}

// The document itself stays as it is.
void Processor::measure(const InputBlock& block, ProcessedBlock& out) {
  if (options_.sample_every == 0 ||
      XXH3_64bits(document_.id.data(), document_.id.size()) % options_.sample_every != 0)
    return;
  append_measures(pipeline_, document_, block.block.input->path, features_, out.tags);
  features_.reset(document_.text);
}

void Processor::process_one(const InputBlock& block, std::size_t index, ProcessedBlock& out) {
  Outcome outcome;
  outcome.number = block.first + static_cast<std::int64_t>(index);
  outcome.begin = out.lines.size();
  outcome.side_begin = out.side.size();
  outcome.tags_begin = out.tags.size();
  const auto quarantine = [&](const char* why) {
    outcome.fate = Fate::kQuarantined;
    const std::string_view damage = damage_in(block, index);
    outcome.is_input = !damage.empty();
    outcome.reason = damage.empty() ? why : utf8_or_marks(describe_damage(block.block.input->path, damage));
    out.tags.resize(outcome.tags_begin);
    const auto [begin, end] = block.block.documents[index];
    Document raw;  // as it was read: its line may be no JSON
    raw.id = fmt::format("{}:{}", shown_path(block.block.input->path.filename()), outcome.number + 1);
    raw.text = utf8_or_marks(block.block.text.view().substr(begin, std::min(end - begin, kMostQuarantined)));
    outcome.read_bytes = outcome.bytes = static_cast<std::int64_t>(raw.text.size());
    append_json_line(raw, outcome.reason, out.lines);
  };
  const DocumentWatch::Document watched(options_.watch, block.block.input->path, outcome.number);
  try {
    if (options_.bad)
      if (const std::string* reason = options_.bad->reason(block.block.input->path, outcome.number))
        fail<DataError>("{}", *reason);
    std::string unusable;
    if (!parser_.parse(block, index, document_, unusable)) return;
    outcome.read_bytes = static_cast<std::int64_t>(document_.text.size());
    if (!options_.provenance.empty())
      add_provenance(options_.provenance[static_cast<std::size_t>(block.input)], document_);
    features_.reset(document_.text);
    Verdict verdict;
    if (!unusable.empty()) {
      outcome.fate = Fate::kDropped;
      outcome.reason = fmt::format("{}/{}", kInputStage, unusable);
    }
    if (outcome.fate == Fate::kKept) options_.tags ? tag(out) : measure(block, out);
    for (const NamedStage& stage : pipeline_.stages) {
      if (options_.tags || outcome.fate == Fate::kDropped) break;
      stage.stage->apply(document_, features_, verdict);
      if (!verdict.dropped()) continue;
      outcome.fate = Fate::kDropped;
      outcome.reason = stage.name + "/" + verdict.rule();
    }
    outcome.bytes = static_cast<std::int64_t>(document_.text.size());
    append_json_line(document_, outcome.reason, out.lines);
    if (!options_.tags && outcome.fate == Fate::kKept && pipeline_.has_second_pass()) {
      const auto bytes = static_cast<std::uint32_t>(document_.text.size());
      for (std::size_t i = 0; i < side_.size(); ++i) {
        const Deduplication& how = pipeline_.deduplications[i];
        side_[i].rank = how.keep == Survivor::kLongest ? bytes
                        : how.keep == Survivor::kBest
                            ? rank_of_score(number_member(how.score, document_.metadata))
                            : 0;
        side_[i].keys.clear();
        fingerprints_[i]->keys(document_.text, side_[i].keys);
      }
      append_side(bytes, side_, out.side);
    }
  } catch (const std::bad_alloc&) {
    quarantine("it needs more memory than there is");
  } catch (const std::exception& e) {
    quarantine(e.what());
  }
  outcome.end = out.lines.size();
  outcome.side_end = out.side.size();
  outcome.tags_end = out.tags.size();
  out.outcomes.push_back(std::move(outcome));
}

}  // namespace stoa::curate
