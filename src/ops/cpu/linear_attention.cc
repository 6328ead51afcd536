// Short convolutions and the gated delta rule: texts are cut into tasks by columns and by key heads.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/gated_delta_kernels.h"
#include "ops/cpu/operands.h"
#include "ops/cpu/short_conv_kernels.h"
#include "ops/reference/sequences.h"

namespace stoa::ops::cpu {
namespace {

// Zeros in the rows that belong to no text.
void zero_rows_of_nobody(const Sequences& texts, const TensorView& tensor) {
  const auto* begin = texts.begin.as<std::int32_t>();
  const std::int64_t first = texts.count ? begin[0] : tensor.rows(),
                     end = texts.count ? begin[texts.count] : tensor.rows();
  for (std::int64_t r = 0; r < tensor.rows(); ++r)
    if (r < first || r >= end)
      std::memset(tensor.byte_offset(r * tensor.stride0), 0,
                  static_cast<std::size_t>(tensor.shape.inner()) * size_of(tensor.dtype));
}

template <class Op>
ConvArgs conv_args(const Op& op) {
  ConvArgs args;
  args.x = rows_of(op.x);
  args.weight = op.weight.template as<float>();
  args.columns = op.x.shape[1];
  args.taps = op.weight.shape[1];
  return args;
}

template <class Op>
bool conv_for_reference(const Op& op) {
  return op.x.dtype == DType::kF64 || op.weight.shape[1] > ConvArgs::kMostTaps;
}

// body(task) for every text, column block by column block.
template <class Body>
void run_columns(WorkerPool& pool, const ConvArgs& args, const Sequences& texts, std::int64_t rows,
                 float* state, const Body& body) {
  run_pieces(pool, args.columns, ConvArgs::kColumns, [&](std::int64_t begin, std::int64_t end) {
    for_each_text(texts, rows, [&](std::int64_t text, std::int64_t first, std::int64_t tokens) {
      float* own = state ? state + text * (args.taps - 1) * args.columns : nullptr;
      body(ConvTask{first, tokens, begin, end - begin, own});
    });
  });
}

constexpr std::size_t kAligned = 64;
std::size_t share_of(std::int64_t floats) {
  return (static_cast<std::size_t>(floats) * sizeof(float) + kAligned - 1) / kAligned * kAligned;
}

template <class Op>
DeltaArgs delta_args(const Op& op) {
  DeltaArgs args;
  args.q = rows_of(op.q), args.k = rows_of(op.k), args.v = rows_of(op.v);
  args.key_heads = op.q.shape[1], args.value_heads = op.v.shape[1];
  args.key_width = op.q.shape[2], args.value_width = op.v.shape[2];
  args.epsilon = static_cast<float>(kDeltaEpsilon);
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(args.key_width)));
  return args;
}

float sigmoid_of(float x) { return 1 / (1 + std::exp(-x)); }

// Columns of all value heads at a token, in fp32.
float element(const TensorView& x, std::int64_t row, std::int64_t column) {
  float out = 0;
  with_float(x.dtype, [&]<class T>() { out = static_cast<float>(x.row<T>(row)[column]); });
  return out;
}
void put_element(const TensorView& x, std::int64_t row, std::int64_t column, float value) {
  with_float(x.dtype, [&]<class T>() { x.row<T>(row)[column] = T(value); });
}

// Gates and betas of all tokens: [T, Hv] each.
template <class Op>
void make_gates(const Op& op, WorkerPool& pool, float* gate, float* beta) {
  const std::int64_t heads = op.v.shape[1];
  run_pieces(pool, op.q.rows(), rows_per_task(heads), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        const float x = element(op.a, t, h) + op.bias.template as<float>()[h];
        const float softplus = std::max(x, 0.0f) + std::log1p(std::exp(-std::fabs(x)));
        gate[t * heads + h] = -std::exp(op.decay.template as<float>()[h]) * softplus;
        beta[t * heads + h] = sigmoid_of(element(op.b, t, h));
      }
  });
}

// body(task, memory) for every text and key head.
template <class Op, class Body>
void run_heads(WorkerPool& pool, const Op& op, const TensorView& state, char* memory, std::size_t share,
               const Body& body) {
  std::vector<DeltaTask> texts;
  const std::int64_t keys = op.q.shape[1], size = op.v.shape[1] / keys * op.q.shape[2] * op.v.shape[2];
  for_each_text(op.texts, op.q.rows(), [&](std::int64_t text, std::int64_t first, std::int64_t tokens) {
    texts.push_back({first, tokens, text, nullptr});
  });
  pool.run(static_cast<std::int64_t>(texts.size()) * keys, [&](std::int64_t i, int worker) {
    DeltaTask task = texts[static_cast<std::size_t>(i / keys)];
    const std::int64_t text = task.key_head;
    task.key_head = i % keys;
    if (state) task.state = state.template as<float>() + (text * keys + task.key_head) * size;
    body(task, reinterpret_cast<float*>(memory + share * static_cast<std::size_t>(worker)));
  });
}

std::size_t gate_bytes(const TensorView& v) { return share_of(v.rows() * v.shape[1]); }

}  // namespace

