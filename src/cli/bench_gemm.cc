// `stoa bench gemm`: rates of the matrix products next to the machine's register peak and memory bandwidth.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/console.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/machine_factory.h"
#include "cli/noise.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/turns.h"
#include "ops/cpu/measure.h"
#include "ops/op_context.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchGemmArguments {
  MachineOptions machine;
  std::string dtype = "bf16";
  int repeats = 7;
  double gibibytes = 2;
  bool json = false, stepwise = false;
};

struct Product {
  std::int64_t m, n, k;  // tokens, outputs, inputs
};
// The sizes whose best rate is reported as gemm_tflops.
constexpr Product kProducts[] = {{4096, 3072, 768}, {4096, 768, 3072}, {768, 3072, 4096}, {4096, 4096, 4096}};
// One token through the matrices of GPT-2 124M: a block's four and the head.
constexpr Product kDecode[] = {
    {1, 2304, 768}, {1, 768, 768}, {1, 3072, 768}, {1, 768, 3072}, {1, 50257, 768}};

struct Times {
  double best, median;
};

template <class Body>
Times time_of(int repeats, Body&& body) {
  std::vector<double> seconds;
  body();  // memory is touched, caches and clocks are warm
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    seconds.push_back(seconds_since(begin));
  }
  return {*std::min_element(seconds.begin(), seconds.end()), median_of(seconds)};
}

class GemmBench {
 public:
  GemmBench(infer::Machine& machine, DType type, int repeats)
      : machine_(machine), type_(type), repeats_(repeats) {}

  TensorView random(std::int64_t rows, std::int64_t columns) {
    const TensorView t = empty(type_, rows, columns);
    write_noise(t);
    return t;
  }
  TensorView empty(DType type, std::int64_t rows, std::int64_t columns) {
    memory_.push_back(machine_.device->allocate(static_cast<std::size_t>(rows * columns) * size_of(type)));
    machine_.device->fill_zero(memory_.back().data(), memory_.back().bytes(), *machine_.stream);
    return TensorView(memory_.back().data(), type, {rows, columns});
  }
  void release() { memory_.clear(); }

  template <class Op>
  Times time(const Op& op) {
    return with_runs(op, [&](const auto& run) { return time_of(repeats_, run); });
  }
  // Steps of all repeats, until the caller's input ends.
  template <class Op>
  void take_turns(const Op& op) {
    with_runs(op, [&](const auto& run) {
      for (std::int64_t step = 0; await_turn(); ++step) {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats_; ++i) run();
        tell_turn(step, seconds_since(begin));
      }
    });
  }

 private:
  // body(run), where run() executes the operation.
  template <class Op, class Body>
  auto with_runs(const Op& op, const Body& body) {
    const std::size_t bytes = machine_.backend->workspace_bytes(op) + Arena::kAlignment;
    Buffer workspace = machine_.device->allocate(bytes);
    Scratch scratch(TensorView(workspace.data(), DType::kU8, {static_cast<std::int64_t>(bytes)}));
    ops::OpContext context{*machine_.backend, *machine_.stream, scratch};
    return body([&] { ops::run(context, op); });
  }

  infer::Machine& machine_;
  const DType type_;
  const int repeats_;
  std::vector<Buffer> memory_;
};

