#include "ops/cuda/self_check.h"

#include <algorithm>
#include <chrono>

#include "ops/cuda/known_operations.h"

namespace stoa::ops::cuda {
namespace {

// So few blocks compute by warpgroups during the check that each has several tiles, as in a model.
constexpr int kFewBlocks = 3;

struct Replaceable {
  Part part;
  const char* computes;
  const char* name;
  const char* instead;
  bool (*chosen)(const KernelChoice&);
  void (*drop)(KernelChoice&);
};
constexpr Replaceable kReplaceable[] = {
    {Part::kExperts, "products of experts", "products of experts by warpgroups",
     "tiles of warps, which are slower, take their place",
     [](const KernelChoice& kernels) { return kernels.warpgroup_blocks > 0; },
     [](KernelChoice& kernels) { kernels.warpgroup_blocks = 0; }},
    {Part::kFewTokens, "products of few tokens", "products of few tokens", "cuBLASLt takes their place",
     [](const KernelChoice& kernels) { return kernels.few_tokens; },
     [](KernelChoice& kernels) { kernels.few_tokens = false; }},
    {Part::kFewQueries, "attention over a cache", "attention of few queries",
     "the slower kernel of many queries takes its place",
     [](const KernelChoice& kernels) { return kernels.few_queries; },
     [](KernelChoice& kernels) { kernels.few_queries = false; }},
};

constexpr const char* kReport =
    "please report this, with the output of nvidia-smi and of stoa bench device copy --backend cuda";

Findings check(const KnownOperations& known, Device& device, KernelChoice kernels, const MakeBackend& make) {
  kernels.warpgroup_blocks = std::min(kernels.warpgroup_blocks, kFewBlocks);
  const std::unique_ptr<Backend> backend = make(kernels);
  Findings findings;
  try {
    known.run(*backend, device, kernels, findings);
  } catch (const DeviceError& error) {
    const bool plain = kernels == KernelChoice::plain();
    fail<DeviceError>("self-check of {} failed: {}; {}{}", device.name(), error.what(),
                      plain ? "" : "--cuda plain-kernels may avoid it; ", kReport);
  }
  return findings;
}

}  // namespace

TrustedKernels trusted_kernels(Device& device, const KernelChoice& wanted, const MakeBackend& make) {
  const auto begin = std::chrono::steady_clock::now();
  TrustedKernels out{wanted, {}, {}};
  const KnownOperations known;
  Findings findings = check(known, device, wanted, make);
  for (const Replaceable& kernel : kReplaceable) {
    const std::string& found = findings[static_cast<std::size_t>(kernel.part)];
    if (found.empty() || !kernel.chosen(wanted)) continue;
    kernel.drop(out.kernels);
    out.lost.emplace_back(kernel.name);
    out.complaints.push_back(fmt::format("self-check of {}: {} {}; {}; {}", device.name(), kernel.name, found,
                                         kernel.instead, kReport));
  }
  if (!out.lost.empty()) findings = check(known, device, out.kernels, make);
  for (const Replaceable& kernel : kReplaceable) {
    const std::string& found = findings[static_cast<std::size_t>(kernel.part)];
    require<DeviceError>(found.empty(), "{} cannot be used: {} {}, and no other kernel computes this; {}",
                         device.name(), kernel.computes, found, kReport);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace stoa::ops::cuda
