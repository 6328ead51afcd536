// Single operations on any backend, timed through streams and compared with the device's own copy bandwidth
// and GEMM rate. Bytes are those that an ideal implementation moves: each operand once.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/rounding.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/machine_factory.h"
#include "cli/noise.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "infer/cache_type.h"
#include "infer/host_window.h"
#include "ops/cache_rows.h"
#include "ops/host_draw.h"
#include "ops/meta/meta_backend.h"
#include "ops/op_context.h"
#include "quant/matrix_layout.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct BenchDeviceArguments {
  MachineOptions machine;
  std::string dtype = "bf16";
  std::vector<std::string> what{"copy", "gemm", "attention", "decode-attention", "streaming"};
  std::int64_t tokens = 32768, width = 768, vocabulary = 50304;
  int repeats = 7;
};

class DeviceBench {
 public:
  DeviceBench(const BenchDeviceArguments& arguments, infer::Machine& machine)
      : a_(arguments), machine_(machine), type_(dtype_from_name(arguments.dtype)) {}

  void run();

 private:
  TensorView empty(DType type, Shape shape) {
    const TensorView spec(nullptr, type, shape);
    memory_.push_back(machine_.device->allocate(std::max<std::size_t>(spec.bytes(), 256)));
    machine_.device->fill_zero(memory_.back().data(), memory_.back().bytes(), *machine_.stream);
    return TensorView(memory_.back().data(), type, shape, machine_.device->kind());
  }
  TensorView random(DType type, Shape shape) {
    const TensorView out = empty(type, shape);
    infer::write_tensor(machine_, out, write_noise);
    return out;
  }
  template <class Value>
  TensorView integers(std::int64_t count, Value&& value) {
    const TensorView out = empty(DType::kI32, {count});
    infer::write_tensor(machine_, out, [&](TensorView host) {
      for (std::int64_t i = 0; i < count; ++i)
        host.as<std::int32_t>()[i] = static_cast<std::int32_t>(value(i));
    });
    return out;
  }
  void release() {
    machine_.stream->synchronize();
    memory_.clear();
  }

  // Median seconds of one execution; each measurement runs as many in sequence as take about 20 ms.
  template <class Body>
  double time(Body&& body) {
    const auto many = [&](int count) {
      machine_.stream->synchronize();
      const auto begin = Clock::now();
      for (int i = 0; i < count; ++i) body();
      machine_.stream->synchronize();
      return seconds_since(begin) / count;
    };
    many(2);
    const int count = std::clamp(static_cast<int>(0.02 / many(1)), 1, 200);
    std::vector<double> times;
    for (int i = 0; i < a_.repeats; ++i) times.push_back(many(count));
    return median_of(times);
  }
  // A linear layer, with another matrix each time, so that no cache has it.
  template <class Op>
  double seconds_over(const std::vector<TensorView>& matrices, Op op) {
    ops::check(op);
    const Buffer workspace =
        machine_.device->allocate(std::max(machine_.backend->workspace_bytes(op), std::size_t{256}));
    std::size_t next = 0;
    return time([&] {
      op.w = matrices[next++ % matrices.size()];
      machine_.backend->execute(op, ops::Resources{*machine_.stream, workspace.data()});
    });
  }
  template <class... Op>
  double seconds(const Op&... op) {
    (ops::check(op), ...);
    const std::size_t bytes = std::max({machine_.backend->workspace_bytes(op)..., std::size_t{256}});
    const Buffer workspace = machine_.device->allocate(bytes);
    return time([&] {
      (machine_.backend->execute(op, ops::Resources{*machine_.stream, workspace.data()}), ...);
    });
  }

  template <class Op>
  void show_streaming(const char* name, const Op& op) {
    const ops::OpCount count = ops::count_of(op);
    const double t = seconds(op), bytes = count.read_bytes + count.written_bytes;
    print_json_line(Json{{"op", name},
                         {"ms", t * 1e3},
                         {"gb_per_s", bytes / t * 1e-9},
                         {"share_of_copy", copy_ > 0 ? bytes / t / copy_ : 0.0}});
  }
  void copy();
  void gemm();
  void grouped();
  void eight_bits();
  void quantised();
  void few_tokens();
  void find_tokens();
  void attention();
  void decode_attention();
  void streaming();
  void loss_and_update();

