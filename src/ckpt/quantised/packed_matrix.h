// Matrices that Hugging Face directories hold as packed numbers with scales.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"

namespace stoa::ckpt {

// [rows, columns] as in the floating-point model: outputs, inputs.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  PackedMatrix(const PackedMatrix&) = delete;
  PackedMatrix& operator=(const PackedMatrix&) = delete;

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  // In which the reference implementation computes the values; they are rounded to it once.
  StorageType type() const { return type_; }
  // Names of all its tensors.
  const std::vector<std::string>& tensors() const { return tensors_; }

  // Rows [begin, end) to `out`, dense.
  virtual void decode(std::int64_t begin, std::int64_t end, float* out) const = 0;

 protected:
  PackedMatrix(std::int64_t rows, std::int64_t columns, StorageType type, std::vector<std::string> tensors)
      : rows_(rows), columns_(columns), type_(type), tensors_(std::move(tensors)) {}

 private:
  const std::int64_t rows_, columns_;
  const StorageType type_;
  const std::vector<std::string> tensors_;
};

// The tensors of a matrix called `stem` ("model.layers.0.mlp.up_proj"), read as they are needed.
class MatrixTensors {
 public:
  // `type`: of values where no tensor says; `config`: quantization_config.
  MatrixTensors(const TensorSource& source, std::string stem, StorageType type, const nlohmann::json& config)
      : source_(source), stem_(std::move(stem)), type_(type), config_(config) {}

  const std::string& stem() const { return stem_; }
  StorageType type() const { return type_; }
  const nlohmann::json& config() const { return config_; }
  bool has(const char* name) const { return source_.find_entry(full(name)) != nullptr; }
  // Names of those of the given that are there, in full.
  std::vector<std::string> present(std::initializer_list<const char*> names) const;
  // DataError: not there.
  const TensorEntry& entry(const char* name) const { return source_.entry(full(name)); }
  // DataError: of another type or shape; -1 stands for any size.
  const TensorEntry& entry(const char* name, StorageType type,
                           std::initializer_list<std::int64_t> shape) const;
  std::vector<std::byte> bytes(const char* name) const;
  // Values of a floating-point tensor, FP8 included.
  std::vector<float> numbers(const char* name) const;
  std::vector<std::int32_t> integers(const char* name) const;  // I32 or I64
  [[noreturn]] void wrong(const char* name, std::string_view expected) const;

 private:
  std::string full(const char* name) const { return stem_ + "." + name; }

  const TensorSource& source_;
  const std::string stem_;
  const StorageType type_;
  const nlohmann::json& config_;
};

// Each in a file of its own, with its layout.
std::unique_ptr<PackedMatrix> open_gptq(const MatrixTensors& tensors);
std::unique_ptr<PackedMatrix> open_awq(const MatrixTensors& tensors);
std::unique_ptr<PackedMatrix> open_packed_integers(const MatrixTensors& tensors);  // compressed-tensors
std::unique_ptr<PackedMatrix> open_scaled_bytes(const MatrixTensors& tensors);     // int8 and FP8
std::unique_ptr<PackedMatrix> open_nvfp4(const MatrixTensors& tensors);
std::unique_ptr<PackedMatrix> open_bitsandbytes(const MatrixTensors& tensors);

}  // namespace stoa::ckpt
