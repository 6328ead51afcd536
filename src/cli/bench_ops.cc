// Reports compute-bound operations in TFLOP/s next to a large GEMM of the same type and threads, others in
// GB/s next to a read-only sum. Bytes are those an ideal implementation moves: each operand once.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/machine_factory.h"
#include "cli/noise.h"
#include "cli/print.h"
#include "device/host/host_device.h"
#include "device/host/inline_stream.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/step_state.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> what{"attention", "streaming"};
  int threads = available_cores();
  int repeat = 5;
  std::string dtype = "bf16";
  std::optional<std::string> instruction_set;
  bool json = false;
};

class OpsBench {
 public:
  explicit OpsBench(const Options& options)
      : options_(options),
        type_(dtype_from_name(options.dtype)),
        pool_(options.threads),
        backend_(pool_, choose_instruction_set(options.instruction_set)) {}

  void attention();
  void linear_attention();
  void streaming();

 private:
  TensorView make(DType type, Shape shape) {
    const TensorView out(nullptr, type, shape);
    buffers_.push_back(device_.allocate(out.bytes()));
    TensorView view(buffers_.back().data(), type, shape);
    std::fill_n(static_cast<unsigned char*>(view.data), view.bytes(), static_cast<unsigned char>(0));
    return view;
  }
  TensorView random(DType type, Shape shape) {
    const TensorView out = make(type, shape);
    write_noise(out);
    return out;
  }
  TensorView integers(std::vector<std::int32_t> values) {
    const TensorView out = make(DType::kI32, {static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), out.as<std::int32_t>());
    return out;
  }
  void free_all() { buffers_.clear(); }

  // Median seconds of one execution.
  template <class... Op>
  double seconds(const Op&... op) {
    (ops::check(op), ...);
    const std::size_t bytes = std::max({backend_.workspace_bytes(op)...});
    const Buffer workspace = device_.allocate(std::max<std::size_t>(bytes, 64));
    std::vector<double> times;
    for (int i = 0; i <= options_.repeat; ++i) {
      const auto start = Clock::now();
      (backend_.execute(op, ops::Resources{stream_, workspace.data()}), ...);
      times.push_back(seconds_since(start));
    }
    times.erase(times.begin());  // warms caches and pages
    return median_of(times);
  }

  void show(Json line) {
    Json all{{"device", "cpu"},
             {"instruction_set", ops::cpu::name_of(backend_.instruction_set())},
             {"dtype", name_of(type_)},
             {"threads", options_.threads}};
    all.update(line);
    if (options_.json) return print_json_line(all);
    std::string text;
    for (const auto& [key, value] : line.items()) text += fmt::format("{} {}  ", key, value.dump());
    print(text + "\n");
  }
  static double rounded(double x) { return std::round(x * 1e4) / 1e4; }

  double matrix_peak();
  template <class... Op>
  void show_streaming(const char* name, double bytes, double peak, const Op&... op) {
    const double t = seconds(op...), rate = bytes / t;
    show({{"op", name},
          {"ms", rounded(t * 1e3)},
          {"gb_per_s", rounded(rate * 1e-9)},
          {"share_of_read_bandwidth", rounded(rate / peak)}});
  }

  const Options& options_;
  const DType type_;
  WorkerPool pool_;
  ops::cpu::CpuBackend backend_;
  HostDevice device_;
  InlineStream stream_;
  std::vector<Buffer> buffers_;
};

double OpsBench::matrix_peak() {
  const std::int64_t n = 2048;
  const ops::LinearForward op{random(type_, {n, n}), random(type_, {n, n}), {}, make(type_, {n, n})};
  const double rate = 2.0 * n * n * n / seconds(op);
  free_all();
  return rate;
}

