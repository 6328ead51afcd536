// Operations whose results are known: by the reference, or exact because all numbers are small and whole.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "ops/check/compare.h"
#include "ops/check/tensor_copies.h"
#include "ops/cuda/kernel_choice.h"

namespace stoa::ops::cuda {

// Parts of a backend, each with operations of its own.
enum class Part : std::uint8_t { kExperts, kFewTokens, kFewQueries };
inline constexpr std::array kParts{Part::kExperts, Part::kFewTokens, Part::kFewQueries};
// What is wrong with each; empty: nothing.
using Findings = std::array<std::string, kParts.size()>;

// Tensors are the host's. Device memory is an image of them, which goes there and comes back as one.
class KnownOperations {
 public:
  KnownOperations();
  // Computes all on the device, and notes in `findings` what differs. Products of few tokens only where their
  // own kernel is chosen: the library's may time its algorithms first.
  void run(Backend& backend, Device& device, const KernelChoice& kernels, Findings& findings) const;

 private:
  struct Piece {
    Part part;
    TensorView tensor;  // a result: as it should be
    std::string name;   // of a result
    bool exact = true;  // otherwise within:
    Tolerance tolerance = {};
    std::size_t offset = 0;
  };
  struct Step {
    Part part;
    std::function<std::size_t(const Backend&)> workspace;
    std::function<void(Backend&, DeviceKind, std::byte*, Resources)> run;
    std::function<void()> expect;  // writes the results
  };
  struct Text {
    std::int32_t queries, keys;
  };

  void add_experts(DType type);
  void add_few_tokens(DType type, DType result, std::int64_t tokens, std::int64_t columns);
  void add_few_queries(DType type, std::int64_t d, const std::vector<Text>& texts);
  template <class Op>
  void add(Part part, const std::string& name, const Op& op, bool exact, std::function<void()> expect);

  TensorView make(Part part, DType type, Shape shape);
  template <class Number>
  TensorView filled(Part part, DType type, Shape shape, std::int64_t rows, const Number& number);
  TensorView whole(Part part, DType type, Shape shape);
  TensorView sparse(Part part, DType type, Shape shape, std::int64_t rows);
  TensorView noise(Part part, DType type, Shape shape);
  TensorView integers(Part part, const std::vector<std::int32_t>& values, Shape shape);
  std::size_t piece_of(const TensorView& tensor) const;
  std::string difference(const Piece& piece, std::byte* got) const;

  std::uint32_t state_ = 1;
  std::vector<AlignedBytes> memory_;
  std::vector<Piece> pieces_;
  std::vector<Step> steps_;
  std::vector<std::byte> image_;
};

}  // namespace stoa::ops::cuda
