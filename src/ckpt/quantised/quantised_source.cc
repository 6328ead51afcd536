#include "ckpt/quantised/quantised_source.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "ckpt/convert.h"

namespace stoa::ckpt {
namespace {

using Opener = std::unique_ptr<PackedMatrix> (*)(const MatrixTensors&);

// A matrix is known by one of its tensors: "….qweight".
struct Mark {
  std::string_view ending;
  StorageType type;
  Opener open;
};
constexpr std::array kMarks{Mark{"weight.quant_state.bitsandbytes__nf4", StorageType::kU8, open_bitsandbytes},
                            Mark{"weight.quant_state.bitsandbytes__fp4", StorageType::kU8, open_bitsandbytes},
                            Mark{"weight_packed", StorageType::kI32, open_packed_integers},
                            Mark{"weight_packed", StorageType::kU8, open_nvfp4},
                            Mark{"weight_scale_2", StorageType::kF32, open_nvfp4},
                            Mark{"weight", StorageType::kI8, open_scaled_bytes},
                            Mark{"weight", StorageType::kF8E4M3, open_scaled_bytes}};

// Scales of activations and of cached keys and values: nothing that weights need.
bool is_of_activations(std::string_view name) {
  return name.ends_with(".input_scale") || name.ends_with(".input_zero_point") ||
         name.ends_with(".k_scale") || name.ends_with(".v_scale") || name.ends_with(".output_scale") ||
         name.ends_with(".input_global_scale");
}

std::string method_of(const nlohmann::json& config) {
  const auto found = config.find("quant_method");
  if (found != config.end() && found->is_string()) return found->get<std::string>();
  return config.value("load_in_4bit", false) || config.value("load_in_8bit", false) ? "bitsandbytes" : "";
}

Opener opener_of(const TensorEntry& tensor, const std::string& method, std::string& stem) {
  const auto named = [&](std::string_view ending) {
    if (!tensor.name.ends_with(ending) || tensor.name.size() <= ending.size()) return false;
    if (tensor.name[tensor.name.size() - ending.size() - 1] != '.') return false;
    stem = tensor.name.substr(0, tensor.name.size() - ending.size() - 1);
    return true;
  };
  if (named("qweight")) return method == "awq" ? open_awq : open_gptq;
  for (const Mark& mark : kMarks)
    if (tensor.type == mark.type && named(mark.ending)) return mark.open;
  return nullptr;
}

}  // namespace

bool reads_quantisation(const nlohmann::json& config) {
  constexpr std::array kMethods{"gptq",         "awq",     "compressed-tensors", "fp8", "fbgemm_fp8",
                                "bitsandbytes", "modelopt"};
  const std::string method = method_of(config);
  return std::any_of(kMethods.begin(), kMethods.end(), [&](const char* known) { return method == known; });
}

QuantisedSource::QuantisedSource(std::unique_ptr<TensorSource> stored, nlohmann::json config,
                                 StorageType type)
    : TensorSource(stored->directory()), stored_(std::move(stored)), config_(std::move(config)), type_(type) {
  const std::string method = method_of(config_);
  std::set<std::string, std::less<>> used;
  for (const TensorEntry* tensor : stored_->entries()) {
    std::string stem;
    const Opener opener = opener_of(*tensor, method, stem);
    if (!opener) continue;
    const Packed packed{stem, opener};
    const auto matrix = open(packed);  // which checks that its tensors fit
    used.insert(matrix->tensors().begin(), matrix->tensors().end());
    TensorEntry entry;
    entry.name = stem + ".weight";
    entry.type = matrix->type();
    entry.shape = {matrix->rows(), matrix->columns()};
    if (packed_.emplace(entry.name, packed).second) entries_.push_back(std::move(entry));
  }
  for (const TensorEntry* tensor : stored_->entries())
    if (!used.contains(tensor->name) && !is_of_activations(tensor->name)) entries_.push_back(*tensor);
  std::vector<const TensorEntry*> list;
  for (const TensorEntry& entry : entries_) list.push_back(&entry);
  set_entries(std::move(list));
}

std::unique_ptr<PackedMatrix> QuantisedSource::open(const Packed& packed) const {
  try {
    return packed.open(MatrixTensors(*stored_, packed.stem, type_, config_));
  } catch (const nlohmann::json::exception&) {
    fail<DataError>("{}: quantization_config has a value of the wrong type", directory().string());
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", directory().string(), error.what());
  }
}

std::span<const std::byte> QuantisedSource::elements(const TensorEntry& tensor, std::int64_t begin,
                                                     std::int64_t end,
                                                     std::vector<std::byte>& scratch) const {
  const auto found = packed_.find(tensor.name);
  if (found == packed_.end()) return stored_->elements(stored_->entry(tensor.name), begin, end, scratch);
  if (open_name_ != tensor.name) {
    open_matrix_ = open(found->second);
    open_name_ = tensor.name;
  }
  const PackedMatrix& matrix = *open_matrix_;
  const std::int64_t columns = matrix.columns(), first = begin / columns,
                     last = (end + columns - 1) / columns;
  std::vector<float> rows(static_cast<std::size_t>((last - first) * columns));
  matrix.decode(first, last, rows.data());
  const DType type = *memory_type(tensor.type);
  scratch.resize(static_cast<std::size_t>(end - begin) * stoa::size_of(type));
  convert_elements(reinterpret_cast<const std::byte*>(rows.data() + (begin - first * columns)), DType::kF32,
                   scratch.data(), type, end - begin);
  return scratch;
}

}  // namespace stoa::ckpt