  const BenchDeviceArguments& a_;
  infer::Machine& machine_;
  const DType type_;
  double copy_ = 0, matrix_ = 0;
  std::vector<Buffer> memory_;
};

// A copy of 2 GiB of fp32 to fp32, read and write counted.
void DeviceBench::copy() {
  const std::int64_t n =
      machine_.device->kind() == DeviceKind::kHost ? std::int64_t{1} << 26 : std::int64_t{1} << 29;
  const ops::Cast op{random(DType::kF32, {n}), empty(DType::kF32, {n})};
  copy_ = 2.0 * static_cast<double>(op.x.bytes()) / seconds(op);
  print_json_line(
      Json{{"op", "copy"}, {"gib", static_cast<double>(op.x.bytes()) / 0x1p30}, {"gb_per_s", copy_ * 1e-9}});
  release();
}

void DeviceBench::gemm() {
  struct Product {
    std::int64_t m, n, k;
  };
  const std::int64_t t = a_.tokens, d = a_.width;
  for (const Product& p : {Product{t, 3 * d, d}, Product{t, d, d}, Product{t, 4 * d, d}, Product{t, d, 4 * d},
                           Product{2048, a_.vocabulary, d}, Product{8192, 8192, 8192}}) {
    const TensorView x = random(type_, {p.m, p.k}), w = random(type_, {p.n, p.k}),
                     dy = random(type_, {p.m, p.n});
    const TensorView dw = empty(accumulation_type(type_), {p.n, p.k});
    const double flops = 2.0 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k);
    const double forward = seconds(ops::LinearForward{x, w, {}, dy});
    const double input = seconds(ops::LinearBackwardInput{dy, w, x, false});
    const double weight = seconds(ops::LinearBackwardWeight{x, dy, dw, {}, true});
    matrix_ = std::max(matrix_, flops / forward);
    print_json_line(Json{{"op", "gemm"},
                         {"m", p.m},
                         {"n", p.n},
                         {"k", p.k},
                         {"forward_tflops", flops / forward * 1e-12},
                         {"input_gradient_tflops", flops / input * 1e-12},
                         {"weight_gradient_tflops", flops / weight * 1e-12}});
    release();
  }
}

// Linear layers of experts with unequal numbers of rows, the last with most: few large experts, many small
// ones.
void DeviceBench::grouped() {
  struct Layer {
    std::int64_t experts, k, n;
  };
  const std::int64_t rows = a_.tokens;
  for (const Layer& l : {Layer{8, 2048, 4096}, Layer{8, 4096, 2048}, Layer{64, 2048, 1408}}) {
    const TensorView sorted =
        integers(rows, [&](std::int64_t i) {
          const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(rows);
          return static_cast<std::int64_t>(static_cast<double>(l.experts) * std::sqrt(place));
        }).reshape({rows, 1});
    const TensorView x = random(type_, {rows, l.k}), w = random(type_, {l.experts * l.n, l.k}),
                     dy = random(type_, {rows, l.n}), y = empty(type_, dy.shape), dx = empty(type_, x.shape);
    const TensorView dw = empty(accumulation_type(type_), w.shape);
    const double flops = 2.0 * static_cast<double>(rows * l.n) * static_cast<double>(l.k);
    const double forward = seconds(ops::GroupedLinearForward{x, w, sorted, y});
    const double input = seconds(ops::GroupedLinearBackwardInput{dy, w, sorted, dx});
    const double weight = seconds(ops::GroupedLinearBackwardWeight{x, dy, sorted, dw, true});
    print_json_line(Json{{"op", "grouped"},
                         {"experts", l.experts},
                         {"rows", rows},
                         {"n", l.n},
                         {"k", l.k},
                         {"forward_tflops", flops / forward * 1e-12},
                         {"input_gradient_tflops", flops / input * 1e-12},
                         {"weight_gradient_tflops", flops / weight * 1e-12}});
    release();
  }
}

