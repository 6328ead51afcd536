// The one file that sees cuDNN's frontend: it takes half a minute to compile. The frontend finds cuDNN's
// functions in the library that is opened here.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "ops/cuda/libraries/cudnn_attention.h"

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <cstring>  // the frontend uses it without including it
#include <list>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "device/dynamic_library.h"

// Asked for by the frontend under this name: set once, when the library has been opened.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace stoa::ops::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kStats, kDout, kDq, kDk, kDv };

class CudnnAttention final : public AttentionLibrary {
 public:
  CudnnAttention(bool deterministic, std::string& version);
  ~CudnnAttention() override { (void)fe::detail::destroy_handle(handle_); }

  bool takes(const DenseAttention& problem) override { return plan(problem).graph != nullptr; }
  std::size_t workspace_bytes(const DenseAttention& problem) override { return plan(problem).workspace; }
  void run(const DenseAttention& problem, const AttentionPointers& pointers, void* stream,
           void* workspace) override;

 private:
  struct Plan {
    DenseAttention problem;
    std::shared_ptr<fe::graph::Graph> graph;  // null: cuDNN does not take it
    std::size_t workspace = 0;
  };

  Plan& plan(const DenseAttention& problem);
  void build(Plan& plan) const;
  Tensor tensor(fe::graph::Graph& graph, const char* name, Uid uid, const DenseAttention& p,
                std::int64_t heads, std::int64_t stride) const;

  std::shared_ptr<DynamicLibrary> runtime_, library_;
  cudnnHandle_t handle_ = nullptr;
  const bool deterministic_;
  std::list<Plan> plans_;  // few: forms of attention in one model
};

std::shared_ptr<DynamicLibrary> open(const char* what, const char* name) {
  return std::make_shared<DynamicLibrary>(what, std::span(&name, 1), true);
}

CudnnAttention::CudnnAttention(bool deterministic, std::string& version) : deterministic_(deterministic) {
  // The frontend asks for a shared CUDA runtime by this name; it shares the GPU's context with the static
  // one.
  runtime_ = open("the CUDA runtime", "libcudart.so.13");
  library_ = open("cuDNN", "libcudnn.so.9");
  fe::cudnn_dlhandle = library_->handle();
  const std::size_t number = fe::detail::get_backend_version();
  version = fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  require<DeviceError>(number >= 90500, "cuDNN {} is too old, expected 9.5 or later", version);
  const cudnnStatus_t status = fe::detail::create_handle(&handle_);
  require<DeviceError>(status == CUDNN_STATUS_SUCCESS, "cuDNN {} does not start: {}", version,
                       fe::detail::get_error_string(status));
}

Tensor CudnnAttention::tensor(fe::graph::Graph& graph, const char* name, Uid uid, const DenseAttention& p,
                              std::int64_t heads, std::int64_t stride) const {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim({p.batch, heads, p.length, p.d})
                          .set_stride({p.length * stride, p.d, stride, 1}));
}