void OpsBench::attention() {
  const double peak = matrix_peak();
  show({{"op", "matrix product"}, {"m", 2048}, {"n", 2048}, {"k", 2048}, {"tflops", rounded(peak * 1e-12)}});
  struct Case {
    std::int64_t b, h, s, d;
  };
  for (const Case& c : {Case{4, 12, 1024, 64}, Case{1, 12, 8192, 64}, Case{1, 16, 4096, 128}}) {
    const std::int64_t tokens = c.b * c.s;
    ops::AttentionForward forward;
    std::vector<std::int32_t> begin, count;
    for (std::int64_t i = 0; i <= c.b; ++i) begin.push_back(static_cast<std::int32_t>(i * c.s));
    count.assign(static_cast<std::size_t>(c.b), static_cast<std::int32_t>(c.s));
    forward.segments.q_begin = integers(begin);
    forward.segments.k_begin = integers(begin);
    forward.segments.k_count = integers(count);
    forward.segments.count = c.b;
    forward.segments.longest_q = forward.segments.longest_k = c.s;
    forward.options.scale = 1 / std::sqrt(static_cast<double>(c.d));
    const Shape shape{tokens, c.h, c.d};
    forward.q = random(type_, shape);
    forward.k = random(type_, shape);
    forward.v = random(type_, shape);
    forward.o = make(type_, shape);
    forward.lse = make(accumulation_type(type_), {tokens, c.h});
    ops::AttentionBackward backward;
    backward.options = forward.options;
    backward.segments = forward.segments;
    backward.q = forward.q, backward.k = forward.k, backward.v = forward.v;
    backward.o = forward.o, backward.lse = forward.lse;
    backward.dout = random(type_, shape);
    backward.dq = make(type_, shape), backward.dk = make(type_, shape), backward.dv = make(type_, shape);
    const double flops = 2.0 * static_cast<double>(c.b * c.h * c.s) * static_cast<double>(c.s * c.d);
    const auto line = [&](const char* name, double t, double work) {
      show({{"op", name},
            {"b", c.b},
            {"h", c.h},
            {"s", c.s},
            {"d", c.d},
            {"ms", rounded(t * 1e3)},
            {"tflops", rounded(work / t * 1e-12)},
            {"share_of_matrix_product", rounded(work / t / peak)}});
    };
    line("attention forward", seconds(forward), flops);
    line("attention forward+backward", seconds(forward, backward), 3.5 * flops);
    free_all();
  }
}

// The heads of Qwen3-Next 80B, a quarter and all of them; the short convolution belongs to either pass.
void OpsBench::linear_attention() {
  const double peak = matrix_peak();
  show({{"op", "matrix product"}, {"m", 2048}, {"n", 2048}, {"k", 2048}, {"tflops", rounded(peak * 1e-12)}});
  struct Case {
    std::int64_t texts, length, keys, values;
  };
  constexpr std::int64_t kWidth = 128, kTaps = 4;
  for (const Case& c : {Case{4, 1024, 4, 8}, Case{1, 4096, 16, 32}}) {
    const std::int64_t tokens = c.texts * c.length, columns = (2 * c.keys + c.values) * kWidth;
    std::vector<std::int32_t> begin;
    for (std::int64_t i = 0; i <= c.texts; ++i) begin.push_back(static_cast<std::int32_t>(i * c.length));
    const ops::Sequences texts{integers(begin), c.texts, c.length};
    const DType sum = accumulation_type(type_);
    const auto heads = [&](TensorView mixed, std::int64_t first, std::int64_t count) {
      return mixed.columns(first * kWidth, count * kWidth).reshape({tokens, count, kWidth});
    };
    const ops::ShortConvForward convolution{texts,
                                            random(type_, {tokens, columns}),
                                            random(sum, {columns, kTaps}),
                                            {},
                                            make(type_, {tokens, columns})};
    const TensorView mixed = convolution.y, dmixed = make(type_, mixed.shape);
    ops::GatedDeltaForward forward;
    forward.texts = texts;
    forward.q = heads(mixed, 0, c.keys), forward.k = heads(mixed, c.keys, c.keys);
    forward.v = heads(mixed, 2 * c.keys, c.values);
    forward.a = random(type_, {tokens, c.values}), forward.b = random(type_, {tokens, c.values});
    forward.decay = random(sum, {c.values}), forward.bias = random(sum, {c.values});
    forward.o = make(type_, {tokens, c.values, kWidth});
    ops::GatedDeltaBackward backward;
    backward.texts = texts;
    backward.q = forward.q, backward.k = forward.k, backward.v = forward.v;
    backward.a = forward.a, backward.b = forward.b, backward.decay = forward.decay,
    backward.bias = forward.bias;
    backward.dout = random(type_, forward.o.shape);
    backward.dq = heads(dmixed, 0, c.keys), backward.dk = heads(dmixed, c.keys, c.keys);
    backward.dv = heads(dmixed, 2 * c.keys, c.values);
    backward.da = make(type_, forward.a.shape), backward.db = make(type_, forward.b.shape);
    backward.ddecay = make(sum, {c.values}), backward.dbias = make(sum, {c.values});
    const ops::ShortConvBackward convolution_backward{texts,
                                                      convolution.x,
                                                      convolution.weight,
                                                      dmixed,
                                                      make(type_, mixed.shape),
                                                      make(sum, {columns, kTaps})};
    const double once = ops::matrix_flops(forward);
    const auto line = [&](const char* name, double t, double work) {
      show({{"op", name},
            {"b", c.texts},
            {"s", c.length},
            {"key_heads", c.keys},
            {"value_heads", c.values},
            {"d", kWidth},
            {"ms", rounded(t * 1e3)},
            {"tflops", rounded(work / t * 1e-12)},
            {"share_of_matrix_product", rounded(work / t / peak)}});
    };
    line("linear attention forward", seconds(convolution, forward), once);
    line("linear attention forward+backward", seconds(convolution, forward, backward, convolution_backward),
         once + ops::matrix_flops(backward));
    free_all();
  }
}

