// Matrix products by cuBLASLt. Descriptors and algorithms are made once per form of a product and kept.
#pragma once

#include <list>
#include <unordered_map>

#include "ops/cuda/libraries/cublaslt_api.h"
#include "ops/cuda/matmul.h"

namespace stoa::ops::cuda {

struct MatmulOptions {
  bool tf32 = false;           // fp32 products by TF32 tensor cores
  bool tune = false;           // time the best candidates on first use; not for runs that must repeat exactly
  bool deterministic = false;  // only algorithms whose partial sums have a fixed order and full precision
  std::size_t workspace = std::size_t{32} << 20;
};

class CublasLtMatmul final : public MatmulLibrary {
 public:
  explicit CublasLtMatmul(MatmulOptions options, CublasLtApi api = CublasLtApi::load());
  ~CublasLtMatmul() override;

  std::size_t workspace_bytes() const override { return options_.workspace; }
  void run(const char* op, const Matmul& matmul, void* stream, void* workspace) override;

  std::size_t version() const { return api_.version(); }
  const CublasLtApi& api() const { return api_; }
  std::size_t plans() const { return plans_.size(); }

  // What decides the algorithm. Alignments are the largest power of two up to 256 that divides an address.
  struct Key {
    bool transpose_a, transpose_b, bias, accumulate;
    Element operands, result;
    int scaled;  // types of 8-bit operands and whether sums may be short; 0: none
    int align_a, align_b, align_d;
    std::int64_t m, n, k, lda, ldb, ldd;
    bool operator==(const Key&) const = default;
  };
  static Key key_of(const Matmul& matmul);

 private:
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Plan {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  Plan& plan_for(const char* op, const Matmul& matmul, void* stream, void* workspace);
  void make_descriptors(const char* op, const Matmul& matmul, Plan& plan);
  void choose(const char* op, const Matmul& matmul, void* stream, void* workspace, Plan& plan);
  cublasStatus_t start(const Matmul& matmul, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                       float alpha, void* stream, void* workspace) const;
  float seconds(const Matmul& matmul, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm, void* stream,
                void* workspace) const;
  void check(cublasStatus_t status, const char* op, const Matmul& matmul, const char* what) const;

  const MatmulOptions options_;
  CublasLtApi api_;
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<Key, Plan, KeyHash> plans_;
};

}  // namespace stoa::ops::cuda
