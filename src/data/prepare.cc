#include "data/prepare.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>

#include "base/error.h"
#include "base/timing.h"
#include "data/indexed_writer.h"
#include "data/ordered_pipeline.h"
#include "data/sentences.h"

namespace stoa::data {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kInFlightBytes = std::size_t{256} << 20;

double cpu_seconds(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::vector<TextInput> describe_inputs(const PrepareOptions& options) {
  require<ConfigError>(!options.inputs.empty(), "no input files");
  std::vector<TextInput> inputs;
  for (const auto& path : options.inputs) inputs.push_back(describe_input(path, options.read));
  return inputs;
}

struct Encoded {
  std::vector<std::byte> stored;
  std::vector<std::int32_t> lengths;  // of sequences
  std::vector<std::int32_t> counts;   // of sequences per document
  std::uint64_t text_bytes = 0, position = 0;
  double cpu_seconds = 0;
};

// Parses and encodes blocks; one per worker.
class Encode {
 public:
  Encode(const PrepareOptions& options, const DocumentEncoder& encoder, TokenDtype dtype)
      : session_(encoder.session()),
        json_(options.json_key),
        eod_(options.append_eod ? encoder.eod_id() : -1),
        split_(options.split_sentences),
        vocabulary_(encoder.vocabulary()),
        dtype_(dtype) {}

  void operator()(const Block& block, Encoded& out) {
    const double start = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    out.stored.clear();
    out.lengths.clear();
    out.counts.clear();
    out.text_bytes = 0;
    // A document at a time, so that its ids are still in the cache when they are checked and stored.
    each_document(block, json_, [&](std::string_view text) {
      const std::size_t before = out.lengths.size();
      ids_.clear();
      if (!split_) add_sequence(text, out);
      for (const std::string_view sentence : split_ ? split_sentences(text) : std::vector<std::string_view>())
        add_sequence(sentence, out);
      if (eod_ >= 0 && !ids_.empty()) {
        ids_.push_back(eod_);
        ++out.lengths.back();
      }
      require<DataError>(ids_.size() <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
                         "'{}': a document of {} tokens is longer than the .idx format can represent",
                         block.input->path.string(), ids_.size());
      store(out.stored);
      out.counts.push_back(static_cast<std::int32_t>(out.lengths.size() - before));
      out.text_bytes += text.size();
    });
    out.position = block.position;
    out.cpu_seconds = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - start;
  }

 private:
  // The tokens of a text to ids_; a text without any is no sequence.
  void add_sequence(std::string_view text, Encoded& out) {
    const std::size_t before = ids_.size();
    session_->encode(text, ids_);
    if (ids_.size() > before) out.lengths.push_back(static_cast<std::int32_t>(ids_.size() - before));
  }
  void store(std::vector<std::byte>& to) const {
    // The sign bit tells of an id below zero or beyond the last: two operations, where a maximum takes four.
    const auto last = static_cast<std::uint32_t>(vocabulary_ - 1);
    std::uint32_t outside = 0;
    for (const std::int32_t id : ids_) {
      const auto bits = static_cast<std::uint32_t>(id);
      outside |= bits | (last - bits);
    }
    if (outside >> 31 != 0) {
      const auto wrong = std::find_if(ids_.begin(), ids_.end(),
                                      [&](std::int32_t id) { return id < 0 || id >= vocabulary_; });
      fail<InternalError>("the encoder gave id {} with a vocabulary of {}", *wrong, vocabulary_);
    }
    const std::size_t at = to.size();
    to.resize(at + ids_.size() * token_dtype_bytes(dtype_));
    store_tokens(dtype_, ids_.data(), to.data() + at, ids_.size());
  }

  std::unique_ptr<DocumentEncoder::Session> session_;
  JsonLines json_;
  const std::int32_t eod_;
  const bool split_;
  const std::int64_t vocabulary_;
  const TokenDtype dtype_;
  std::vector<std::int32_t> ids_;
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options, const DocumentEncoder& encoder, Console& console,
                      const std::stop_token& stop) {
  require<ConfigError>(options.workers >= 1, "{} workers; expected at least 1", options.workers);
  require<ConfigError>(!options.append_eod || encoder.eod_id() >= 0,
                       "the tokenizer has no end-of-document token (eos); prepare without one "
                       "(--no-append-eod) or name one in "
                       "its tokenizer_config.json");
  const auto start = Clock::now();
  const double cpu_start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  const std::vector<TextInput> inputs = describe_inputs(options);
  PrepareResult result;
  Provenance& about = result.provenance;
  double total = 0;
  for (const auto& input : inputs) {
    about.sources.push_back({input.path.filename().string(), input.bytes});
    total += static_cast<double>(input.bytes);
    if (input.form == TextForm::kJsonLines) about.json_key = options.json_key;
  }
  about.tokenizer_fingerprint = encoder.fingerprint();
  about.vocabulary = encoder.vocabulary();
  about.eod_id = encoder.eod_id();
  about.eod_appended = options.append_eod;
  result.dtype = token_dtype_for_vocabulary(encoder.vocabulary());

  IndexedWriter writer(options.output, result.dtype);
  std::deque<Encode> encoders;
  for (int w = 0; w < options.workers; ++w) encoders.emplace_back(options, encoder, result.dtype);
  Progress progress(console, "prepare", total, "B");
  BlockReader reader(inputs, options.read);
  OrderedPipeline<Block, Encoded> pipeline(options.workers, 2 * std::int64_t{options.workers} + 2,
                                           kInFlightBytes,
                                           [](const Block& block) { return block.text.size(); });
  pipeline.run(
      [&](Block& block) { return reader.next(block); },
      [&](int worker, Block& block, Encoded& out) { encoders[static_cast<std::size_t>(worker)](block, out); },
      [&](Encoded& out) {
        require<Interrupted>(!stop.stop_requested(), "interrupted; nothing was written");
        writer.add_documents(out.stored, out.lengths, out.counts);
        result.text_bytes += out.text_bytes;
        result.worker_cpu_seconds += out.cpu_seconds;
        result.empty_documents += std::count(out.counts.begin(), out.counts.end(), 0);
        if (options.split_sentences)
          result.single_documents += std::count(out.counts.begin(), out.counts.end(), 1);
        progress.update(static_cast<double>(out.position));
      });
  require<DataError>(writer.tokens() > 0, "the corpus is empty: {} files, {} documents, no tokens",
                     inputs.size(), writer.documents());
  about.documents = writer.documents();
  about.sequences = writer.sequences();
  about.tokens = writer.tokens();
  writer.commit(about);
  progress.finish();
  result.seconds = seconds_since(start);
  result.cpu_seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
  return result;
}

EncoderRate measure_encoder(const PrepareOptions& options, const DocumentEncoder& encoder) {
  const std::vector<TextInput> inputs = describe_inputs(options);
  BlockReader reader(inputs, options.read);
  JsonLines json(options.json_key);
  std::vector<std::string> documents;
  EncoderRate rate;
  for (Block block; reader.next(block);)
    each_document(block, json, [&](std::string_view text) {
      documents.emplace_back(text);
      rate.text_bytes += text.size();
    });
  const auto session = encoder.session();
  std::vector<std::int32_t> ids;
  const auto start = Clock::now();
  const double cpu_start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (const auto& text : documents) {
    ids.clear();
    session->encode(text, ids);
    rate.tokens += static_cast<std::int64_t>(ids.size());
  }
  rate.seconds = seconds_since(start);
  rate.cpu_seconds = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
  return rate;
}

}  // namespace stoa::data
