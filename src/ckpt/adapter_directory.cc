#include "ckpt/adapter_directory.h"

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/torch/torch_directory.h"
#include "formats/gguf/gguf_file.h"

namespace stoa::ckpt {
namespace {

constexpr const char* kConfig = "adapter_config.json";

// base_model_name_or_path of adapter_config.json; "": not there.
std::string named_base(const fs::path& directory) {
  const auto json = nlohmann::json::parse(read_text(directory / kConfig), nullptr, false);
  require<DataError>(json.is_object(), "'{}' is not a JSON object", (directory / kConfig).string());
  // AdapterHub's key is the second.
  auto found = json.find("base_model_name_or_path");
  if (found == json.end()) found = json.find("model_name");
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// A directory, or a .gguf file.
bool can_be_base(const fs::path& path) {
  std::error_code ignored;
  return !path.empty() &&
         (gguf::is_gguf(path) || (fs::is_regular_file(path / "config.json", ignored) && holds_weights(path)));
}

}  // namespace

bool holds_adapter(const fs::path& directory) {
  std::error_code ignored;
  return fs::is_regular_file(directory / kConfig, ignored) &&
         (TensorDirectory::exists(directory, kAdapterStem) ||
          TensorDirectory::exists(directory, kBottleneckStem) ||
          torch::TorchDirectory::exists(directory, kAdapterStem) ||
          torch::TorchDirectory::exists(directory, kBottleneckTorchStem));
}

std::unique_ptr<TensorSource> open_adapter(const fs::path& directory) {
  for (const std::string_view stem : {kAdapterStem, kBottleneckStem})
    if (TensorDirectory::exists(directory, stem)) return std::make_unique<TensorDirectory>(directory, stem);
  for (const std::string_view stem : {kAdapterStem, kBottleneckTorchStem})
    if (torch::TorchDirectory::exists(directory, stem))
      return std::make_unique<torch::TorchDirectory>(directory, stem);
  return std::make_unique<TensorDirectory>(directory, kAdapterStem);
}

std::string adapter_base_text(const AdapterBase& base) {
  nlohmann::ordered_json json{{"path", base.path.string()}, {"tensors", base.checksum}};
  if (!base.labels.empty()) json["labels"] = base.labels;
  if (base.quantized != "none") json["quantized"] = base.quantized;
  return json.dump(2) + "\n";
}

std::optional<AdapterBase> read_adapter_base(const fs::path& directory) {
  const fs::path path = directory / kAdapterBase;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  require<DataError>(json.is_object() && json.contains("path") && json["path"].is_string() &&
                         json.contains("tensors") && json["tensors"].is_string(),
                     "'{}' is damaged: expected a path and a checksum", path.string());
  AdapterBase out{json["path"].get<std::string>(), json["tensors"].get<std::string>()};
  if (const auto found = json.find("quantized"); found != json.end()) {
    require<DataError>(found->is_string(), "'{}' is damaged: expected a text for quantized", path.string());
    out.quantized = found->get<std::string>();
  }
  for (const auto& label : json.value("labels", nlohmann::json::array())) {
    require<DataError>(label.is_string(), "'{}' is damaged: expected labels that are texts", path.string());
    out.labels.push_back(label.get<std::string>());
  }
  return out;
}

std::string tensors_checksum(const fs::path& directory) {
  constexpr std::int64_t kPiece = 1 << 22;  // elements
  const auto source = open_weights(directory);
  std::string sums;
  std::vector<std::byte> scratch;
  for (const TensorEntry* tensor : source->entries()) {
    sums += fmt::format("{} {} {}", tensor->name, name_of(tensor->type), tensor->shape_text());
    for (std::int64_t begin = 0; begin < tensor->elements(); begin += kPiece)
      sums += " " + checksum_text(checksum(source->elements(
                        *tensor, begin, std::min(tensor->elements(), begin + kPiece), scratch)));
    sums += '\n';
  }
  return checksum_text(checksum(std::string_view(sums)));
}

fs::path find_adapter_base(const fs::path& directory, const std::optional<fs::path>& given) {
  const auto recorded = read_adapter_base(directory);
  const std::string named = recorded ? recorded->path.string() : named_base(directory);
  fs::path base;
  for (const fs::path& path : {given.value_or(fs::path()), fs::path(named), directory / named})
    if (base.empty() && can_be_base(path)) base = path;
  require<DataError>(!base.empty(),
                     "'{}' is an adapter of '{}', which is no model here: give that model, and this "
                     "directory with --adapter",
                     directory.string(), named);
  if (recorded) {
    const std::string found = tensors_checksum(base);
    require<DataError>(
        found == recorded->checksum,
        "'{}' was trained on the model in '{}' (checksum of its tensors {}), and '{}' is another "
        "one ({})",
        directory.string(), recorded->path.string(), recorded->checksum, base.string(), found);
  }
  return base;
}

}  // namespace stoa::ckpt
