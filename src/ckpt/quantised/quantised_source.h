// A model's tensors where some matrices are quantised: these appear as what they stand for, under the name
// and shape that they have in the floating-point model.
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "ckpt/quantised/packed_matrix.h"

namespace stoa::ckpt {

// Whether quant_method of quantization_config is one of those that are read.
bool reads_quantisation(const nlohmann::json& config);

class QuantisedSource : public TensorSource {
 public:
  // `config`: quantization_config; `type`: of values where the files do not say. DataError: tensors that do
  // not fit each other.
  QuantisedSource(std::unique_ptr<TensorSource> stored, nlohmann::json config, StorageType type);

  std::size_t file_count() const override { return stored_->file_count(); }
  std::span<const std::byte> elements(const TensorEntry& tensor, std::int64_t begin, std::int64_t end,
                                      std::vector<std::byte>& scratch) const override;
  bool check_sums() const override { return stored_->check_sums(); }
  std::size_t packed_matrices() const { return packed_.size(); }

 private:
  using Opener = std::unique_ptr<PackedMatrix> (*)(const MatrixTensors&);
  struct Packed {
    std::string stem;
    Opener open;
  };
  std::unique_ptr<PackedMatrix> open(const Packed& packed) const;

  const std::unique_ptr<TensorSource> stored_;
  const nlohmann::json config_;
  const StorageType type_;
  std::map<std::string, Packed> packed_;  // by the name of the entry
  std::vector<TensorEntry> entries_;
  // The matrix that was read last: it is read in pieces, by one thread.
  mutable std::string open_name_;
  mutable std::unique_ptr<PackedMatrix> open_matrix_;
};

}  // namespace stoa::ckpt
