// Layouts over processes beside the same layouts over threads, in every bit: run by `mpirun -n N` or with
// RANK and WORLD_SIZE. Arguments: few | all, and how many random layouts (of GPTs, and as many of families).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>

#include "../layouts/family_runs.h"
#include "base/error.h"
#include "comm/mpi/mpi_link.h"
#include "comm/processes/process_launch.h"
#include "comm/tcp/tcp_link.h"
#include "schedule/generators.h"

namespace stoa::layouts {
namespace {

struct Case {
  std::string name;
  TestRun run;
  run::Layout layout;
};

using Values = std::map<std::string, std::vector<double>>;

// What must not depend on how the ranks are joined.
Values values_of(const RunResult& result) {
  Values values{{"loss", result.losses}, {"norm", result.norms}, {"evaluation", {result.evaluation}}};
  for (const auto& [name, tensor] : result.gradients) values["gradient of " + name] = tensor;
  for (const auto& [name, tensor] : result.weights) values["weight of " + name] = tensor;
  return values;
}

template <class T>
void put(std::string& out, const T* data, std::size_t count) {
  out.append(reinterpret_cast<const char*>(data), count * sizeof(T));
}

std::string bytes_of(const Values& values) {
  std::string out;
  for (const auto& [name, numbers] : values) {
    const std::uint64_t sizes[] = {name.size(), numbers.size()};
    put(out, sizes, 2);
    out += name;
    put(out, numbers.data(), numbers.size());
  }
  return out;
}

Values values_in(const std::string& bytes) {
  Values values;
  for (const char* at = bytes.data(); at != bytes.data() + bytes.size();) {
    std::uint64_t sizes[2];
    std::memcpy(sizes, at, sizeof sizes);
    at += sizeof sizes;
    std::vector<double>& numbers = values[std::string(at, sizes[0])];
    at += sizes[0];
    numbers.resize(sizes[1]);
    std::memcpy(numbers.data(), at, sizes[1] * sizeof(double));
    at += sizes[1] * sizeof(double);
  }
  return values;
}

// The first value of this rank that is not that of the threads; empty when all are.
std::string difference(const Values& threads, const Values& own) {
  for (const auto& [name, numbers] : own) {
    const auto found = threads.find(name);
    if (found == threads.end() || found->second.size() != numbers.size())
      return fmt::format("{} has another size", name);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!std::isnan(numbers[i]) &&
          std::bit_cast<std::uint64_t>(numbers[i]) != std::bit_cast<std::uint64_t>(found->second[i]))
        return fmt::format("{}[{}] is {:.17g}, of threads {:.17g}", name, i, numbers[i], found->second[i]);
  }
  return {};
}

TestRun small_run(int layers) {
  TestRun run = tiny_run();
  run.config.num_layers = layers;
  run.config.encoder_seq_length = 16;
  run.config.num_query_groups = 4;
  run.steps = 2;
  return run;
}

// Every schedule with all ranks as stages, or two replicas of half as many.
std::vector<Case> schedules(int ranks, bool all) {
  const std::vector<std::string_view> some{"1f1b", "interleaved", "zb-v", "dualpipev"};
  std::vector<Case> cases;
  for (const std::string& schedule : schedule::run_schedule_names())
    for (const int data : {1, 2}) {
      const int stages = ranks / data;
      if (ranks % data != 0 || stages < 2 || (!all && data == 2)) continue;
      if (!all && std::find(some.begin(), some.end(), schedule) == some.end()) continue;
      Case c{fmt::format("{} of {} stages, dp {}", schedule, stages, data), {}, pipeline(stages, schedule)};
      c.layout.grid = layout_of(1, 1, 1, data, stages).grid;
      const bool free = schedule == "interleaved" || schedule == "bfs" || schedule == "interleaved-zb";
      c.layout.chunks = free ? 2 : 0;
      c.run = small_run(2 * stages);
      c.run.rows = 2 * stages * data;
      if (schedule.starts_with("zb")) c.run.config.share_embeddings_and_output_weights = false;
      cases.push_back(std::move(c));
    }
  return cases;
}

class Dice {
 public:
  explicit Dice(int seed) : random_(static_cast<std::uint32_t>(seed)) {}
  template <class T>
  T of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }
  bool toss() { return random_() % 2 == 0; }

