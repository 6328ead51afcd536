// Text -> token files, in parallel, in order: the result does not depend on the number of workers.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "data/provenance.h"
#include "data/text_reader.h"
#include "data/token_dtype.h"

namespace stoa::data {

// What preparation needs of a tokenizer; `cli` adapts one. Shared by all workers.
class DocumentEncoder {
 public:
  class Session {  // of one worker: may hold caches
   public:
    virtual ~Session() = default;
    virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) = 0;  // appends
  };
  virtual ~DocumentEncoder() = default;
  virtual std::unique_ptr<Session> session() const = 0;
  virtual std::int64_t vocabulary() const = 0;
  virtual std::int32_t eod_id() const = 0;  // -1: none
  virtual std::string fingerprint() const = 0;
};

struct PrepareOptions {
  std::vector<fs::path> inputs;
  fs::path output;  // PREFIX
  std::string json_key = "text";
  bool append_eod = true;
  bool split_sentences = false;  // every sentence is a sequence of its document
  int workers = 1;
  ReadOptions read;
};

struct PrepareResult {
  Provenance provenance;  // as written: counts and sources
  TokenDtype dtype = TokenDtype::kUint16;
  std::uint64_t text_bytes = 0;  // encoded, without JSON around it
  std::int64_t empty_documents = 0;
  std::int64_t single_documents = 0;  // of one sentence, with split_sentences
  double seconds = 0;
  double cpu_seconds = 0;         // of all threads together
  double worker_cpu_seconds = 0;  // of parsing, encoding, narrowing
};

// Memory: a few blocks of about 1 MB (or one document) per worker, and 12 bytes per document. Nothing is left
// behind when it throws: IoError, DataError (content, empty corpus), ConfigError, Interrupted (stop
// requested).
PrepareResult prepare(const PrepareOptions& options, const DocumentEncoder& encoder, Console& console,
                      const std::stop_token& stop = {});

struct EncoderRate {
  std::uint64_t text_bytes = 0;
  std::int64_t tokens = 0;
  double seconds = 0, cpu_seconds = 0;
};
// Reads all documents into memory, then encodes them in one thread with nothing else running: what
// preparation is measured against.
EncoderRate measure_encoder(const PrepareOptions& options, const DocumentEncoder& encoder);

}  // namespace stoa::data