// The shapes of GPT-2 124M with 4 x 1024 tokens; residual stream in fp32.
void OpsBench::streaming() {
  const std::int64_t tokens = 4096, width = 768, inner = 3072, vocabulary = 50257, rows = 512;
  const auto size = static_cast<double>(size_of(type_));
  const TensorView state = make(DType::kF64, {static_cast<std::int64_t>(ops::StepSlot::kCount)});
  const auto slot = [&](ops::StepSlot s) -> double& { return state.as<double>()[static_cast<int>(s)]; };
  slot(ops::StepSlot::kLossSeed) = slot(ops::StepSlot::kGradFactor) = slot(ops::StepSlot::kUpdates) = 1;
  slot(ops::StepSlot::kLearningRate) = 1e-3;

  const TensorView big = make(DType::kF32, {std::int64_t{1} << 27});  // 512 MiB
  const double peak =
      static_cast<double>(big.bytes()) /
      seconds(ops::SumSquares{big, make(DType::kF64, {big.elements() / ops::SumSquares::kBlock}), {}});
  show({{"op", "read-only sum (sum squares)"}, {"mib", 512}, {"gb_per_s", rounded(peak * 1e-9)}});

  const auto elements = static_cast<double>(tokens * width);
  ops::NormForward norm;
  norm.x = random(DType::kF32, {tokens, width});
  norm.branch = random(type_, {tokens, width});
  norm.sum = make(DType::kF32, {tokens, width});
  norm.gamma = random(DType::kF32, {width});
  norm.beta = random(DType::kF32, {width});
  norm.y = make(type_, {tokens, width});
  norm.stats = make(DType::kF32, {tokens, 2});
  show_streaming("norm forward", elements * (4 + 4 + 2 * size), peak, norm);
  ops::NormForward dropped = norm;
  dropped.dropout.p = 0.1f;
  show_streaming("norm forward with dropout", elements * (4 + 4 + 2 * size), peak, dropped);
  ops::NormBackward back;
  back.x = norm.sum, back.stats = norm.stats, back.gamma = norm.gamma;
  back.dy = random(type_, {tokens, width});
  back.dresidual = random(DType::kF32, {tokens, width});
  back.dx = make(DType::kF32, {tokens, width});
  back.dbranch = make(type_, {tokens, width});
  back.dgamma = make(DType::kF32, {width});
  back.dbeta = make(DType::kF32, {width});
  show_streaming("norm backward", elements * (12 + 2 * size), peak, back);

  const auto inner_elements = static_cast<double>(tokens * inner);
  ops::ActivationForward act{ops::ActivationKind::kGeluTanh, false, random(type_, {tokens, inner}),
                             make(type_, {tokens, inner})};
  show_streaming("gelu_tanh forward", inner_elements * 2 * size, peak, act);
  const ops::ActivationBackward act_back{act.kind, false, act.x, random(type_, {tokens, inner}),
                                         make(type_, {tokens, inner})};
  show_streaming("gelu_tanh backward", inner_elements * 3 * size, peak, act_back);
  act.kind = ops::ActivationKind::kGelu;
  show_streaming("gelu forward", inner_elements * 2 * size, peak, act);

  ops::CrossEntropy loss;
  loss.logits = random(type_, {rows, vocabulary});
  loss.labels = make(DType::kI32, {rows});
  loss.loss_mask = make(DType::kF32, {rows});
  std::fill_n(loss.loss_mask.as<float>(), rows, 1.0f);
  loss.vocabulary = vocabulary;
  loss.state = state;
  loss.losses = make(DType::kF32, {rows});
  show_streaming("cross entropy", static_cast<double>(rows * vocabulary) * 2 * size, peak, loss);

  const std::int64_t parameters = std::int64_t{1} << 25;
  const Shape flat{parameters};
  ops::AdamUpdate adam;
  adam.master = random(DType::kF32, flat), adam.gradient = random(DType::kF32, flat);
  adam.m = make(DType::kF32, flat), adam.v = make(DType::kF32, flat), adam.compute = make(type_, flat);
  adam.state = state;
  show_streaming("adam update", static_cast<double>(parameters) * (28 + size), peak, adam);
  show_streaming("cast fp32", static_cast<double>(parameters) * (4 + size), peak,
                 ops::Cast{adam.master, adam.compute});

  ops::EmbeddingForward embed;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens)), positions(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(i * 7919 % 50257);
    positions[i] = static_cast<std::int32_t>(i % 1024);
  }
  embed.tokens = integers(ids);
  embed.positions = integers(positions);
  embed.table = make(type_, {vocabulary, width});
  embed.position_table = make(type_, {1024, width});
  embed.y = make(DType::kF32, {tokens, width});
  show_streaming("embedding forward", elements * (2 * size + 4), peak, embed);
  ops::EmbeddingBackward embed_back;
  embed_back.tokens = embed.tokens, embed_back.positions = embed.positions;
  embed_back.dy = embed.y;
  embed_back.dtable = make(DType::kF32, {vocabulary, width});
  embed_back.dposition_table = make(DType::kF32, {1024, width});
  show_streaming("embedding backward", elements * 20, peak, embed_back);
  free_all();
}

}  // namespace

void add_bench_ops(CLI::App& bench, Context&) {
  CLI::App* command = bench.add_subcommand("ops", "Speed of single operations");
  auto options = std::make_shared<Options>();
  command->add_option("what", options->what, "attention, streaming (default: both), linear_attention")
      ->check(CLI::IsMember({"attention", "streaming", "linear_attention"}));
  command->add_option("--threads", options->threads, "Workers")->check(CLI::Range(1, 1024));
  command->add_option("--repeat", options->repeat, "Measured executions of each operation")
      ->check(CLI::Range(1, 1000));
  command->add_option("--dtype", options->dtype, "bf16, fp16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  command->add_option("--instruction-set", options->instruction_set,
                      "portable, avx2, avx512, avx512-bf16 or amx-bf16 (default: the best)");
  command->add_flag("--json", options->json, "One JSON object per line");
  command->callback([options] {
    OpsBench measure(*options);
    for (const std::string& what : options->what) {
      if (what == "attention")
        measure.attention();
      else if (what == "linear_attention")
        measure.linear_attention();
      else
        measure.streaming();
    }
  });
}

}  // namespace stoa::cli