// A linear layer of FP8 GEMMs: the casts of its operands, as in a training step, and the GEMMs alone.
void DeviceBench::eight_bits() {
  struct Product {
    std::int64_t m, n, k;
  };
  const std::int64_t t = a_.tokens, d = a_.width;
  const DType sum = accumulation_type(type_);
  for (const Product& p : {Product{t, 3 * d, d}, Product{t, 4 * d, d}, Product{t, d, 4 * d}}) {
    const TensorView x = random(type_, {p.m, p.k}), y = empty(type_, {p.m, p.n}), amax = empty(sum, {1});
    const auto quantized = [&](const TensorView& from, DType type) {
      return ops::Quantize{.x = from,
                           .amax = amax,
                           .y = empty(type, from.shape),
                           .transposed = empty(type, {from.shape[1], ops::Quantize::padded(from.shape[0])}),
                           .inverse_scale = empty(sum, {1}),
                           .seen = {}};
    };
    const ops::AbsoluteMax largest{x, amax};
    const ops::Quantize x8 = quantized(x, DType::kE4M3),
                        w8 = quantized(random(type_, {p.n, p.k}), DType::kE4M3),
                        dy8 = quantized(random(type_, {p.m, p.n}), DType::kE5M2);
    const double find = seconds(largest), cast = seconds(x8);
    (void)seconds(w8, dy8);  // their content is what the products read
    const auto product = [](const TensorView& a, const ops::Quantize& of_a, const TensorView& b,
                            const ops::Quantize& of_b, const TensorView& out, bool fast) {
      return ops::ScaledProduct{.a = a,
                                .b = b,
                                .inverse_a = of_a.inverse_scale,
                                .inverse_b = of_b.inverse_scale,
                                .bias = {},
                                .out = out,
                                .fast = fast};
    };
    const double forward = seconds(product(x8.y, x8, w8.y, w8, y, true));
    const double input = seconds(product(dy8.y, dy8, w8.transposed, w8, x, false));
    const double weight =
        seconds(product(dy8.transposed, dy8, x8.transposed, x8, empty(sum, {p.n, p.k}), false));
    const double flops = 2.0 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k);
    const auto elements = static_cast<double>(x.elements()), width = static_cast<double>(size_of(type_));
    print_json_line(Json{{"op", "fp8"},
                         {"m", p.m},
                         {"n", p.n},
                         {"k", p.k},
                         {"amax_gb_per_s", elements * width / find * 1e-9},
                         {"quantize_gb_per_s", elements * (width + 2) / cast * 1e-9},
                         {"forward_tflops", flops / forward * 1e-12},
                         {"input_gradient_tflops", flops / input * 1e-12},
                         {"weight_gradient_tflops", flops / weight * 1e-12}});
    release();
  }
}

// A layer's matrix as GGUF files hold it, for the tokens of a few answers and of a prompt. Matrices that
// follow each other are different ones, so that no cache has them.
void DeviceBench::quantised() {
  constexpr std::int64_t kColumns = 4096, kRows = 14336;
  constexpr std::size_t kOfAll = std::size_t{1} << 28;  // bytes
  for (const quant::BlockType type : {quant::BlockType::kQ8_0, quant::BlockType::kQ4_K}) {
    const quant::BlockFormat& format = quant::format_of(type);
    const quant::MatrixShape shape{kColumns, 1, {{{type, kRows}}}};
    const auto row_bytes = static_cast<std::size_t>(format.row_bytes(kColumns));
    std::vector<float> numbers(kColumns * quant::kGroupRows);
    write_noise(TensorView(numbers.data(), DType::kF32, {std::ssize(numbers)}));
    std::vector<std::byte> rows(row_bytes * quant::kGroupRows);
    quant::encode_numbers(format, numbers.data(), std::ssize(numbers), nullptr, rows.data());
    std::vector<TensorView> matrices;
    while (matrices.empty() || matrices.size() * shape.bytes() < kOfAll) {
      matrices.push_back(empty(DType::kU8, {shape.bytes()}));
      // Every group has the same rows.
      infer::write_tensor(machine_, matrices.back(), [&](TensorView host) {
        auto* const memory = static_cast<std::byte*>(host.data);
        const auto row = [&](std::int64_t r) {
          return rows.data() + static_cast<std::size_t>(r) * row_bytes;
        };
        quant::pack_groups(shape.parts[0], kColumns, row, 0, 1, memory);
        const std::int64_t group = shape.bytes() / shape.parts[0].groups();
        for (std::int64_t g = 1; g < shape.parts[0].groups(); ++g)
          std::copy_n(memory, group, memory + g * group);
      });
    }
    for (const std::int64_t tokens : {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048}) {
      ops::QuantisedLinear op{
          random(type_, {tokens, kColumns}), matrices[0], shape, {}, empty(type_, {tokens, kRows})};
      const double t = seconds_over(matrices, op);
      const auto bytes = static_cast<double>(shape.bytes());
      print_json_line(Json{{"op", "quantised"},
                           {"type", std::string(format.name)},
                           {"rows", kRows},
                           {"columns", kColumns},
                           {"tokens", tokens},
                           {"us", t * 1e6},
                           {"gb_per_s", bytes / t * 1e-9},
                           {"tflops", 2.0 * static_cast<double>(tokens * kRows * kColumns) / t * 1e-12}});
      memory_.pop_back();
      memory_.pop_back();
    }
    release();
  }
}

