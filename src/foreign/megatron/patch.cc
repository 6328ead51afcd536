#include "foreign/megatron/patch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "foreign/megatron/current.h"
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

// Megatron's FSDP writes checkpoints of a format of its own, and no other sharding does.
void match_checkpoint_format(MegatronPatch& patch, const Written& plan) {
  const bool fsdp = named(plan, "use-megatron-fsdp") != plan.end();
  const auto given = named(patch.arguments, "ckpt-format");
  const std::string format = given == patch.arguments.end() || given->values.empty() ? "" : given->values[0];
  const bool torch_fsdp = named(patch.arguments, "use-torch-fsdp2") != patch.arguments.end();
  if (fsdp ? format == "fsdp_dtensor" : format != "fsdp_dtensor" && (format != "torch_dcp" || torch_fsdp))
    return;
  if (!fsdp) {
    patch.removed.push_back(given->text() + ": of another sharding");
    patch.arguments.erase(given);
  } else if (given == patch.arguments.end()) {
    patch.arguments.push_back({"ckpt-format", {"fsdp_dtensor"}, "added"});
  } else {
    given->mark = "was " + format;
    given->values = {"fsdp_dtensor"};
  }
}

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
  Written given;
  for (const GivenArgument& a : command.arguments) {
    given.push_back({a.name, a.values});
    patch.older = patch.older || is_retired(a.name);
  }
  CurrentWords current = in_current_words(std::move(given), after);
  patch.arguments = std::move(current.arguments);
  for (const std::string& text : current.removed) patch.removed.push_back(shown_word(text));
  patch.open_words = command.open_words;
  const Written &from = before, &to = after;

  // Groups with a change.
  std::set<std::string_view> changed;
  const auto note_change = [&](std::string_view name) {
    for (const std::string_view other : together_with(name)) changed.insert(other);
  };
  for (const WrittenArgument& a : to)
    if (const auto it = named(from, a.name); it == from.end() || !(*it == a)) note_change(a.name);
  for (const WrittenArgument& a : from)
    if (named(to, a.name) == to.end()) note_change(a.name);
  for (const std::string_view name : current.said_anew) note_change(name);
  // A batch that is left to Megatron would be that of the new layout.
  if (named(patch.arguments, "global-batch-size") == patch.arguments.end()) note_change("global-batch-size");

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
  match_checkpoint_format(patch, to);
  return patch;
}

}  // namespace stoa::foreign
