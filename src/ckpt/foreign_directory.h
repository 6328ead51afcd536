// Training checkpoints of other programs, recognised by the names of their files (foreign/checkpoint reads
// them).
#pragma once

#include <filesystem>

namespace stoa::ckpt {

// In the folder of Megatron's checkpoints: names the newest.
inline constexpr const char* kMegatronTracker = "latest_checkpointed_iteration.txt";

// Begins the names of the folders of its older format.
inline constexpr const char* kRankFolder = "mp_rank_";
// Whether the directory has such folders.
bool holds_rank_folders(const std::filesystem::path& directory);

// In a .nemo archive of NeMo 1, or a folder unpacked from one: the model's keys.
inline constexpr const char* kNemoConfig = "model_config.yaml";
// In a checkpoint of NeMo 2, next to weights/: the model's classes and its tokenizer.
inline constexpr const char* kNemoContext = "context";

// In the folder of DeepSpeed's universal checkpoints: names the newest.
inline constexpr const char* kUniversalTracker = "latest_universal";
// In the folder of DeepSpeed's other checkpoints, likewise.
inline constexpr const char* kZeroTracker = "latest";
// Ends the names of the files with the partitions of its ZeRO.
inline constexpr const char* kZeroPartition = "_optim_states.pt";
// The folder with such partitions: the one that `latest` names, or `directory` itself; empty: there are none.
std::filesystem::path zero_folder(const std::filesystem::path& directory);

// Does `path` look like one of them? Looks at names and trackers only.
bool is_foreign_checkpoint(const std::filesystem::path& path);
// The same for who wants weights: not where it holds a model of Hugging Face's form, too.
bool holds_foreign_weights(const std::filesystem::path& path);

}  // namespace stoa::ckpt