void DeviceBench::attention() {
  struct Case {
    std::int64_t b, h, g, s, d;
  };
  for (const Case& c : {Case{32, 12, 12, 1024, 64}, Case{4, 16, 16, 4096, 128}, Case{4, 32, 8, 2048, 128}}) {
    const std::int64_t tokens = c.b * c.s;
    ops::AttentionForward f;
    f.segments.q_begin = integers(c.b + 1, [&](std::int64_t i) { return i * c.s; });
    f.segments.k_begin = integers(c.b, [&](std::int64_t i) { return i * c.s; });
    f.segments.k_count = integers(c.b, [&](std::int64_t) { return c.s; });
    f.segments.count = c.b;
    f.segments.longest_q = f.segments.longest_k = c.s;
    f.options.scale = 1 / std::sqrt(static_cast<double>(c.d));
    f.q = random(type_, {tokens, c.h, c.d});
    f.k = random(type_, {tokens, c.g, c.d});
    f.v = random(type_, {tokens, c.g, c.d});
    f.o = empty(type_, f.q.shape);
    f.lse = empty(accumulation_type(type_), {tokens, c.h});
    ops::AttentionBackward b;
    b.options = f.options, b.segments = f.segments;
    b.q = f.q, b.k = f.k, b.v = f.v, b.o = f.o, b.lse = f.lse;
    b.dout = random(type_, f.q.shape);
    b.dq = empty(type_, f.q.shape), b.dk = empty(type_, f.k.shape), b.dv = empty(type_, f.v.shape);
    const double forward = seconds(f), backward = seconds(b);
    const double flops = 2.0 * static_cast<double>(c.b * c.h * c.s) * static_cast<double>(c.s * c.d);
    print_json_line(Json{{"op", "attention"},
                         {"b", c.b},
                         {"heads", c.h},
                         {"groups", c.g},
                         {"s", c.s},
                         {"d", c.d},
                         {"forward_ms", forward * 1e3},
                         {"backward_ms", backward * 1e3},
                         {"forward_tflops", flops / forward * 1e-12},
                         {"backward_tflops", 2.5 * flops / backward * 1e-12}});
    release();
  }
}

// A layer of 16-bit or fp32 weights for the tokens of a few answers. Matrices that follow each other are
// different ones, so that no cache has them; their bytes count.
void DeviceBench::few_tokens() {
  constexpr std::size_t kOfAll = std::size_t{1} << 28;
  struct Matrix {
    std::int64_t rows, columns;
  };
  for (const Matrix& m : {Matrix{2304, 768}, Matrix{768, 768}, Matrix{3072, 768}, Matrix{768, 3072},
                          Matrix{4096, 4096}, Matrix{14336, 4096}, Matrix{4096, 14336}, Matrix{50257, 768}}) {
    std::vector<TensorView> matrices;
    while (matrices.empty() || matrices.size() * matrices[0].bytes() < kOfAll)
      matrices.push_back(empty(type_, {m.rows, m.columns}));
    const TensorView bias = random(accumulation_type(type_), {m.rows});
    for (const std::int64_t tokens : {1, 2, 4, 8, 16, 32}) {
      ops::LinearForward op{.x = random(type_, {tokens, m.columns}),
                            .w = matrices[0],
                            .bias = bias,
                            .y = empty(type_, {tokens, m.rows})};
      const double t = seconds_over(matrices, op);
      const auto bytes = static_cast<double>(op.w.bytes());
      print_json_line(Json{{"op", "few-tokens"},
                           {"rows", m.rows},
                           {"columns", m.columns},
                           {"tokens", tokens},
                           {"us", t * 1e6},
                           {"gb_per_s", bytes / t * 1e-9},
                           {"share_of_copy", copy_ > 0 ? bytes / t / copy_ : 0.0}});
      memory_.pop_back();
      memory_.pop_back();
    }
    release();
  }
}