 private:
  std::mt19937 random_;
};

// Each family in pipelines of four, three and two stages, alone or beside other axes.
std::vector<Case> families(int ranks, bool all) {
  const std::vector<std::string_view> some{"norms after rotation, layers without it", "Qwen3-Next of experts",
                                           "gpt-oss", "BERT"};
  std::vector<Case> cases;
  for (const FamilyRun& family : family_runs()) {
    if (!all && std::find(some.begin(), some.end(), family.name) == some.end()) continue;
    const auto add = [&](int tensor, int data, int stages, std::string schedule, int chunks = 0) {
      Case c{fmt::format("{}: tp {}, dp {}, pp {} {}", family.name, tensor, data, stages, schedule),
             family.run,
             {}};
      const bool experts = family.run.config.moe.num_moe_experts.has_value() && data > 1;
      c.layout.grid = grid::RankGrid({tensor, 1, 1, data, stages},
                                     experts ? grid::ExpertDegrees{1, data} : grid::ExpertDegrees{});
      c.layout.sequence_parallel = tensor > 1;
      c.layout.schedule = std::move(schedule);
      c.layout.chunks = chunks;
      c.layout.zero_stage = data > 1 ? 2 : 0;
      c.layout.bucket_bytes = 20000;
      c.layout = with_spread_layers(c.layout, family.run.config.num_layers);
      c.run.rows = c.run.micro_batch * data * stages * 2;
      c.run.steps = 2;
      cases.push_back(std::move(c));
    };
    if (!all) {
      add(1, 1, ranks, "1f1b");
      continue;
    }
    for (const int stages : {4, 3, 2}) {
      if (ranks % stages != 0) continue;
      const int others = ranks / stages;
      if (others == 1) {
        add(1, 1, stages, "1f1b");
        add(1, 1, stages, "interleaved", 2);
        add(1, 1, stages, "zb-v");
      } else if (others == 2) {
        add(2, 1, stages, "1f1b");
        add(1, 2, stages, "zb-h1");
      } else if (others == 4) {
        add(2, 2, stages, "1f1b");
      }
    }
  }
  return cases;
}

TestRun random_gpt(Dice& dice, int layers) {
  TestRun run = small_run(layers);
  model::ModelConfig& m = run.config;
  run.packed = dice.toss();
  m.num_query_groups = dice.of<std::int64_t>({2, 4});
  m.share_embeddings_and_output_weights = dice.toss();
  if (dice.toss()) {
    m.bias = model::BiasKind::kNone;
    m.moe.num_moe_experts = 4;
    m.moe.moe_ffn_hidden_size = 12;
    m.moe.moe_aux_loss_coeff = 0.02;
  }
  return run;
}