void CpuBackend::execute(const ShortConvForward& op, Resources resources) {
  if (conv_for_reference(op)) return ReferenceBackend::execute(op, resources);
  const ConvKernels& kernels = STOA_KERNELS(isa_, short_conv_kernels);
  ConvArgs args = conv_args(op);
  args.y = rows_of(op.y);
  zero_rows_of_nobody(op.texts, op.y);
  run_columns(pool_, args, op.texts, op.x.rows(), op.state ? op.state.as<float>() : nullptr,
              [&](const ConvTask& task) { kernels.forward(args, task); });
}

void CpuBackend::execute(const ShortConvBackward& op, Resources resources) {
  if (conv_for_reference(op)) return ReferenceBackend::execute(op, resources);
  const ConvKernels& kernels = STOA_KERNELS(isa_, short_conv_kernels);
  ConvArgs args = conv_args(op);
  args.dy = rows_of(op.dy);
  args.dx = rows_of(op.dx);
  args.dweight = op.dweight.as<float>();
  if (!op.accumulate) std::memset(args.dweight, 0, op.dweight.bytes());
  zero_rows_of_nobody(op.texts, op.dx);
  run_columns(pool_, args, op.texts, op.x.rows(), nullptr,
              [&](const ConvTask& task) { kernels.backward(args, task); });
}

std::size_t CpuBackend::workspace_bytes(const GatedDeltaForward& op) const {
  if (op.q.dtype == DType::kF64) return ReferenceBackend::workspace_bytes(op);
  const std::size_t share = share_of(STOA_KERNELS(isa_, gated_delta_kernels).forward_floats(delta_args(op)));
  return 2 * gate_bytes(op.v) + share * static_cast<std::size_t>(pool_.size());
}

std::size_t CpuBackend::workspace_bytes(const GatedDeltaBackward& op) const {
  if (op.q.dtype == DType::kF64) return ReferenceBackend::workspace_bytes(op);
  const std::size_t share =
      share_of(STOA_KERNELS(isa_, gated_delta_kernels).backward_floats(delta_args(op), op.texts.longest));
  return 4 * gate_bytes(op.v) + share * static_cast<std::size_t>(pool_.size());
}

void CpuBackend::execute(const GatedDeltaForward& op, Resources resources) {
  if (op.q.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const DeltaKernels& kernels = STOA_KERNELS(isa_, gated_delta_kernels);
  DeltaArgs args = delta_args(op);
  args.o = rows_of(op.o);
  char* memory = static_cast<char*>(resources.workspace);
  const std::size_t gates = gate_bytes(op.v);
  auto *gate = reinterpret_cast<float*>(memory), *beta = reinterpret_cast<float*>(memory + gates);
  make_gates(op, pool_, gate, beta);
  args.gate = gate, args.beta = beta;
  zero_rows_of_nobody(op.texts, op.o);
  run_heads(pool_, op, op.state, memory + 2 * gates, share_of(kernels.forward_floats(args)),
            [&](const DeltaTask& task, float* own) { kernels.forward(args, task, own); });
}

void CpuBackend::execute(const GatedDeltaBackward& op, Resources resources) {
  if (op.q.dtype == DType::kF64) return ReferenceBackend::execute(op, resources);
  const DeltaKernels& kernels = STOA_KERNELS(isa_, gated_delta_kernels);
  DeltaArgs args = delta_args(op);
  args.dout = rows_of(op.dout), args.dq = rows_of(op.dq), args.dk = rows_of(op.dk), args.dv = rows_of(op.dv);
  char* memory = static_cast<char*>(resources.workspace);
  const std::size_t gates = gate_bytes(op.v);
  const auto part = [&](std::size_t i) { return reinterpret_cast<float*>(memory + i * gates); };
  float *gate = part(0), *beta = part(1);
  make_gates(op, pool_, gate, beta);
  args.gate = gate, args.beta = beta, args.dgate = part(2), args.dbeta = part(3);
  std::memset(args.dgate, 0, 2 * gates);  // rows of nobody
  for (const TensorView& x : {op.dq, op.dk, op.dv}) zero_rows_of_nobody(op.texts, x);
  run_heads(pool_, op, {}, memory + 4 * gates, share_of(kernels.backward_floats(args, op.texts.longest)),
            [&](const DeltaTask& task, float* own) { kernels.backward(args, task, own); });

  const std::int64_t heads = op.v.shape[1];
  auto *ddecay = op.ddecay.as<float>(), *dbias = op.dbias.as<float>();
  pool_.run(heads, [&](std::int64_t h, int) {
    double decay = 0, bias = 0;  // in the order of the tokens
    const float rate = std::exp(op.decay.as<float>()[h]), shift = op.bias.as<float>()[h];
    for (std::int64_t t = 0; t < op.q.rows(); ++t) {
      const std::int64_t at = t * heads + h;
      const float slope = -args.dgate[at] * rate * sigmoid_of(element(op.a, t, h) + shift);
      decay += static_cast<double>(args.dgate[at]) * static_cast<double>(gate[at]);
      bias += static_cast<double>(slope);
      put_element(op.da, t, h, slope);
      put_element(op.db, t, h, args.dbeta[at] * beta[at] * (1 - beta[at]));
    }
    ddecay[h] = (op.accumulate ? ddecay[h] : 0) + static_cast<float>(decay);
    dbias[h] = (op.accumulate ? dbias[h] : 0) + static_cast<float>(bias);
  });
}

}  // namespace stoa::ops::cpu
