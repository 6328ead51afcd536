#include "ops/cuda/libraries/cublaslt_matmul.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace stoa::ops::cuda {

namespace {

constexpr int kCandidates = 8;

cudaDataType_t data_type(Element type) {
  switch (type) {
    case Element::kBF16:
      return CUDA_R_16BF;
    case Element::kF16:
      return CUDA_R_16F;
    case Element::kF64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

cudaDataType_t data_type(Float8 type) { return type == Float8::kE4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2; }
cudaDataType_t a_type(const Matmul& x) { return x.scaled ? data_type(x.scaled->a) : data_type(x.operands); }
cudaDataType_t b_type(const Matmul& x) { return x.scaled ? data_type(x.scaled->b) : data_type(x.operands); }

int code_of(const Matmul::Scaled& scaled) {
  return 8 | static_cast<int>(scaled.a) | static_cast<int>(scaled.b) << 1 |
         static_cast<int>(scaled.fast) << 2;
}

int alignment_of(const void* address) {
  int alignment = 256;
  while (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(alignment) != 0)
    alignment /= 2;
  return alignment;
}

}  // namespace

CublasLtApi CublasLtApi::load() {
  constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so"};
  CublasLtApi api;
  api.library = std::make_shared<DynamicLibrary>("cuBLASLt", kNames, true);
  const DynamicLibrary& library = *api.library;
  library.find(api.create, "cublasLtCreate");
  library.find(api.destroy, "cublasLtDestroy");
  library.find(api.version, "cublasLtGetVersion");
  library.find(api.status_name, "cublasLtGetStatusName");
  library.find(api.matmul, "cublasLtMatmul");
  library.find(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(api.desc_create, "cublasLtMatmulDescCreate");
  library.find(api.desc_destroy, "cublasLtMatmulDescDestroy");
  library.find(api.desc_set, "cublasLtMatmulDescSetAttribute");
  library.find(api.layout_create, "cublasLtMatrixLayoutCreate");
  library.find(api.layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.find(api.preference_create, "cublasLtMatmulPreferenceCreate");
  library.find(api.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.find(api.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  require<DeviceError>(api.version() / 10000 == CUBLAS_VER_MAJOR, "{} has version {}, expected {}.x",
                       library.path(), api.version(), CUBLAS_VER_MAJOR);
  return api;
}

CublasLtMatmul::CublasLtMatmul(MatmulOptions options, CublasLtApi api)
    : options_(options), api_(std::move(api)) {
  const cublasStatus_t status = api_.create(&handle_);
  require<DeviceError>(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt does not start: {}",
                       api_.status_name(status));
}

CublasLtMatmul::~CublasLtMatmul() {
  for (auto& [key, plan] : plans_) {
    api_.desc_destroy(plan.desc);
    for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.d}) api_.layout_destroy(layout);
  }
  api_.destroy(handle_);
}

void CublasLtMatmul::check(cublasStatus_t status, const char* op, const Matmul& x, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  fail<DeviceError>("cuda: {}: {} of a product {} x {} x {} (leading dimensions {}, {}, {}): {}{}", op, what,
                    x.m, x.n, x.k, x.lda, x.ldb, x.ldd, api_.status_name(status),
                    x.scaled ? "; FP8 GEMMs need a GPU with FP8 units (Ada, Hopper or later)" : "");
}

CublasLtMatmul::Key CublasLtMatmul::key_of(const Matmul& x) {
  return {x.transpose_a,
          x.transpose_b,
          x.bias != nullptr,
          x.beta != 0,
          x.operands,
          x.result,
          x.scaled ? code_of(*x.scaled) : 0,
          alignment_of(x.a),
          alignment_of(x.b),
          alignment_of(x.d),
          x.m,
          x.n,
          x.k,
          x.lda,
          x.ldb,
          x.ldd};
}

std::size_t CublasLtMatmul::KeyHash::operator()(const Key& k) const {
  std::size_t hash = 0;
  for (const std::int64_t value :
       {k.m, k.n, k.k, k.lda, k.ldb, k.ldd,
        std::int64_t{k.transpose_a} | std::int64_t{k.transpose_b} << 1 | std::int64_t{k.bias} << 2 |
            std::int64_t{k.accumulate} << 3 | static_cast<std::int64_t>(k.operands) << 4 |
            static_cast<std::int64_t>(k.result) << 8 | std::int64_t{k.scaled} << 48 |
            std::int64_t{k.align_a} << 12 | std::int64_t{k.align_b} << 24 | std::int64_t{k.align_d} << 36})
    hash = hash * 0x9e3779b97f4a7c15u + static_cast<std::size_t>(value);
  return hash;
}

void CublasLtMatmul::make_descriptors(const char* op, const Matmul& x, Plan& plan) {
  const bool tf32 = options_.tf32 && !x.scaled && x.operands == Element::kF32;
  check(api_.desc_create(&plan.desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        op, x, "description");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(api_.desc_set(plan.desc, attribute, &value, sizeof value), op, x, "description");
  };
  const std::int32_t transpose_a = x.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const std::int32_t transpose_b = x.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_a);
  set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_b);
  if (x.bias) {
    const std::uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    const std::int32_t type = data_type(x.bias_type());
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);  // heuristics look at its alignment
  }
  if (x.scaled) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, x.scaled->a_factor);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x.scaled->b_factor);
    const std::int8_t fast = x.scaled->fast;
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
  }
  const auto layout = [&](cublasLtMatrixLayout_t& out, cudaDataType_t type, std::int64_t rows,
                          std::int64_t columns, std::int64_t ld) {
    check(api_.layout_create(&out, type, static_cast<std::uint64_t>(rows),
                             static_cast<std::uint64_t>(columns), ld),
          op, x, "layout");
  };
  layout(plan.a, a_type(x), x.transpose_a ? x.k : x.m, x.transpose_a ? x.m : x.k, x.lda);
  layout(plan.b, b_type(x), x.transpose_b ? x.n : x.k, x.transpose_b ? x.k : x.n, x.ldb);
  layout(plan.d, data_type(x.result), x.m, x.n, x.ldd);
}

