// Dumps of the tensors of training steps, so that two runs can be compared tensor by tensor: safetensors and
// one index of JSON lines per rank. docs/tensor-dumps.md describes the form for other writers.
//
// Every record is a box of a whole, canonical tensor. Activations are matrices [tokens of the step,
// channels]: token t of row r of the step's global batch is row r * length + t. So runs of different layouts,
// whose ranks and microbatches hold other boxes of the same tensors, can be compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/safetensors.h"

namespace stoa::ckpt {

namespace fs = std::filesystem;

inline constexpr const char* kDumpFolder = "dump";  // in a run directory

// In the order in which a step makes them.
enum class DumpPhase : std::uint8_t { kWeights, kForward, kBackward, kGradients };
std::string_view name_of(DumpPhase phase);  // "weights", "forward", "backward", "gradients"

struct DumpRecord {
  std::int64_t step = 0;  // from 1
  DumpPhase phase = DumpPhase::kForward;
  std::int64_t microbatch = -1;  // of the rank; -1: of the whole step (weights, gradients)
  std::int64_t layer = -1;       // global; -1: before the first, number of layers: after the last
  std::string tensor;            // "layers.3.attention.output"; of a backward pass: its gradient
  StorageType type = StorageType::kF32;
  std::vector<std::int64_t> global, begin, shape;  // whole tensor, first index and size of this box
  double scale = 1;                                // values are this times the true ones (loss scaling)
  std::string file, key;                           // relative to the dump; name within the file
  int rank = 0;                                    // of the index
  std::int64_t order = 0;                          // line of the index

  std::int64_t elements() const;
};

// The first line of an index.
struct DumpHeader {
  int rank = 0, ranks = 1;
  std::string layout;            // "TP1 PP1 DP1", for people
  std::string compute = "fp32";  // type of the products: rounding happens there
  std::string writer;
  std::int64_t layers = 0;
  std::int64_t length = 0;  // tokens per row, to name samples and positions; 0: not told
};

// The last line of a step: without it the step is unfinished.
struct DumpStepEnd {
  std::int64_t step = 0, tensors = 0;
  std::optional<double> loss, rate;  // mean loss, learning rate of the update
};

// One rank's part. Tensors are collected to files of some megabytes; a line of the index follows the file
// that it speaks of. IoError: cannot write. Not thread-safe.
class DumpWriter {
 public:
  // Begins a new index; what an older dump of this rank left in `directory` is no longer part of it.
  DumpWriter(fs::path directory, DumpHeader header);
  ~DumpWriter();

  const DumpHeader& header() const { return header_; }
  // `bytes`: record.shape elements of record.type, row-major. file, key, rank, order are filled in here.
  void add(DumpRecord record, std::vector<std::byte> bytes);
  void end_step(const DumpStepEnd& end);  // all is on disk when it returns

 private:
  void flush();

  const fs::path directory_;
  const DumpHeader header_;
  std::ofstream index_;
  std::vector<std::pair<DumpRecord, std::vector<std::byte>>> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::int64_t step_ = 0, written_ = 0, files_ = 0;  // of the current step
};

// A whole dump: all ranks' indices, read and checked; tensors are mapped when asked for.
class DumpReader {
 public:
  // Is there an index in `directory`? Looks at names only.
  static bool exists(const fs::path& directory);

  // IoError: no dump there. DataError, with file and line: not of this form, a box outside its tensor, an
  // index of a rank missing.
  explicit DumpReader(fs::path directory);

  const fs::path& directory() const { return directory_; }
  const std::vector<DumpHeader>& headers() const { return headers_; }  // by rank
  std::vector<std::int64_t> steps() const;                             // that every rank finished
  const std::vector<std::string>& notes() const { return notes_; }     // unfinished steps
  // Of all ranks, rank by rank in the order of writing.
  const std::vector<DumpRecord>& records(std::int64_t step) const;
  std::optional<DumpStepEnd> end(std::int64_t step) const;  // of the first rank that tells loss or rate

  // The elements of a record, row-major. IoError, DataError: file or tensor missing or of another form.
  std::span<const std::byte> bytes(const DumpRecord& record);

 private:
  void read_index(const fs::path& path);

  fs::path directory_;
  std::vector<DumpHeader> headers_;
  std::map<std::int64_t, std::vector<DumpRecord>> records_;
  std::map<std::int64_t, std::vector<DumpStepEnd>> ends_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::string> notes_;
};

}  // namespace stoa::ckpt
