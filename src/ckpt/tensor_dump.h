// Dumps of the tensors of training steps, so that two runs can be compared tensor by tensor: safetensors and
// an index in JSON lines per rank. docs/tensor-dumps.md describes the format for other programs.
//
// Every record is a box of a whole, canonical tensor. Activations are matrices [tokens of the step,
// channels]: token t of row r of the step's global batch is row r * length + t. So runs can be compared whose
// layouts and microbatches divide the same tensors into different boxes.
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

// In the order in which a step computes them.
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
  double scale = 1;                                // true values times this are stored (loss scaling)
  std::string file, key;                           // relative to the dump; name within the file
  int rank = 0;                                    // of the index that lists it
  std::int64_t order = 0;                          // line in the index

  std::int64_t elements() const;
};

// The first line of an index.
struct DumpHeader {
  int rank = 0, ranks = 1;
  std::string layout;            // "TP1 PP1 DP1", for people
  std::string compute = "fp32";  // type of the GEMMs, whose rounding matters
  std::string writer;
  std::int64_t layers = 0;
  std::int64_t length = 0;  // tokens per row, to name samples and positions; 0: unknown
};

// The last line of a step: without it the step is incomplete.
struct DumpStepEnd {
  std::int64_t step = 0, tensors = 0;
  std::optional<double> loss, rate;  // mean loss, learning rate of the update
};

// Writes one rank's part. Tensors are collected into files of some megabytes; a line of the index is written
// after the file to which it refers. IoError: cannot write. Not thread-safe.
class DumpWriter {
 public:
  // Begins a new index, which replaces that of an older dump of this rank in `directory`.
  DumpWriter(fs::path directory, DumpHeader header);
  ~DumpWriter();

  const DumpHeader& header() const { return header_; }
  // `bytes`: record.shape elements of record.type, row-major. Fills in file, key, rank and order.
  void add(DumpRecord record, std::vector<std::byte> bytes);
  void end_step(const DumpStepEnd& end);  // everything is on disk when it returns

 private:
  void flush();

  const fs::path directory_;
  const DumpHeader header_;
  std::ofstream index_;
  std::vector<std::pair<DumpRecord, std::vector<std::byte>>> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::int64_t step_ = 0, written_ = 0, files_ = 0;  // of the current step
};

// A whole dump: the indices of all ranks are read and checked; tensors are memory-mapped on request.
class DumpReader {
 public:
  // Whether `directory` has an index. Checks only names.
  static bool exists(const fs::path& directory);

  // IoError: no dump there. DataError, with file and line: wrong format, a box outside its tensor, a missing
  // index of a rank.
  explicit DumpReader(fs::path directory);

  const fs::path& directory() const { return directory_; }
  const std::vector<DumpHeader>& headers() const { return headers_; }  // by rank
  std::vector<std::int64_t> steps() const;                             // completed by all ranks
  const std::vector<std::string>& notes() const { return notes_; }     // incomplete steps
  // The records of all ranks, rank by rank in the order of writing.
  const std::vector<DumpRecord>& records(std::int64_t step) const;
  std::optional<DumpStepEnd> end(std::int64_t step) const;  // of the lowest rank with loss or rate

  // The elements of a record, row-major. IoError, DataError: file or tensor missing or malformed.
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