// The next token of each of some texts, or of one long text, whose keys and values are in blocks in any
// order. Bytes are those of keys and values.
void DeviceBench::decode_attention() {
  constexpr std::int64_t kRows = 16;
  struct Case {
    std::int64_t texts, keys, heads, groups, width;
    DType cache;
  };
  for (const Case& c : {Case{32, 2048, 32, 8, 128, type_}, Case{8, 8192, 32, 8, 128, type_},
                        Case{1, 32768, 32, 8, 128, type_}, Case{1, 160, 12, 12, 64, type_},
                        Case{32, 2048, 32, 8, 64, type_}, Case{32, 2048, 64, 4, 128, type_},
                        Case{32, 2048, 32, 8, 128, DType::kF16}, Case{32, 2048, 32, 8, 128, DType::kU8}}) {
    const std::int64_t columns = ceil_div(c.keys, kRows), blocks = c.texts * columns;
    ops::AttentionForward op;
    op.segments.q_begin = integers(c.texts + 1, [](std::int64_t i) { return i; });
    op.segments.k_begin =
        integers(blocks, [&](std::int64_t i) { return i * 7919 % blocks; }).reshape({c.texts, columns});
    op.segments.k_count = integers(c.texts, [&](std::int64_t) { return c.keys; });
    op.segments.count = c.texts, op.segments.longest_q = 1, op.segments.longest_k = c.keys;
    op.options.scale = 1 / std::sqrt(static_cast<double>(c.width));
    op.q = random(type_, {c.texts, c.heads, c.width}), op.o = empty(type_, op.q.shape);
    const Shape kept = ops::CacheShape(blocks, c.groups, kRows, ops::cached_width(c.cache, c.width)).shape();
    op.k = empty(c.cache, kept), op.v = empty(c.cache, kept);  // zeros: bound by memory, not clocks
    const double t = seconds(op), bytes = 2 * static_cast<double>(op.k.bytes());
    print_json_line(Json{{"op", "decode-attention"},
                         {"texts", c.texts},
                         {"keys", c.keys},
                         {"heads", c.heads},
                         {"groups", c.groups},
                         {"d", c.width},
                         {"kv_type", std::string(infer::cache_type_name(c.cache))},
                         {"ms", t * 1e3},
                         {"gb_per_s", bytes / t * 1e-9},
                         {"share_of_copy", copy_ > 0 ? bytes / t / copy_ : 0.0}});
    release();
  }
}

