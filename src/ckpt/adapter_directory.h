// Directories that hold an adapter and no model: those of PEFT and of AdapterHub, and adapter/ of a
// checkpoint, which also says which model it was trained on.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/tensor_source.h"

namespace stoa::ckpt {

inline constexpr std::string_view kAdapterStem = "adapter_model";
// Of AdapterHub, whose files of PyTorch have another name.
inline constexpr std::string_view kBottleneckStem = "adapter", kBottleneckTorchStem = "pytorch_adapter";
inline constexpr const char* kAdapterBase = "base_model.json";

// adapter_config.json with adapter_model.safetensors or adapter_model.bin, or as AdapterHub has it
// adapter.safetensors or pytorch_adapter.bin; looks at names only.
bool holds_adapter(const fs::path& directory);
// IoError: no such files. DataError: damaged ones.
std::unique_ptr<TensorSource> open_adapter(const fs::path& directory);

// The model that an adapter belongs to.
struct AdapterBase {
  fs::path path;                         // its directory
  std::string checksum;                  // of its tensors, as tensors_checksum()
  std::vector<std::string> labels = {};  // of the head that the adapter gives it; none: it keeps its own
  // How the model was held while the adapter was trained: "int8", "nf4", "none".
  std::string quantized = "none";
};
// JSON, for a file kAdapterBase next to the adapter.
std::string adapter_base_text(const AdapterBase& base);
// None: the directory has no such file. DataError: it is damaged.
std::optional<AdapterBase> read_adapter_base(const fs::path& directory);

// The checksum of names, types, shapes and values of all weights of a model directory, however they are cut
// into files.
std::string tensors_checksum(const fs::path& directory);

// The directory of the model that the adapter in `directory` was trained on: where base_model.json or
// adapter_config.json says, if that is a directory here, or relative to the adapter. DataError: there is
// none; the message says how to name it. `given`: the base that a user names instead; then it is compared
// with the checksum, if there is one. DataError: another model.
fs::path find_adapter_base(const fs::path& directory, const std::optional<fs::path>& given = std::nullopt);

}  // namespace stoa::ckpt
