// What a run needs besides tensors to resume with identical results, and the manifest against which a
// checkpoint is verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
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
  std::vector<double> loss_scale;  // state of the dynamic loss scale, in its owner's order; finite
  std::string config_hash;
  std::string tokenizer_fingerprint;
  std::string layout;  // for display: "TP2 PP1 DP4"
  std::map<std::string, double>
      metrics;  // of this step: "val_loss"; non-finite values are not written to the file
  std::map<std::string, std::int64_t> counters;  // other counters
  // Numbers of samples for which each part of the training data was built, which determine their order
  // (train/training_data.h). Empty in older checkpoints.
  std::vector<std::int64_t> data_parts;
  struct Adam {
    double beta1 = 0, beta2 = 0, epsilon = 0;
  };
  std::optional<Adam> adam;  // of the steps done; none in older checkpoints
  // Settings that a resumed run is compared with: "model.seed" -> "1234".
  std::map<std::string, std::string> settings;
};

struct FileRecord {
  std::string path;  // within the checkpoint: "model/config.json"
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH3, or CRC-32 of a file whose parts several ranks checksummed
  bool crc = false;

  std::string checksum_text() const;  // hexadecimal
};

struct Manifest {
  static constexpr int kFormat = 2;  // a reader rejects newer ones; 1: all checksums are XXH3

  std::int64_t sequence = 0;  // numbers a run's checkpoints in order of writing: the newest has the highest
  TrainingState training;
  std::vector<FileRecord> files;
};

// JSON, followed by a checksum of its own content.
std::string manifest_text(const Manifest& manifest);
// DataError: damaged (the checksum differs), newer format, fields missing or of the wrong type, paths outside
// of the checkpoint.
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
