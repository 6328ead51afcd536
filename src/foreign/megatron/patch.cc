#include "foreign/megatron/patch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "config/value.h"
#include "foreign/megatron/shell_script.h"

namespace stoa::foreign {
namespace {

// Arguments that say one thing in several ways: where one changes, none of the others stays.
const std::vector<std::vector<std::string_view>> kTogether{
    {"tensor-model-parallel-size", "model-parallel-size"},
    {"pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank",
     "num-layers-per-virtual-pipeline-stage", "pipeline-model-parallel-layout",
     "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
     "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split", "pp-partition-method",
     "microbatch-group-size-per-virtual-pipeline-stage", "enable-zbh1-pipeline"},
    {"context-parallel-size", "ds-sequence-parallel-size", "cp-comm-type",
     "hierarchical-context-parallel-sizes"},
    {"use-distributed-optimizer", "overlap-param-gather", "zero-stage", "use-megatron-fsdp",
     "use-custom-fsdp", "use-torch-fsdp2", "data-parallel-sharding-strategy"},
    {"recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules",
     "recompute-activations", "checkpoint-activations", "checkpoint-num-layers",
     "activations-checkpoint-method", "activations-checkpoint-num-layers",
     "activations-checkpoint-granularity", "distribute-saved-activations",
     "distribute-checkpointed-activations"},
    {"bf16", "fp16"},
    {"fp8-format", "fp8-hybrid", "fp8-e4m3"}};

using Written = std::vector<WrittenArgument>;

template <class List>
auto named(List& list, std::string_view name) {
  return std::find_if(list.begin(), list.end(), [&](const auto& a) { return a.name == name; });
}

std::vector<std::string_view> together_with(std::string_view name) {
  for (const auto& group : kTogether)
    if (std::find(group.begin(), group.end(), name) != group.end()) return group;
  return {name};
}

// Programs before core 0.4 and DeepSpeed's have older names for some of it.
class OlderNames {
 public:
  explicit OlderNames(const std::vector<GivenArgument>& given) {
    for (const char* name : {"DDP-impl", "deepspeed", "checkpoint-activations",
                             "activations-checkpoint-method", "model-parallel-size"})
      older_ = older_ || named(given, name) != given.end();
    deepspeed_ = named(given, "deepspeed") != given.end();
  }
  bool older() const { return older_; }

  Written apply(Written list) const {
    if (!older_) return list;
    std::erase_if(list, [](const auto& a) {
      return a.name == "overlap-grad-reduce" || a.name == "overlap-param-gather";
    });
    const auto number = [&](const char* name) -> std::int64_t {
      const auto it = named(list, name);
      return it == list.end() ? 1 : config::parse_integer(it->values.front()).value_or(1);
    };
    const std::int64_t layers = number("num-layers"), stages = number("pipeline-model-parallel-size");
    for (WrittenArgument& a : list) {
      const auto value = a.values.empty() ? std::string() : a.values.front();
      if (a.name == "num-virtual-stages-per-pipeline-rank")
        a = {"num-layers-per-virtual-pipeline-stage",
             {std::to_string(layers / stages / config::parse_integer(value).value_or(1))}};
      if (a.name == "recompute-method") a.name = "activations-checkpoint-method";
      if (a.name == "recompute-num-layers") a.name = "activations-checkpoint-num-layers";
    }
    if (deepspeed_) zero_stage(list);
    if (const auto full = named(list, "recompute-granularity");
        full != list.end() && full->values.front() == "full")
      list.erase(full);
    return list;
  }

 private:
  // DeepSpeed's words for sharding, and for sequences that several ranks share.
  static void zero_stage(Written& list) {
    const auto grads = named(list, "data-parallel-sharding-strategy");
    const char* stage = named(list, "use-distributed-optimizer") != list.end() ? "1"
                        : grads == list.end()                                  ? "0"
                        : grads->values.front() == "optim_grads"               ? "2"
                                                                               : "3";
    std::erase_if(list, [](const auto& a) {
      return a.name == "use-distributed-optimizer" || a.name == "use-megatron-fsdp" ||
             a.name == "data-parallel-sharding-strategy" || a.name == "cp-comm-type";
    });
    list.push_back({"zero-stage", {stage}});
    if (const auto ranks = named(list, "context-parallel-size"); ranks != list.end())
      ranks->name = "ds-sequence-parallel-size";
  }

  bool older_ = false, deepspeed_ = false;
};

}  // namespace

std::vector<std::string> MegatronPatch::changes() const {
  std::vector<std::string> out;
  for (const WrittenArgument& a : arguments)
    if (!a.mark.empty()) out.push_back(fmt::format("{} ({})", a.text(), a.mark));
  for (const std::string& text : removed) out.push_back(text + " (left out)");
  return out;
}

MegatronPatch patch_megatron(const std::vector<std::string>& words, const Written& before,
                             const Written& after) {
  MegatronPatch patch;
  const MegatronCommand command = read_megatron_command(words);
  patch.launcher.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(command.begin));
  for (const GivenArgument& a : command.arguments) patch.arguments.push_back({a.name, a.values});
  patch.open_words = command.open_words;
  const OlderNames names(command.arguments);
  patch.older = names.older();
  const Written from = names.apply(before), to = names.apply(after);

  // Groups with a change.
  std::set<std::string_view> changed;
  const auto note_change = [&](const std::string& name) {
    for (const std::string_view other : together_with(name)) changed.insert(other);
  };
  for (const WrittenArgument& a : to)
    if (const auto it = named(from, a.name); it == from.end() || !(*it == a)) note_change(a.name);
  for (const WrittenArgument& a : from)
    if (named(to, a.name) == to.end()) note_change(a.name);

  for (const WrittenArgument& a : to) {
    if (!changed.contains(a.name)) continue;
    const auto own = named(patch.arguments, a.name);
    if (own != patch.arguments.end()) {
      if (*own == a) continue;
      const std::string was =
          own->values.empty() ? "not given" : fmt::format("{}", fmt::join(own->values, " "));
      own->mark = "was " + shown_word(was);
      own->values = a.values;
      continue;
    }
    WrittenArgument fresh = a;
    fresh.mark = "added";
    patch.arguments.push_back(std::move(fresh));
  }
  for (auto it = patch.arguments.begin(); it != patch.arguments.end();) {
    if (!changed.contains(it->name) || named(to, it->name) != to.end()) {
      ++it;
      continue;
    }
    patch.removed.push_back(shown_word(it->text()));
    it = patch.arguments.erase(it);
  }
  return patch;
}

}  // namespace stoa::foreign