Json rate(const char* op, const Product& p, const Times& t) {
  const double flops = 2.0 * static_cast<double>(p.m * p.n) * static_cast<double>(p.k) * 1e-12;
  return {{"op", op},
          {"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"tflops", flops / t.best},
          {"median_tflops", flops / t.median}};
}

void print_rates(const Json& result) {
  const double peak = result["register_peak_tflops"];
  print(fmt::format("{}, {}\n", result["machine"].get<std::string>(), result["dtype"].get<std::string>()));
  for (const auto& r : result["products"])
    print(fmt::format(
        "{:16} {:5} x {:5} x {:5}  {:.4f} TFLOP/s (median {:.4f}), {:.0f} % of the registers' peak\n",
        r["op"].get<std::string>(), r["m"].get<std::int64_t>(), r["n"].get<std::int64_t>(),
        r["k"].get<std::int64_t>(), r["tflops"].get<double>(), r["median_tflops"].get<double>(),
        100 * r["tflops"].get<double>() / peak));
  print(fmt::format("gemm_tflops          {:.4f} (the best forward GEMM)\n",
                    result["gemm_tflops"].get<double>()));
  print(fmt::format("register peak        {:.4f} TFLOP/s\n", peak));
  print(fmt::format("read bandwidth       {:.2f} GB/s\n", result["read_gigabytes_per_second"].get<double>()));
  print(fmt::format("one token            {:.2f} GB/s of weights, {:.0f} % of the read bandwidth\n",
                    result["decode_gigabytes_per_second"].get<double>(),
                    100 * result["decode_gigabytes_per_second"].get<double>() /
                        result["read_gigabytes_per_second"].get<double>()));
}

void bench_gemm(const BenchGemmArguments& arguments, Context& context) {
  require<ConfigError>(arguments.repeats >= 1, "--repeat must be at least 1, got {}", arguments.repeats);
  require<ConfigError>(arguments.gibibytes > 0, "--memory must be above 0 GiB, got {}", arguments.gibibytes);
  const DType type = dtype_from_name(arguments.dtype);
  require<ConfigError>(is_float(type) && type != DType::kF64, "--dtype must be bf16, fp16 or fp32, got {}",
                       arguments.dtype);
  const auto isa = choose_instruction_set(arguments.machine.instruction_set);
  MachineOptions options = arguments.machine;
  options.instruction_set = ops::cpu::name_of(isa);
  infer::Machine machine = make_machine(options);
  GemmBench bench(machine, type, arguments.repeats);
  if (arguments.stepwise) {
    constexpr Product p = kProducts[3];
    return bench.take_turns(
        ops::LinearForward{bench.random(p.m, p.k), bench.random(p.n, p.k), {}, bench.empty(type, p.m, p.n)});
  }
  double best = 0;
  // Before and after: the higher one, on a machine that others use too.
  double peak = ops::cpu::register_tflops(isa, type, *machine.pool);
  Json products = Json::array();
  for (const auto& p : kProducts) {
    context.console.live(fmt::format("{} x {} x {}", p.m, p.n, p.k));
    const TensorView x = bench.random(p.m, p.k), w = bench.random(p.n, p.k), dy = bench.random(p.m, p.n);
    const TensorView y = bench.empty(type, p.m, p.n), dx = bench.empty(type, p.m, p.k);
    const TensorView dw = bench.empty(accumulation_type(type), p.n, p.k);
    products.push_back(rate("forward", p, bench.time(ops::LinearForward{x, w, {}, y})));
    best = std::max(best, products.back()["tflops"].get<double>());
    products.push_back(rate("input gradient", p, bench.time(ops::LinearBackwardInput{dy, w, dx, false})));
    products.push_back(
        rate("weight gradient", p, bench.time(ops::LinearBackwardWeight{x, dy, dw, {}, true})));
    bench.release();
  }
  peak = std::max(peak, ops::cpu::register_tflops(isa, type, *machine.pool));

  context.console.live("memory");
  const auto floats = static_cast<std::int64_t>(arguments.gibibytes * 0x1p28);
  const TensorView memory = bench.empty(DType::kF32, floats, 1);
  const double bandwidth =
      ops::cpu::read_bandwidth(memory.reshape({floats}), isa, *machine.pool, arguments.repeats);
  bench.release();
  // All twelve blocks, so that no cache holds them.
  std::vector<ops::LinearForward> layers;
  double weights = 0;
  for (int block = 0; block < 12; ++block)
    for (const auto& p : kDecode) {
      if (p.n == 50257 && block != 0) continue;
      layers.push_back(
          {bench.random(p.m, p.k), bench.empty(type, p.n, p.k), {}, bench.empty(type, p.m, p.n)});
      weights += static_cast<double>(layers.back().w.bytes());
    }
  const Times decode = time_of(arguments.repeats, [&] {
    for (const auto& layer : layers) machine.backend->execute(layer, {*machine.stream, nullptr});
  });
  context.console.finish_live();
  const Json result{{"machine", machine.description},
                    {"dtype", std::string(name_of(type))},
                    {"threads", machine.pool->size()},
                    {"gemm_tflops", best},
                    {"register_peak_tflops", peak},
                    {"read_gigabytes_per_second", bandwidth * 1e-9},
                    {"decode_gigabytes_per_second", weights / decode.best * 1e-9},
                    {"products", products}};
  if (arguments.json)
    print_json_line(result);
  else
    print_rates(result);
}

}  // namespace

void add_bench_gemm(CLI::App& bench, Context& context) {
  auto arguments = std::make_shared<BenchGemmArguments>();
  CLI::App* command = bench.add_subcommand("gemm",
                                           "GEMM speed, compared with the machine's own peak. Example: stoa "
                                           "bench gemm --dtype bf16 --threads 2 --json");
  command->add_option("--dtype", arguments->dtype, "bf16, fp16 or fp32")->capture_default_str();
  command->add_option("--threads", arguments->machine.threads, "Worker threads (default: one per core)")
      ->check(thread_count());
  command->add_option("--instruction-set", arguments->machine.instruction_set, "Force an instruction set");
  command->add_option("--repeat", arguments->repeats, "Number of measurements; the best is reported")
      ->capture_default_str()
      ->check(between(1, 1e6));
  command->add_option("--memory", arguments->gibibytes, "GiB read to find the bandwidth")
      ->capture_default_str()
      ->check(between(0, 1024));
  command->add_flag("--stepwise", arguments->stepwise,
                    "Instead, steps of --repeat forward GEMMs of 4096 x 4096 x 4096. A step waits for a line "
                    "on standard input and prints a line of JSON when it is done, until the input ends, so "
                    "that programs can alternate");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->callback([arguments, &context] { bench_gemm(*arguments, context); });
}

}  // namespace stoa::cli
