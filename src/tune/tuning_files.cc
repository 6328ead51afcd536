#include "tune/tuning_files.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/console.h"
#include "base/error.h"
#include "base/worker_pool.h"

namespace stoa::tune {
namespace {

constexpr std::int64_t kRecordsPerTask = 32;
constexpr std::size_t kShownFaults = 20;

// What a task brings home.
struct Harvest {
  std::vector<EncodedSample> samples;
  std::vector<std::string> faults;
};

}  // namespace

TuningFiles::TuningFiles(const std::vector<fs::path>& paths, Bad bad, const std::stop_token& stop,
                         Question question)
    : bad_(bad), question_(question) {
  for (const fs::path& path : paths) files_.emplace_back(path, stop);
  find_forms();
}

TuningFiles::TuningFiles(std::vector<RecordFile> files, Bad bad) : files_(std::move(files)), bad_(bad) {
  find_forms();
}

RecordForm TuningFiles::form_of_file(const RecordFile& file) const {
  std::optional<std::string> fault;
  for (const RecordText& record : file.records()) {
    const Place place = file.place(record);
    try {
      return form_of(parse_json(record.json, place), place, question_);
    } catch (const DataError& error) {
      if (bad_ == Bad::kRefused) throw;
      if (!fault) fault = error.what();
    }
  }
  fail<DataError>("{} has no record that can be used: {}", file.name(), fault.value_or(""));
}

void TuningFiles::find_forms() {
  for (std::uint32_t f = 0; f < files_.size(); ++f) {
    forms_.push_back(form_of_file(files_[f]));
    for (std::uint32_t r = 0; r < files_[f].records().size(); ++r) places_.push_back({f, r});
  }
}

std::vector<std::string> TuningFiles::descriptions() const {
  std::vector<std::string> out;
  for (std::size_t f = 0; f < files_.size(); ++f)
    out.push_back(
        fmt::format("{}: {} records, {}", files_[f].name(), files_[f].records().size(), name_of(forms_[f])));
  return out;
}

Record TuningFiles::record(std::int64_t number, const RecordOptions& options) const {
  const At at = places_[static_cast<std::size_t>(number)];
  const RecordFile& file = files_[at.file];
  const RecordText& text = file.records()[at.record];
  const Place place = file.place(text);
  return read_record(parse_json(text.json, place), forms_[at.file], place, options);
}

TuningFiles::Encoded TuningFiles::encode(std::int64_t begin, std::int64_t end, const Encoding& how) const {
  const RecordOptions options{.roles = how.text.chat_template.has_value(), .score = how.scores};
  WorkerPool pool(how.threads);
  std::vector<std::unique_ptr<SampleEncoder>> encoders(static_cast<std::size_t>(pool.size()));
  std::vector<Harvest> harvests(
      static_cast<std::size_t>((end - begin + kRecordsPerTask - 1) / kRecordsPerTask));
  pool.run(static_cast<std::int64_t>(harvests.size()), [&](std::int64_t task, int worker) {
    require<Interrupted>(!how.stop.stop_requested(), "interrupted while the data was read");
    auto& encoder = encoders[static_cast<std::size_t>(worker)];
    if (!encoder) encoder = std::make_unique<SampleEncoder>(how.tokenizer, how.text, how.longest);
    Harvest& harvest = harvests[static_cast<std::size_t>(task)];
    const std::int64_t from = begin + task * kRecordsPerTask, to = std::min(end, from + kRecordsPerTask);
    for (std::int64_t i = from; i < to; ++i) {
      try {
        const Record read = record(i, options);
        require<DataError>(read.compared.empty(), "{}: texts to be compared, expected one that is continued",
                           read.place.text());
        encoder->encode(read, i - begin, harvest.samples);
      } catch (const DataError& error) {
        harvest.faults.emplace_back(error.what());
      }
    }
  });
  Encoded out;
  for (Harvest& harvest : harvests) {
    std::move(harvest.faults.begin(), harvest.faults.end(), std::back_inserter(out.skipped));
    std::move(harvest.samples.begin(), harvest.samples.end(), std::back_inserter(out.files.samples));
  }
  require_all(out.skipped, end - begin);
  for (std::int64_t i = begin; i < end; ++i) {
    const At at = places_[static_cast<std::size_t>(i)];
    out.files.records.push_back(files_[at.file].place(files_[at.file].records()[at.record]));
  }
  for (const auto& encoder : encoders) {
    if (!encoder) continue;
    out.counts += encoder->counts();
    out.turn_ends.insert(encoder->turn_ends().begin(), encoder->turn_ends().end());
  }
  return out;
}

void TuningFiles::require_all(const std::vector<std::string>& faults, std::int64_t records) const {
  require<DataError>(faults.empty() || bad_ == Bad::kSkipped,
                     "{}\n({} of {} records cannot be used; --skip-bad-records, or "
                     "model.data.skip_bad_records=true, leaves them out)",
                     list_faults(faults), faults.size(), records);
}

std::vector<TuningFiles::Compared> TuningFiles::compared(std::int64_t begin, std::int64_t end,
                                                         std::vector<std::string>& skipped,
                                                         const std::stop_token& stop) const {
  std::vector<Compared> out;
  std::vector<std::string> faults;
  for (std::int64_t i = begin; i < end; ++i) {
    require<Interrupted>(!stop.stop_requested(), "interrupted while the data was read");
    try {
      Record read = record(i, {});
      if (!out.empty() && out.front().texts.size() != read.compared.size())
        fail<DataError>("{}: {} texts, {} has {}: every record needs as many negatives", read.place.text(),
                        read.compared.size(), out.front().place.text(), out.front().texts.size());
      out.push_back({std::move(read.compared), std::move(read.place)});
    } catch (const DataError& error) {
      faults.emplace_back(error.what());
    }
  }
  require_all(faults, end - begin);
  skipped.insert(skipped.end(), faults.begin(), faults.end());
  return out;
}

std::vector<std::string> TuningFiles::questions(std::int64_t begin, std::size_t count, bool roles) const {
  std::vector<std::string> out;
  for (std::int64_t i = begin; i < records() && out.size() < count; ++i) {
    std::optional<Record> read;
    try {
      read = record(i, {.roles = roles});
    } catch (const DataError&) {
      continue;  // encode() reports it
    }
    const Record& found = *read;
    if (!found.compared.empty()) continue;
    if (const auto* text = std::get_if<Continuation>(&found.text)) {
      if (!text->prompt.empty()) out.push_back(text->prompt);
      continue;
    }
    for (const Json& message : std::get<Conversation>(found.text).messages)
      if (message["role"] == "user") {
        out.push_back(message["content"].get<std::string>());
        break;
      }
  }
  return out;
}

std::string list_faults(const std::vector<std::string>& faults) {
  const std::size_t shown = std::min(faults.size(), kShownFaults);
  std::string out;
  for (std::size_t i = 0; i < shown; ++i) out += (i > 0 ? "\n" : "") + faults[i];
  if (shown < faults.size()) out += fmt::format("\nand {} more", faults.size() - shown);
  return out;
}

std::vector<std::string> describe(const EncodingCounts& counts, std::int64_t longest) {
  std::vector<std::string> out;
  const auto add = [&](std::int64_t count, std::string_view what) {
    if (count > 0) out.push_back(fmt::format("{} {}", count, what));
  };
  const std::string limit = fmt::format("{} tokens", longest);
  add(counts.shortened, fmt::format("chats have more than {}: their last turns are left out", limit));
  add(counts.too_long, fmt::format("samples are left out: they do not fit into {}", limit));
  add(counts.split, fmt::format("texts have more than {}: they are several samples", limit));
  add(counts.untrained, "chats are left out: no answer of theirs has weight 1");
  add(counts.rewritten,
      "chats are a sample per answer: the chat template writes earlier turns differently from the last");
  add(counts.other_header,
      "answers begin otherwise than the generation prompt of the chat template: they are trained from where "
      "the two part");
  return out;
}

void add_mismatched(std::vector<EncodedSample>& samples, std::int64_t longest) {
  const auto answer_of = [](const EncodedText& text) {
    return static_cast<std::size_t>(std::find(text.trained.begin(), text.trained.end(), 1) -
                                    text.trained.begin());
  };
  std::vector<EncodedText> mismatched;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const EncodedText &own = samples[i].text,
                      &other = samples[(i + samples.size() - 1) % samples.size()].text;
    const std::size_t mine = answer_of(own), theirs = answer_of(other);
    const auto room = static_cast<std::size_t>(std::max<std::int64_t>(0, longest - own.size()));
    EncodedText text;
    const std::size_t length = std::min(other.tokens.size() - theirs, room > mine ? room - mine : 0);
    if (samples.size() > 1 && length > 0) {
      const auto part = [](auto& to, const auto& from, std::size_t begin, std::size_t count) {
        to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
                  from.begin() + static_cast<std::ptrdiff_t>(begin + count));
      };
      part(text.tokens, own.tokens, 0, mine);
      part(text.tokens, other.tokens, theirs, length);
      part(text.trained, own.trained, 0, mine);
      part(text.trained, other.trained, theirs, length);
    }
    mismatched.push_back(std::move(text));
  }
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!mismatched[i].tokens.empty()) samples[i].rejected = std::move(mismatched[i]);
}

}  // namespace stoa::tune
