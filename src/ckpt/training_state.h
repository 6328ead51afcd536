// What a run must know besides tensors to go on bit for bit, and the manifest that makes a checkpoint
// verifiable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::ckpt {

struct TrainingState {
  std::int64_t step = 0;     // optimizer steps done
  std::int64_t samples = 0;  // consumed, over all ranks
  std::int64_t tokens = 0;
  std::int64_t data_cursor = 0;  // next sample
  std::uint64_t seed = 0;
  std::vector<double> loss_scale;  // state of the dynamic loss scale; its owner knows the order; finite
  std::string config_hash;
  std::string tokenizer_fingerprint;
  std::string layout;  // for people: "TP2 PP1 DP4"
  std::map<std::string, double>
      metrics;  // of this step: "val_loss"; non-finite ones are left out of the file
  std::map<std::string, std::int64_t> counters;  // anything else that counts
  // Samples that each part of the training data was made for: their order follows from that (train/
  // training_data.h). Empty in checkpoints of before.
  std::vector<std::int64_t> data_parts;
  // What a run that goes on is held against: "model.seed" -> "1234".
  std::map<std::string, std::string> settings;
};

struct FileRecord {
  std::string path;  // within the checkpoint: "model/config.json"
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH3, or CRC-32 of a file whose parts several ranks summed up
  bool crc = false;

  std::string checksum_text() const;  // hexadecimal
};

struct Manifest {
  static constexpr int kFormat = 2;  // a reader refuses what is newer; 1: all checksums are XXH3

  std::int64_t sequence = 0;  // counts checkpoints of a run in order of writing: the newest has the highest
  TrainingState training;
  std::vector<FileRecord> files;
};

// JSON, closed by a checksum of its own content.
std::string manifest_text(const Manifest& manifest);
// DataError: damaged (the checksum differs), newer format, fields missing or of the wrong type, paths that
// leave the checkpoint.
Manifest parse_manifest(std::string_view text, std::string_view source);

// checkpoint/state/manifest.json
std::filesystem::path manifest_path(const std::filesystem::path& checkpoint);
Manifest read_manifest(const std::filesystem::path& checkpoint);

// Names of optimizer tensors, all fp32, by canonical parameter name.
inline constexpr std::string_view kStateStem = "optimizer";
std::string master_name(std::string_view parameter);  // "master/NAME"
std::string adam_m_name(std::string_view parameter);  // "adam.m/NAME"
std::string adam_v_name(std::string_view parameter);  // "adam.v/NAME"

}  // namespace stoa::ckpt