// Not every one can run.
Case random_case(Dice& dice, int ranks, bool family) {
  const auto divisor = [&](int of) {
    std::vector<int> divisors;
    for (int d = 1; d <= of; ++d)
      if (of % d == 0) divisors.push_back(d);
    return dice.of(divisors);
  };
  const int stages = divisor(ranks), tensor = divisor(ranks / stages),
            context = divisor(ranks / stages / tensor), data = ranks / stages / tensor / context;
  Case c;
  if (family) {
    const FamilyRun& drawn = dice.of(family_runs());
    c.name = drawn.name;
    c.run = drawn.run;
    c.run.steps = 2;
  } else {
    c.name = "GPT";
    c.run = random_gpt(dice, 2 * stages);
  }
  c.run.micro_batch = dice.of<std::int64_t>({1, 2});
  c.run.rows = c.run.micro_batch * data * stages * dice.of<std::int64_t>({1, 2});
  if (family) c.run.rows *= 4;  // of a few short rows an encoder may have no token to predict
  const bool experts = c.run.config.moe.num_moe_experts.has_value();
  const int parts = divisor(tensor * context * data);  // of an expert
  c.layout.grid = grid::RankGrid(
      {tensor, context, 1, data, stages},
      experts ? grid::ExpertDegrees{parts, divisor(std::gcd(4, tensor * context * data / parts))}
              : grid::ExpertDegrees{});
  c.layout.sequence_parallel = tensor > 1 && dice.toss();
  c.layout.context_kind = dice.of<parallel::ContextKind>(
      {parallel::ContextKind::kRing, parallel::ContextKind::kAllGather, parallel::ContextKind::kAllToAll});
  c.layout.schedule = dice.of(schedule::run_schedule_names());
  c.layout.chunks = c.layout.schedule == "interleaved" || c.layout.schedule == "bfs" ||
                            c.layout.schedule == "interleaved-zb"
                        ? 2
                        : 0;
  c.layout.zero_stage = dice.of<int>({0, 1, 2, 3});
  c.layout.bucket_bytes = 20000;
  c.layout.overlap_grad_reduce = dice.toss();
  if (family) c.layout = with_spread_layers(c.layout, c.run.config.num_layers);
  c.name = fmt::format("random: {}, tp {}{}, cp {} {}, pp {} {}, dp {} zero {}{}{}{}", c.name, tensor,
                       c.layout.sequence_parallel ? " sequence" : "", context,
                       static_cast<int>(c.layout.context_kind), stages, c.layout.schedule, data,
                       c.layout.zero_stage, c.layout.overlap_grad_reduce ? " overlapped" : "",
                       experts ? ", experts" : "", c.run.packed ? ", packed" : "");
  return c;
}

// What the threads make of it, on every rank; nothing where such a layout cannot run.
std::optional<Values> of_threads(const Case& c, comm::ProcessWorld& world) {
  std::string bytes;
  if (world.rank() == 0) {
    try {
      const RunResult result = run_layout(c.run, c.layout);
      if (!result.faults.empty())
        fail<InternalError>("{}: threads: {}", c.name, fmt::join(result.faults, "; "));
      bytes = bytes_of(values_of(result));
    } catch (const ConfigError&) {
    }
  }
  bytes = world.text_of(0, bytes);
  if (bytes.empty()) return std::nullopt;
  return values_in(bytes);
}

// False: this layout cannot run.
bool compare(const Case& c, comm::ProcessWorld& world) {
  const auto threads = of_threads(c, world);
  if (!threads) return false;
  if (world.rank() == 0) std::printf("%s\n", c.name.c_str()), std::fflush(stdout);
  const RunResult own = run_process(c.run, c.layout, world);
  require<InternalError>(own.faults.empty(), "{}: {}", c.name, fmt::join(own.faults, "; "));
  const std::string wrong = difference(*threads, values_of(own));
  require<InternalError>(wrong.empty(), "{}: {}", c.name, wrong);
  return true;
}

std::unique_ptr<comm::ProcessLink> open_link() {
  const comm::ProcessLaunch launch = comm::process_launch();
  return launch.meeting ? comm::open_tcp_link(*launch.meeting, "test") : comm::open_mpi_link();
}

int run_all(bool all, int random) {
  comm::ProcessWorld world(open_link());
  try {
    int done = 0;
    for (const Case& c : schedules(world.size(), all)) {
      require<InternalError>(compare(c, world), "{}: no such layout", c.name);
      ++done;
    }
    for (const Case& c : families(world.size(), all)) {
      require<InternalError>(compare(c, world), "{}: no such layout", c.name);
      ++done;
    }
    Dice dice(world.size());
    for (const bool family : {false, true})
      for (int drawn = 0; drawn < random;)
        if (compare(random_case(dice, world.size(), family), world)) ++drawn, ++done;
    if (world.rank() == 0) std::printf("%d layouts of %d ranks, equal to threads\n", done, world.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAILED %s: %s\n", world.rank_name(world.rank()).c_str(), error.what());
    world.abort(error.what());
    world.end_job(1);
  }
  world.finish();
  return 0;
}

}  // namespace
}  // namespace stoa::layouts

int main(int argc, char** argv) {
  return stoa::layouts::run_all(argc > 1 && std::string_view(argv[1]) == "all",
                                argc > 2 ? std::atoi(argv[2]) : 2);
}