void DeviceBench::streaming() {
  const Shape stream{a_.tokens, a_.width}, inner{a_.tokens, 4 * a_.width}, width{a_.width};
  ops::NormForward norm;
  norm.x = random(type_, stream), norm.branch = random(type_, stream), norm.sum = empty(type_, stream);
  norm.gamma = random(DType::kF32, width), norm.beta = random(DType::kF32, width);
  norm.y = empty(type_, stream), norm.stats = empty(DType::kF32, {a_.tokens, 2});
  show_streaming("residual + norm forward", norm);
  ops::NormBackward back;
  back.x = norm.sum, back.stats = norm.stats, back.gamma = norm.gamma;
  back.dy = random(type_, stream), back.dresidual = random(type_, stream);
  back.dx = empty(type_, stream), back.dbranch = empty(type_, stream);
  back.dgamma = empty(DType::kF32, width), back.dbeta = empty(DType::kF32, width);
  show_streaming("norm backward", back);
  release();

  const ops::ActivationForward act{ops::ActivationKind::kGeluTanh, false, random(type_, inner),
                                   empty(type_, inner)};
  show_streaming("gelu_tanh forward", act);
  show_streaming("gelu_tanh backward",
                 ops::ActivationBackward{act.kind, false, act.x, act.y, empty(type_, inner)});
  release();
  const Shape half{a_.tokens, 2 * a_.width};
  const ops::ActivationForward gated{ops::ActivationKind::kSilu, true, random(type_, inner),
                                     empty(type_, half)};
  show_streaming("swiglu forward", gated);
  show_streaming("swiglu backward",
                 ops::ActivationBackward{gated.kind, true, gated.x, gated.y, empty(type_, inner)});
  release();

  const std::int64_t heads = a_.width / 64;
  const ops::Rotary rotary{random(type_, {a_.tokens, heads, 64}),
                           integers(a_.tokens, [](std::int64_t i) { return i % 1024; }),
                           random(DType::kF32, {1024, 2, 32}), false};
  show_streaming("rotary", rotary);
  release();

  const TensorView ids = integers(a_.tokens, [&](std::int64_t i) { return i * 7919 % a_.vocabulary; });
  const TensorView positions = integers(a_.tokens, [](std::int64_t i) { return i % 1024; });
  ops::EmbeddingForward embed;
  embed.tokens = ids, embed.positions = positions;
  embed.table = random(type_, {a_.vocabulary, a_.width}),
  embed.position_table = random(type_, {1024, a_.width});
  embed.y = empty(type_, stream);
  show_streaming("embedding forward", embed);
  ops::EmbeddingBackward embed_back;
  embed_back.tokens = ids, embed_back.positions = positions, embed_back.dy = embed.y;
  embed_back.dtable = empty(DType::kF32, {a_.vocabulary, a_.width});
  embed_back.dposition_table = empty(DType::kF32, {1024, a_.width});
  show_streaming("embedding backward", embed_back);
  release();
}

void DeviceBench::loss_and_update() {
  const TensorView state = empty(DType::kF64, {static_cast<std::int64_t>(ops::StepSlot::kCount)});
  infer::write_tensor(machine_, state, [](TensorView host) {
    for (const auto slot : {ops::StepSlot::kLossSeed, ops::StepSlot::kGradFactor, ops::StepSlot::kUpdates,
                            ops::StepSlot::kLossScale, ops::StepSlot::kLearningRate})
      host.as<double>()[static_cast<int>(slot)] = 1e-3;
    host.as<double>()[static_cast<int>(ops::StepSlot::kUpdates)] = 1;
  });
  const std::int64_t rows = 4096;
  ops::CrossEntropy loss;
  loss.logits = random(type_, {rows, a_.vocabulary});
  loss.labels = integers(rows, [&](std::int64_t i) { return i * 7919 % a_.vocabulary; });
  loss.loss_mask = random(DType::kF32, {rows});
  loss.vocabulary = a_.vocabulary;
  loss.state = state;
  loss.losses = empty(DType::kF32, {rows});
  show_streaming("cross entropy", loss);
  release();
}

// The most likely tokens, and tokens that are drawn, of logits that have a few high ones, as a model's have.
void DeviceBench::find_tokens() {
  struct Way {
    const char* name;
    ops::DrawOptions options;
  };
  for (const std::int64_t vocabulary : {49152, 131072, 262144})
    for (const std::int64_t texts : {1, 16, 64}) {
      const TensorView logits = empty(DType::kF32, {texts, vocabulary}),
                       found = empty(DType::kI32, {texts, 2});
      infer::write_tensor(machine_, logits, [](TensorView host) {
        write_noise(host);
        for (std::int64_t i = 0; i < host.elements(); ++i)
          host.as<float>()[i] *= 20 * std::abs(host.as<float>()[i]);
      });
      const auto show = [&](const char* name, double t) {
        print_json_line(Json{{"op", name}, {"vocabulary", vocabulary}, {"texts", texts}, {"us", t * 1e6}});
      };
      show("most likely", seconds(ops::MostLikely{logits, found}));
      for (const Way& way : {Way{"draw, temperature 1", {}}, Way{"draw, top-p 0.9", {.top_p = 0.9}},
                             Way{"draw, top-k 40, top-p 0.95, min-p 0.05",
                                 {.temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05}}}) {
        const TensorView draws = empty(DType::kI32, {texts, ops::kTokenDrawWords});
        infer::write_tensor(machine_, draws, [&](TensorView host) {
          ops::TokenDraw draw = ops::token_draw(way.options);
          for (std::int64_t i = 0; i < texts; ++i) {
            draw.row = static_cast<std::int32_t>(i);
            draw.word = static_cast<std::uint32_t>(i) * 2654435761U;
            std::memcpy(host.row<std::int32_t>(i), static_cast<const void*>(&draw), sizeof(draw));
          }
        });
        show(way.name, seconds(ops::DrawTokens{logits, draws, found}));
      }
      release();
    }
}

