// The calls to cuBLASLt, on functions of our own in its place: they read the descriptors as the library
// documents them, multiply on the host, and refuse what it would refuse.
#include "ops/cuda/libraries/cublaslt_matmul.h"

#include <cstring>

#include "ops/cuda/cuda_backend.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {
namespace {

using cuda::CublasLtApi, cuda::CublasLtMatmul, cuda::CudaBackend, cuda::MatmulOptions;

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t ld;
};
struct Desc {
  cublasComputeType_t compute;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, bias_type = -1;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  const float *a_scale = nullptr, *b_scale = nullptr;
  std::int8_t fast = 0;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = 0;
};

template <class T>
T& as(void* opaque) {
  return *static_cast<T*>(opaque);
}

bool is_8_bit(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

DType dtype_of_cuda(cudaDataType_t type) {
  if (is_8_bit(type)) return type == CUDA_R_8F_E4M3 ? DType::kE4M3 : DType::kE5M2;
  return type == CUDA_R_16BF ? DType::kBF16 : type == CUDA_R_16F ? DType::kF16 : DType::kF32;
}

// Column-major matrix as rows of columns.
TensorView view(const void* data, const Layout& layout) {
  TensorView out(const_cast<void*>(data), dtype_of_cuda(layout.type),
                 {static_cast<std::int64_t>(layout.columns), static_cast<std::int64_t>(layout.rows)});
  out.stride0 = layout.ld;
  return out;
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(std::uintptr_t{8});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* status_name(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "some status";
}

cublasStatus_t desc_create(cublasLtMatmulDesc_t* out, cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *out = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_destroy(cublasLtMatmulDesc_t desc) {
  delete reinterpret_cast<Desc*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_set(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t attribute,
                        const void* value, size_t bytes) {
  Desc& desc = as<Desc>(opaque);
  const auto copy = [&](auto& to) {
    if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return copy(desc.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return copy(desc.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return copy(desc.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return copy(desc.bias_type);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return copy(desc.bias);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return copy(desc.a_scale);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return copy(desc.b_scale);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return copy(desc.fast);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t layout_create(cublasLtMatrixLayout_t* out, cudaDataType_t type, std::uint64_t rows,
                             std::uint64_t columns, std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_destroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_create(cublasLtMatmulPreference_t* out) {
  *out = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_destroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_set(cublasLtMatmulPreference_t opaque,
                              cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                              size_t bytes) {
  Preference& preference = as<Preference>(opaque);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) std::memcpy(&preference.workspace, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    std::memcpy(&preference.reductions, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// The algorithm carries what the heuristic was asked, so that matmul() can hold it against what it is given.
struct Algorithm {
  std::uint64_t workspace;
  std::uint32_t reductions;
};

// What the documentation of cublasLtMatmul() asks of 8-bit operands before Blackwell.
bool takes_8_bits(const Desc& desc, const Layout& a, const Layout& b, const Layout& d) {
  const bool pair = !(a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2),
             layouts = desc.transpose_a == CUBLAS_OP_T && desc.transpose_b == CUBLAS_OP_N,
             lengths =
                 a.ld % 16 == 0 && b.ld % 16 == 0 && d.ld % 8 == 0 && a.rows % 16 == 0 && a.columns % 16 == 0,
             scales = desc.a_scale && desc.b_scale;
  const auto bias = d.type == CUDA_R_32F ? CUDA_R_16BF : d.type;
  return is_8_bit(b.type) && pair && layouts && lengths && scales &&
         (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || desc.bias_type == bias);
}

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t opaque, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                         cublasLtMatmulPreference_t preference, int wanted,
                         cublasLtMatmulHeuristicResult_t results[], int* found) {
  const Desc& desc = as<Desc>(opaque);
  const Layout &la = as<Layout>(a), &lb = as<Layout>(b), &ld = as<Layout>(d);
  const bool same_d = c == d;
  const auto a_rows = desc.transpose_a == CUBLAS_OP_T ? la.columns : la.rows,
             a_k = desc.transpose_a == CUBLAS_OP_T ? la.rows : la.columns;
  const auto b_columns = desc.transpose_b == CUBLAS_OP_T ? lb.rows : lb.columns,
             b_k = desc.transpose_b == CUBLAS_OP_T ? lb.columns : lb.rows;
  const bool shapes = a_rows == ld.rows && b_columns == ld.columns && a_k == b_k;
  const bool eight = is_8_bit(la.type);
  const bool types = eight ? takes_8_bits(desc, la, lb, ld)
                           : la.type == lb.type && (ld.type == la.type || ld.type == CUDA_R_32F);
  const bool bias = eight || desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                    (desc.epilogue == CUBLASLT_EPILOGUE_BIAS && desc.bias_type == ld.type && desc.bias);
  if (!same_d || !shapes || !types || !bias || wanted < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  const Algorithm algorithm{as<Preference>(preference).workspace, as<Preference>(preference).reductions};
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t opaque, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                      const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                      cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                      size_t workspace_bytes, cudaStream_t) {
  const Desc& desc = as<Desc>(opaque);
  Algorithm algorithm{};
  std::memcpy(&algorithm, algo, sizeof algorithm);
  if (c != d || c_layout != d_layout || workspace_bytes < algorithm.workspace ||
      reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  const Values va = load(view(a, as<Layout>(a_layout))), vb = load(view(b, as<Layout>(b_layout)));
  const Layout &la = as<Layout>(a_layout), &lb = as<Layout>(b_layout), &ld = as<Layout>(d_layout);
  const TensorView out = view(d, ld);
  const float scale =
                  *static_cast<const float*>(alpha) * (desc.a_scale ? *desc.a_scale * *desc.b_scale : 1.0f),
              keep = *static_cast<const float*>(beta);
  Values result(ld.rows * ld.columns), before(result.size());
  if (keep != 0) before = load(out);
  const bool ta = desc.transpose_a == CUBLAS_OP_T, tb = desc.transpose_b == CUBLAS_OP_T;
  const std::uint64_t k = ta ? la.rows : la.columns;
  Values bias;
  if (desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
    bias = load(TensorView(const_cast<void*>(desc.bias),
                           dtype_of_cuda(static_cast<cudaDataType_t>(desc.bias_type)),
                           {static_cast<std::int64_t>(ld.rows)}));
  for (std::uint64_t j = 0; j < ld.columns; ++j)
    for (std::uint64_t i = 0; i < ld.rows; ++i) {
      double sum = 0;
      for (std::uint64_t p = 0; p < k; ++p)
        sum += va[ta ? i * la.rows + p : p * la.rows + i] * vb[tb ? p * lb.rows + j : j * lb.rows + p];
      result[j * ld.rows + i] = static_cast<double>(scale) * sum +
                                static_cast<double>(keep) * before[j * ld.rows + i] +
                                (bias.empty() ? 0 : bias[i]);
    }
  store(result, out);
  return CUBLAS_STATUS_SUCCESS;
}

CublasLtApi fake() {
  CublasLtApi api;
  api.create = create, api.destroy = destroy, api.status_name = status_name;
  api.version = [] { return size_t{130100}; };
  api.matmul = matmul, api.heuristic = heuristic;
  api.desc_create = desc_create, api.desc_destroy = desc_destroy, api.desc_set = desc_set;
  api.layout_create = layout_create, api.layout_destroy = layout_destroy;
  api.preference_create = preference_create, api.preference_destroy = preference_destroy;
  api.preference_set = preference_set;
  return api;
}

TEST(CublasLtMatmul, LinearLayersThroughItsDescriptors) {
  const auto library = std::make_shared<CublasLtMatmul>(MatmulOptions{}, fake());
  CudaBackend backend(library, nullptr, DeviceKind::kHost);
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(name_of(type));
    Tensors t;
    const std::int64_t tokens = 19, k = 24, n = 40, gap = 8;
    const TensorView x = t.random(type, {tokens, k}, 1, gap), w = t.random(type, {n, k}),
                     dy = t.random(type, {tokens, n}, 1, gap);
    for (DType out : {type, DType::kF32}) {
      expect_like_reference(backend, LinearForward{x, w, {}, t.empty(out, {tokens, n}, gap)});
      // A bias of another type than the output is rounded by a kernel first: not here, where there is no GPU.
      if (out != DType::kF32) continue;
      expect_like_reference(backend,
                            LinearForward{x, w, t.random(DType::kF32, {n}), t.empty(out, {tokens, n}, gap)});
    }
    for (const bool accumulate : {false, true}) {
      expect_like_reference(backend,
                            LinearBackwardInput{dy, w, t.random(type, {tokens, k}, 1, gap), accumulate},
                            {64, accumulate ? type : DType::kF64, 2});
      expect_like_reference(backend,
                            LinearBackwardWeight{x, dy, t.random(DType::kF32, {n, k}), {}, accumulate});
    }
    t.expect_guards();
  }
}

TEST(CublasLtMatmul, ProductsOfEightBitsThroughItsDescriptors) {
  const auto library = std::make_shared<CublasLtMatmul>(MatmulOptions{}, fake());
  CudaBackend backend(library, nullptr, DeviceKind::kHost);
  const std::int64_t tokens = 19, k = 32, n = 48;
  for (DType type : {DType::kE4M3, DType::kE5M2})
    for (DType out : {DType::kF32, DType::kBF16, DType::kF16})
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(fmt::format("{} -> {}{}", name_of(type), name_of(out), accumulate ? " accumulate" : ""));
        Tensors t;
        const TensorView a = t.random(type, {tokens, k}, 9), b = t.random(DType::kE4M3, {n, k}, 9);
        // The second finds the plan of the first, with factors elsewhere.
        for (const double factor : {0.25, 0.01})
          expect_like_reference(
              backend,
              ScaledProduct{.a = a,
                            .b = b,
                            .inverse_a = t.of(DType::kF32, {1}, {factor}),
                            .inverse_b = t.of(DType::kF32, {1}, {3 * factor}),
                            .bias = {},
                            .out = accumulate ? t.random(out, {tokens, n}) : t.empty(out, {tokens, n}),
                            .accumulate = accumulate,
                            .fast = !accumulate},
              {64, accumulate ? out : DType::kF64, 2});
        t.expect_guards();
      }
}

TEST(CublasLtMatmul, FormsOfEightBitsHavePlansOfTheirOwn) {
  const auto key = [](DType a, DType b, bool fast) {
    ScaledProduct op;
    op.a = TensorView(nullptr, a, {16, 16}), op.b = TensorView(nullptr, b, {16, 16});
    op.inverse_a = op.inverse_b = TensorView(nullptr, DType::kF32, {1});
    op.out = TensorView(nullptr, DType::kBF16, {16, 16});
    op.fast = fast;
    return CublasLtMatmul::key_of(cuda::matmul_of(op));
  };
  const auto plain = key(DType::kE4M3, DType::kE4M3, false);
  EXPECT_TRUE(plain == key(DType::kE4M3, DType::kE4M3, false));
  EXPECT_FALSE(plain == key(DType::kE4M3, DType::kE4M3, true));
  EXPECT_FALSE(plain == key(DType::kE5M2, DType::kE4M3, false));
  EXPECT_FALSE(key(DType::kE4M3, DType::kE5M2, false) == key(DType::kE5M2, DType::kE4M3, false));
  Tensors t;
  const LinearForward wide{
      t.zeros(DType::kBF16, {16, 16}), t.zeros(DType::kBF16, {16, 16}), {}, t.zeros(DType::kBF16, {16, 16})};
  EXPECT_FALSE(plain == CublasLtMatmul::key_of(cuda::matmul_of(wide)));
}

TEST(CublasLtMatmul, AFormOfAProductIsPlannedOnce) {
  CublasLtMatmul library(MatmulOptions{}, fake());
  Tensors t;
  const auto run = [&](std::int64_t tokens, const TensorView& bias) {
    const LinearForward op{t.random(DType::kBF16, {tokens, 16}), t.random(DType::kBF16, {8, 16}), bias,
                           t.empty(DType::kBF16, {tokens, 8})};
    cuda::Matmul matmul = cuda::matmul_of(op);
    matmul.bias = bias.data;
    const AlignedBytes workspace(512);
    library.run(
        "test", matmul, nullptr,
        reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 255) / 256 * 256));
  };
  // Addresses of tests are not all aligned alike, so more than one form may come of one shape, but never one
  // per call.
  for (int i = 0; i < 20; ++i) run(4, {});
  const std::size_t one = library.plans();
  EXPECT_LE(one, 8u);
  run(5, {});
  EXPECT_GT(library.plans(), one);
}

TEST(CublasLtMatmul, RefusalsNameTheOperation) {
  CublasLtApi api = fake();
  api.heuristic = [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                     cublasLtMatmulHeuristicResult_t*, int*) { return CUBLAS_STATUS_NOT_SUPPORTED; };
  CudaBackend backend(std::make_shared<CublasLtMatmul>(MatmulOptions{}, api), nullptr, DeviceKind::kHost);
  Tensors t;
  const LinearForward op{
      t.random(DType::kF32, {3, 5}), t.random(DType::kF32, {7, 5}), {}, t.empty(DType::kF32, {3, 7})};
  try {
    run_on(backend, op);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("linear forward: choice of an algorithm of a product 7 x 3 x 5"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace stoa::ops::testing
