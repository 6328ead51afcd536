// `stoa bench collectives`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/timing.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/machine_factory.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "train/launch.h"

namespace stoa::cli {
namespace {

struct BenchCollectivesArguments {
  std::optional<std::int64_t> ranks;
  std::int64_t smallest = 1 << 10, largest = 64 << 20;  // bytes
  double seconds = 0.3;                                 // per figure
  bool json = false;
};

enum class Collective { kAllReduce, kAllGather, kReduceScatter };
constexpr std::pair<Collective, const char*> kCollectives[] = {
    {Collective::kAllReduce, "all_reduce"},
    {Collective::kAllGather, "all_gather"},
    {Collective::kReduceScatter, "reduce_scatter"}};

struct Figure {
  const char* operation;
  std::int64_t bytes;   // of the whole tensor: a rank's part of a gather or a scatter is 1 / ranks of it
  double microseconds;  // median over the calls of rank 0
};

// A tensor of `bytes` in fp32, many times; all ranks call the same number of times.
double measure(comm::Communicator& group, Device& device, Stream& stream, Collective collective,
               std::int64_t bytes, double seconds) {
  const std::int64_t part = std::max<std::int64_t>(bytes / 4 / group.size(), 1), whole = part * group.size();
  const Buffer a = device.allocate(static_cast<std::size_t>(whole) * 4),
               b = device.allocate(static_cast<std::size_t>(part) * 4);
  device.fill_zero(a.data(), a.bytes(), stream);
  device.fill_zero(b.data(), b.bytes(), stream);
  const TensorView all(a.data(), DType::kF32, {whole}), mine(b.data(), DType::kF32, {part});
  const auto call = [&] {
    const auto begin = std::chrono::steady_clock::now();
    switch (collective) {
      case Collective::kAllReduce:
        group.all_reduce(all, comm::ReduceOp::kSum, stream)->wait();
        break;
      case Collective::kAllGather:
        group.all_gather(mine, all, stream)->wait();
        break;
      case Collective::kReduceScatter:
        group.reduce_scatter(all, mine, stream)->wait();
        break;
    }
    return seconds_since(begin);
  };
  call();  // memory is touched
  group.barrier();
  // The slowest rank decides how many calls fit the time.
  float count = static_cast<float>(seconds / std::max(call(), 1e-7));
  group.all_reduce(TensorView(&count, DType::kF32, {1}), comm::ReduceOp::kMax, stream)->wait();
  std::vector<double> times(static_cast<std::size_t>(std::clamp(count, 9.0f, 20000.0f)));
  for (double& time : times) time = call();
  group.barrier();
  return median_of(times);
}

void bench_collectives(const BenchCollectivesArguments& arguments) {
  require<ConfigError>(arguments.smallest >= 4 && arguments.smallest <= arguments.largest,
                       "--smallest {} and --largest {}: bytes, at least 4, the first not above the second",
                       arguments.smallest, arguments.largest);
  train::Launch launch(build_name());
  const int ranks = static_cast<int>(launch.agreed_ranks(arguments.ranks).value_or(2));
  const grid::RankGrid grid({1, 1, 1, ranks, 1});
  std::vector<Figure> figures;  // of rank 0
  launch.run(grid, {}, [&](train::Seat& seat) {
    MachineOptions options;
    options.threads = 1;
    infer::Machine machine = make_machine(options);
    const parallel::ParallelContext context = seat.context(*machine.device);
    for (const auto& [collective, name] : kCollectives)
      for (std::int64_t bytes = arguments.smallest; bytes <= arguments.largest; bytes *= 4) {
        const double seconds = measure(context.along(parallel::Group::kWorld), *machine.device,
                                       *machine.stream, collective, bytes, arguments.seconds);
        if (seat.first()) figures.push_back({name, bytes, seconds * 1e6});
      }
  });
  for (const Figure& f : figures) {
    const double rate = static_cast<double>(f.bytes) / f.microseconds * 1e-3;
    if (arguments.json)
      print_json_line(nlohmann::ordered_json{{"operation", f.operation},
                                             {"bytes", f.bytes},
                                             {"ranks", ranks},
                                             {"communicator", launch.kind()},
                                             {"microseconds", f.microseconds},
                                             {"gb_per_second", rate}});
    else
      print(fmt::format("{:14} {:>10} bytes  {:>11.2f} us  {:>7.2f} GB/s\n", f.operation, f.bytes,
                        f.microseconds, rate));
  }
}

}  // namespace

void add_bench_collectives(CLI::App& bench, Context&) {
  auto arguments = std::make_shared<BenchCollectivesArguments>();
  CLI::App* command = bench.add_subcommand("collectives",
                                           "Collectives between ranks: threads, or processes of a launcher. "
                                           "Example: stoa bench collectives --ranks 2");
  command->add_option("--ranks,--gpus", arguments->ranks, "Ranks (default 2)")->check(between(1, 1024));
  command
      ->add_option("--smallest", arguments->smallest,
                   "Bytes of the first tensor; each is four times the last")
      ->capture_default_str()
      ->check(between(1, 1e12));
  command->add_option("--largest", arguments->largest, "Bytes of the last tensor")
      ->capture_default_str()
      ->check(between(1, 1e12));
  command->add_option("--seconds", arguments->seconds, "Time per figure")
      ->capture_default_str()
      ->check(between(1e-6, 3600));
  command->add_flag("--json", arguments->json, "One JSON object per figure");
  command->callback([arguments] { bench_collectives(*arguments); });
}

}  // namespace stoa::cli