void DeviceBench::run() {
  print_json_line(Json{{"machine", machine_.description}, {"dtype", std::string(name_of(type_))}});
  for (const std::string& what : a_.what) {
    if (what == "copy") copy();
    if (what == "gemm") gemm();
    if (what == "grouped") grouped();
    if (what == "fp8") eight_bits();
    if (what == "quantised") quantised();
    if (what == "few-tokens") few_tokens();
    if (what == "tokens") find_tokens();
    if (what == "attention") attention();
    if (what == "decode-attention") decode_attention();
    if (what == "streaming") {
      streaming();
      loss_and_update();
      const Shape flat{std::int64_t{1} << 27};
      ops::AdamUpdate adam;
      adam.master = random(DType::kF32, flat), adam.gradient = random(DType::kF32, flat);
      adam.m = empty(DType::kF32, flat), adam.v = empty(DType::kF32, flat), adam.compute = empty(type_, flat);
      adam.state = empty(DType::kF64, {static_cast<std::int64_t>(ops::StepSlot::kCount)});
      infer::write_tensor(machine_, adam.state, [](TensorView host) {
        host.as<double>()[static_cast<int>(ops::StepSlot::kUpdates)] = 1;
      });
      show_streaming("adam update", adam);
      show_streaming("sum squares", ops::SumSquares{adam.gradient,
                                                    empty(DType::kF64, {flat[0] / ops::SumSquares::kBlock}),
                                                    {0, 0, flat[0], flat[0]}});
      show_streaming("cast fp32", ops::Cast{adam.master, adam.compute});
      release();
    }
  }
}

}  // namespace

void add_bench_device(CLI::App& bench, Context&) {
  auto arguments = std::make_shared<BenchDeviceArguments>();
  CLI::App* command = bench.add_subcommand("device",
                                           "Single operations of any backend, one JSON object per line. "
                                           "Example: stoa bench device --backend cuda");
  command
      ->add_option(
          "what", arguments->what,
          "copy, gemm, attention, streaming (default: these), decode-attention: of single tokens, over keys "
          "in blocks, grouped: linear layers of experts, fp8: FP8 GEMMs, quantised: products with matrices "
          "of GGUF files, few-tokens: linear layers of a few answers' tokens, tokens: found in logits")
      ->check(CLI::IsMember({"copy", "gemm", "attention", "decode-attention", "streaming", "grouped", "fp8",
                             "quantised", "few-tokens", "tokens"}));
  command->add_option("--backend", arguments->machine.backend, "cpu or cuda")->capture_default_str();
  command->add_option("--cuda", arguments->machine.cuda, kCudaHelp);
  command->add_option("--threads", arguments->machine.threads, "Worker threads (default: one per core)")
      ->check(thread_count());
  command->add_option("--dtype", arguments->dtype, "bf16, fp16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  command->add_option("--tokens", arguments->tokens, "Rows")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  command->add_option("--width", arguments->width, "Columns, a multiple of 64")
      ->check(CLI::Range(64, 1 << 16))
      ->capture_default_str();
  command->add_option("--repeat", arguments->repeats, "Number of measurements; the median is reported")
      ->check(CLI::Range(1, 1000));
  command->callback([arguments] {
    infer::Machine machine = make_machine(arguments->machine);
    DeviceBench(*arguments, machine).run();
  });
}

}  // namespace stoa::cli