void CublasLtMatmul::choose(const char* op, const Matmul& x, void* stream, void* workspace, Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(api_.preference_create(&preference), op, x, "preference");
  struct Owner {
    const CublasLtApi& api;
    cublasLtMatmulPreference_t preference;
    ~Owner() { api.preference_destroy(preference); }
  } owner{api_, preference};
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(api_.preference_set(preference, attribute, &value, sizeof value), op, x, "preference");
  };
  const std::uint64_t bytes = options_.workspace;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
  const Key key = key_of(x);
  const auto a = static_cast<std::uint32_t>(key.align_a), b = static_cast<std::uint32_t>(key.align_b),
             d = static_cast<std::uint32_t>(key.align_d);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d);
  // Partial sums rounded to 16 bits would lose what fp32 accumulation is for.
  const std::uint32_t reductions =
      options_.deterministic ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                             : CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);

  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int found = 0;
  const int wanted = options_.tune ? kCandidates : 1;
  check(api_.heuristic(handle_, plan.desc, plan.a, plan.b, plan.d, plan.d, preference, wanted, results.data(),
                       &found),
        op, x, "choice of an algorithm");
  require<DeviceError>(found > 0, "cuda: {}: cuBLASLt has no algorithm for a product {} x {} x {}", op, x.m,
                       x.n, x.k);
  plan.algorithm = results[0].algo;
  if (!options_.tune || found == 1) return;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture) != cudaSuccess ||
      capture != cudaStreamCaptureStatusNone)
    return;  // nothing can be timed inside a recording
  float best = -1;
  for (int i = 0; i < found; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    const float time = seconds(x, plan, results[i].algo, stream, workspace);
    if (time >= 0 && (best < 0 || time < best)) {
      best = time;
      plan.algorithm = results[i].algo;
    }
  }
}

cublasStatus_t CublasLtMatmul::start(const Matmul& x, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                     float alpha, void* stream, void* workspace) const {
  if (x.bias) {
    const cublasStatus_t status =
        api_.desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &x.bias, sizeof x.bias);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  if (x.scaled) {
    for (const auto& [attribute, factor] :
         {std::pair(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, x.scaled->a_factor),
          std::pair(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x.scaled->b_factor)}) {
      const cublasStatus_t status = api_.desc_set(plan.desc, attribute, &factor, sizeof factor);
      if (status != CUBLAS_STATUS_SUCCESS) return status;
    }
  }
  return api_.matmul(handle_, plan.desc, &alpha, x.a, plan.a, x.b, plan.b, &x.beta, x.d, plan.d, x.d, plan.d,
                     &algorithm, workspace, options_.workspace, static_cast<cudaStream_t>(stream));
}

// Median of a few runs; below 0 where the algorithm does not run. What is accumulated into stays as it is:
// the product counts with the smallest normal factor.
float CublasLtMatmul::seconds(const Matmul& x, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                              void* stream, void* workspace) const {
  const float alpha = x.beta == 0 ? 1.0f : 0x1p-126f;
  auto* queue = static_cast<cudaStream_t>(stream);
  cudaEvent_t begin = nullptr, end = nullptr;
  if (cudaEventCreate(&begin) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess) return -1;
  std::array<float, 5> times{};
  bool ran = true;
  for (std::size_t i = 0; ran && i <= times.size(); ++i) {
    float milliseconds = 0;
    ran = cudaEventRecord(begin, queue) == cudaSuccess &&
          start(x, plan, algorithm, alpha, stream, workspace) == CUBLAS_STATUS_SUCCESS &&
          cudaEventRecord(end, queue) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
          cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess;
    if (i > 0) times[i - 1] = milliseconds;  // the first warms up
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  if (!ran) {
    (void)cudaGetLastError();
    return -1;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

CublasLtMatmul::Plan& CublasLtMatmul::plan_for(const char* op, const Matmul& x, void* stream,
                                               void* workspace) {
  const auto [found, is_new] = plans_.try_emplace(key_of(x));
  if (!is_new) return found->second;
  try {
    make_descriptors(op, x, found->second);
    choose(op, x, stream, workspace, found->second);
  } catch (...) {
    plans_.erase(found);
    throw;
  }
  return found->second;
}

void CublasLtMatmul::run(const char* op, const Matmul& x, void* stream, void* workspace) {
  const Plan& plan = plan_for(op, x, stream, workspace);
  check(start(x, plan, plan.algorithm, 1.0f, stream, workspace), op, x, "start");
}

}  // namespace stoa::ops::cuda
