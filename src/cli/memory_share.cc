#include "cli/memory_share.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/timing.h"
#include "infer/engine/single_text.h"
#include "ops/cpu/measure.h"

namespace stoa::cli {
namespace {

constexpr std::size_t kMemoryBytes = std::size_t{1} << 30;
constexpr std::int64_t kPrompt = 32;

// Bytes of weights that every token reads. Tables of which it reads a single row do not count.
double weight_bytes(infer::PagedDecoder& decoder) {
  optim::ParameterStore& parameters = decoder.chunk().parameters();
  const bool tied = decoder.options().model.config.ties_head();
  double bytes = 0;
  for (int p = 0; p < std::ssize(parameters.specs()); ++p) {
    const std::string& name = parameters.specs()[static_cast<std::size_t>(p)].name;
    if (!name.starts_with("embedding.") || (tied && name == "embedding.tokens.weight"))
      bytes += static_cast<double>(parameters.get({p}).bytes());
  }
  return bytes;
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

ReadMemory::ReadMemory(infer::Machine& machine, ops::cpu::InstructionSet isa)
    : machine_(machine), isa_(isa), memory_(machine.device->allocate(kMemoryBytes)) {
  machine.device->fill_zero(memory_.data(), memory_.bytes(), *machine.stream);
}

double ReadMemory::bytes_per_second() const {
  const auto floats = static_cast<std::int64_t>(memory_.bytes() / sizeof(float));
  return ops::cpu::read_bandwidth(TensorView(memory_.data(), DType::kF32, {floats}), isa_, *machine_.pool, 1);
}

std::optional<MemoryShare> measure_memory_share(infer::PagedDecoder& decoder, ops::cpu::InstructionSet isa,
                                                int rounds) {
  infer::Machine& machine = decoder.chunk().machine();
  if (machine.device->kind() != DeviceKind::kHost || !machine.pool) return std::nullopt;
  const infer::PassLimits& limits = decoder.limits();
  const std::int64_t prompt = std::min(kPrompt, limits.longest() - limits.virtual_tokens - 1);
  const ReadMemory memory(machine, isa);
  MemoryShare out;
  const infer::PagedModel::Options& options = decoder.options();
  out.token_bytes = weight_bytes(decoder) +
                    static_cast<double>(prompt) *
                        static_cast<double>(infer::bytes_per_token(options.model.config, options.kept()));
  infer::SingleText text(decoder);
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(prompt));
  const std::int32_t token = 0;
  std::vector<double> rates, shares;
  for (int round = 0; round <= rounds; ++round) {
    if (text.rewind(prompt) < prompt) text.feed(tokens);
    const double rate = memory.bytes_per_second();
    const auto start = std::chrono::steady_clock::now();
    text.feed({&token, 1});
    const double seconds = seconds_since(start);
    if (round == 0) continue;  // memory is touched
    rates.push_back(rate);
    shares.push_back(out.token_bytes / rate / seconds);
  }
  std::ranges::sort(rates);
  std::ranges::sort(shares);
  out.read_rate = quantile(rates, 0.5);
  out.share = quantile(shares, 0.5);
  out.least = quantile(shares, 0.25);
  out.most = quantile(shares, 0.75);
  return out;
}

}  // namespace stoa::cli