void CudnnAttention::build(Plan& plan) const {
  const DenseAttention& p = plan.problem;
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(p.type == DType::kBF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const Tensor q = tensor(*graph, "q", kQ, p, p.heads, p.q_stride),
               k = tensor(*graph, "k", kK, p, p.groups, p.k_stride),
               v = tensor(*graph, "v", kV, p, p.groups, p.v_stride);
  const auto output = [&](const Tensor& out, Uid uid, std::int64_t heads, std::int64_t stride) {
    out->set_output(true)
        .set_uid(uid)
        .set_dim({p.batch, heads, p.length, p.d})
        .set_stride({p.length * stride, p.d, stride, 1});
  };
  const auto mask = [&](auto& options) {
    if (p.causal) options.set_causal_mask(true);
    if (p.window > 0) options.set_diagonal_band_left_bound(static_cast<int>(p.window));
  };
  if (!p.backward) {
    fe::graph::SDPA_attributes options;
    options.set_name("attention").set_generate_stats(p.lse).set_attn_scale(p.scale);
    mask(options);
    const auto [o, stats] = [&] {
      auto outputs = graph->sdpa(q, k, v, options);
      return std::pair(outputs[0], outputs[1]);
    }();
    output(o, kO, p.heads, p.o_stride);
    if (p.lse)
      stats->set_output(true)
          .set_uid(kStats)
          .set_data_type(fe::DataType_t::FLOAT)
          .set_dim({p.batch, p.heads, p.length, 1})
          .set_stride({p.heads * p.length, p.length, 1, 1});
  } else {
    const Tensor o = tensor(*graph, "o", kO, p, p.heads, p.o_stride),
                 dout = tensor(*graph, "dout", kDout, p, p.heads, p.dout_stride);
    const Tensor stats = graph->tensor(fe::graph::Tensor_attributes()
                                           .set_name("stats")
                                           .set_uid(kStats)
                                           .set_data_type(fe::DataType_t::FLOAT)
                                           .set_dim({p.batch, p.heads, p.length, 1})
                                           .set_stride({p.heads * p.length, p.length, 1, 1}));
    fe::graph::SDPA_backward_attributes options;
    options.set_name("attention backward")
        .set_attn_scale(p.scale)
        .set_deterministic_algorithm(deterministic_);
    mask(options);
    const auto gradients = graph->sdpa_backward(q, k, v, o, dout, stats, options);
    output(gradients[0], kDq, p.heads, p.dq_stride);
    output(gradients[1], kDk, p.groups, p.dk_stride);
    output(gradients[2], kDv, p.groups, p.dv_stride);
  }
  if (graph->validate().is_bad() || graph->build_operation_graph(handle_).is_bad() ||
      graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad() ||
      graph->check_support().is_bad() || graph->build_plans(handle_).is_bad())
    return;
  std::int64_t bytes = 0;
  if (graph->get_workspace_size(bytes).is_bad()) return;
  plan.workspace = static_cast<std::size_t>(bytes);
  plan.graph = std::move(graph);
}

CudnnAttention::Plan& CudnnAttention::plan(const DenseAttention& problem) {
  const auto found =
      std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) { return plan.problem == problem; });
  if (found != plans_.end()) return *found;
  Plan& plan = plans_.emplace_back();
  plan.problem = problem;
  // One query and key: a known gap of the library. Heads beyond 256 or in odd sizes never fit.
  if (problem.d % 8 == 0 && problem.d <= 256 && problem.length > 1) build(plan);
  return plan;
}

void CudnnAttention::run(const DenseAttention& problem, const AttentionPointers& x, void* stream,
                         void* workspace) {
  Plan& p = plan(problem);
  require<InternalError>(p.graph != nullptr, "attention goes to cuDNN, which has no plan for it");
  const cudnnStatus_t status = fe::detail::set_stream(handle_, static_cast<cudaStream_t>(stream));
  require<DeviceError>(status == CUDNN_STATUS_SUCCESS, "cuDNN takes no stream: {}",
                       fe::detail::get_error_string(status));
  std::unordered_map<std::int64_t, void*> tensors{
      {kQ, const_cast<void*>(x.q)}, {kK, const_cast<void*>(x.k)}, {kV, const_cast<void*>(x.v)}, {kO, x.o}};
  if (problem.lse || problem.backward) tensors[kStats] = x.lse;
  if (problem.backward) {
    tensors[kDout] = const_cast<void*>(x.dout);
    tensors[kDq] = x.dq, tensors[kDk] = x.dk, tensors[kDv] = x.dv;
  }
  fe::error_t error = p.graph->execute(handle_, tensors, workspace);
  require<DeviceError>(error.is_good(), "cuda: attention{} by cuDNN ({} x {} tokens, {} heads of {}): {}",
                       problem.backward ? " backward" : "", problem.batch, problem.length, problem.heads,
                       problem.d, error.get_message());
}

}  // namespace

std::shared_ptr<AttentionLibrary> make_cudnn_attention(bool deterministic, std::string& version) {
  return std::make_shared<CudnnAttention>(deterministic, version);
}

}  // namespace stoa::ops::cuda
