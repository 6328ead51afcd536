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

// Does `path` look like one of them? Looks at names only.
bool is_foreign_checkpoint(const std::filesystem::path& path);

}  // namespace stoa::ckpt
