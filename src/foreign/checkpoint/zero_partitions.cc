#include "foreign/checkpoint/zero_partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/torch/torch_tree.h"
#include "ckpt/viewed_source.h"
#include "foreign/checkpoint/deepspeed_checkpoint.h"
#include "foreign/checkpoint/megatron_checkpoint.h"
#include "foreign/checkpoint/megatron_names.h"

namespace stoa::foreign {
namespace {

using ckpt::TensorEntry, ckpt::TensorSource, ckpt::ViewedPart, ckpt::ViewedTensor;
using ckpt::torch::TorchTree, ckpt::torch::Value, ckpt::torch::ValueKind;

constexpr std::string_view kOptimizer = "optimizer_state_dict.";

// The numbers in "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"; nullopt: another name.
struct ZeroRanks {
  std::int64_t data = 0, tensor = 0;
};
std::optional<ZeroRanks> zero_ranks(std::string_view name) {
  const auto data = number_after(name, "zero_pp_rank_"), tensor = number_after(name, "_mp_rank_");
  if (!name.ends_with(ckpt::kZeroPartition) || !data || !tensor) return std::nullopt;
  return ZeroRanks{*data, *tensor};
}

// Between parameters; DeepSpeed's own is a few elements.
constexpr std::int64_t kMostPadding = 1 << 20;

// A stretch of one rank's flat tensors, which lie one after the other.
class FlatRank {
 public:
  // The tensors that `name` gives for 0, 1 and so on; `tree` outlives this.
  FlatRank(const TorchTree& tree, const std::vector<std::string>& names) : tree_(&tree) {
    for (const std::string& name : names) {
      const TensorEntry* entry = tree.find_entry(name);
      require<DataError>(entry && entry->type == ckpt::StorageType::kF32, "'{}' holds no fp32 tensor '{}'",
                         tree.file().source(), name);
      tensors_.push_back(entry);
      elements_ += entry->elements();
    }
  }
  std::int64_t elements() const { return elements_; }

  // Adds `count` elements from `from` on, which stand at `to` of the parameter; false: it ends before.
  bool add(std::vector<ViewedPart>& out, std::int64_t from, std::int64_t count, std::int64_t to) const {
    for (const TensorEntry* entry : tensors_) {
      if (count == 0) return true;
      const std::int64_t here = std::min(count, entry->elements() - from);
      if (here > 0) {
        out.push_back({tree_, entry, 1, here, from, 0, to, 0});
        from += here;
        to += here;
        count -= here;
      }
      from -= entry->elements();
    }
    return count == 0;
  }

 private:
  const TorchTree* tree_;
  std::vector<const TensorEntry*> tensors_;
  std::int64_t elements_ = 0;
};

class ZeroFiles {
 public:
  explicit ZeroFiles(const fs::path& directory)
      : directory_(directory), states_(model_states_file(directory)) {
    std::map<std::int64_t, fs::path> files;
    for (const auto& item : fs::directory_iterator(directory)) {
      const std::string name = item.path().filename().string();
      if (const auto ranks = zero_ranks(name)) {
        require<DataError>(ranks->tensor == 0,
                           "'{}' holds partitions of several tensor ranks ({}), which are not joined: make a "
                           "universal checkpoint of them with DeepSpeed's ds_to_universal.py",
                           directory.string(), name);
        files[ranks->data] = item.path();
      }
    }
    require<DataError>(!files.empty() && files.rbegin()->first + 1 == static_cast<std::int64_t>(files.size()),
                       "'{}' holds {} of the partitions of ranks 0 to {}", directory.string(), files.size(),
                       files.empty() ? 0 : files.rbegin()->first);
    for (const auto& [rank, path] : files) ranks_.push_back(std::make_shared<const TorchTree>(path));
    const Value stage = optimizer_value("zero_stage");
    const Value number =
        stage.is(ValueKind::kObject) && stage.arguments().size() == 1 ? stage.arguments()[0] : stage;
    stage_ = number.integer();
    require<DataError>(1 <= stage_ && stage_ <= 3, "'{}' is of ZeRO stage {}",
                       ranks_.front()->file().source(), stage_);
    const Value count = optimizer_value("partition_count");
    const std::int64_t partitions =
        count.is(ValueKind::kList) && count.size() > 0 ? count[0].integer() : count.integer();
    require<DataError>(partitions == static_cast<std::int64_t>(ranks_.size()),
                       "'{}' was written by {} ranks, and holds the partitions of {}", directory.string(),
                       partitions, ranks_.size());
    parameters_ = deepspeed_parameters(states_);
    require_all_trained();
  }

  const ckpt::torch::TorchFile& states() const { return states_; }
  // The optimizer that ZeRO divides, of rank 0.
  std::optional<Value> inner_optimizer() const {
    const auto root = ranks_.front()->root().find("optimizer_state_dict");
    if (!root) return std::nullopt;
    return root->find(stage_ == 3 ? "optimizer_state_dict" : "base_optimizer_state");
  }
  const ckpt::torch::TorchFile& first_file() const { return ranks_.front()->file(); }

  // The parameters' fp32 weights, or a moment of Adam ("exp_avg"); null: the files do not hold it.
  std::shared_ptr<const TensorSource> tensors(std::string_view moment) const {
    const std::size_t groups = group_count(moment);
    if (groups == 0) return nullptr;
    std::vector<ViewedTensor> out;
    if (stage_ == 3)
      join_by_parameter(out, moment, groups);
    else
      for (std::size_t group = 0; group < groups; ++group) join_by_rank(out, moment, group);
    std::vector<std::shared_ptr<const TensorSource>> alive(ranks_.begin(), ranks_.end());
    return std::make_shared<ckpt::ViewedSource>(directory_, std::move(out), std::move(alive));
  }

 private:
  Value optimizer_value(const char* name) const {
    const auto root = ranks_.front()->root().find("optimizer_state_dict");
    const auto found = root && root->is(ValueKind::kDict) ? root->find(name) : std::nullopt;
    require<DataError>(found.has_value(), "'{}' holds no '{}' of ZeRO", ranks_.front()->file().source(),
                       name);
    return *found;
  }

  void require_all_trained() const {
    const auto frozen = states_.root().find("frozen_param_shapes");
    require<DataError>(!frozen || !frozen->is(ValueKind::kDict) || frozen->size() == 0,
                       "'{}' holds parameters that are not trained, which are not read: save the whole model "
                       "with DeepSpeed's zero_to_fp32.py",
                       states_.source());
  }

  std::string flat_name(std::string_view moment, std::size_t group) const {
    if (moment.empty())
      return fmt::format("{}{}.{}", kOptimizer,
                         stage_ == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups", group);
    return fmt::format("{}{}.state.{}.{}", kOptimizer,
                       stage_ == 3 ? "optimizer_state_dict" : "base_optimizer_state", group, moment);
  }
  std::size_t group_count(std::string_view moment) const {
    std::size_t groups = 0;
    while (ranks_.front()->find_entry(flat_name(moment, groups))) ++groups;
    return groups;
  }

  ViewedTensor empty(const DeepSpeedParameter& parameter) const {
    ViewedTensor out;
    out.entry.name = parameter.name;
    out.entry.type = ckpt::StorageType::kF32;
    out.entry.shape = parameter.shape;
    return out;
  }

  // Stages 1 and 2: a group's parameters lie one after the other, cut at equal places into the ranks' shares.
  void join_by_rank(std::vector<ViewedTensor>& out, std::string_view moment, std::size_t group) const {
    std::vector<FlatRank> flat;
    for (const auto& rank : ranks_) flat.emplace_back(*rank, std::vector{flat_name(moment, group)});
    const auto paddings =
        ranks_.front()->root().find("optimizer_state_dict")->find("param_alignment_paddings");
    std::int64_t at = 0;
    std::size_t number = 0;
    for (const DeepSpeedParameter& parameter : parameters_) {
      if (parameter.group != group) continue;
      ViewedTensor view = empty(parameter);
      std::int64_t begin = 0, found = 0;  // of the rank; elements of the parameter
      for (const FlatRank& rank : flat) {
        const std::int64_t from = std::max(at, begin), end = begin + rank.elements(),
                           to = std::min(at + parameter.elements, end);
        if (from < to) {
          rank.add(view.parts, from - begin, to - from, from - at);
          found += to - from;
        }
        begin = end;
      }
      require<DataError>(found == parameter.elements, "'{}': the partitions end within '{}'",
                         directory_.string(), parameter.name);
      out.push_back(std::move(view));
      at += parameter.elements;
      if (paddings && paddings->is(ValueKind::kList) && group < paddings->size() &&
          number < (*paddings)[group].size())
        at += std::clamp<std::int64_t>((*paddings)[group][number].integer(), 0, kMostPadding);
      ++number;
    }
  }

  // Stage 3: each parameter is cut into equal shares, and a rank's shares lie one after the other.
  void join_by_parameter(std::vector<ViewedTensor>& out, std::string_view moment, std::size_t groups) const {
    std::vector<std::string> names;
    for (std::size_t group = 0; group < groups; ++group) names.push_back(flat_name(moment, group));
    std::vector<FlatRank> flat;
    for (const auto& rank : ranks_) flat.emplace_back(*rank, names);
    const auto world = static_cast<std::int64_t>(ranks_.size());
    std::int64_t at = 0;
    for (const DeepSpeedParameter& parameter : parameters_) {
      ViewedTensor view = empty(parameter);
      const std::int64_t share = (parameter.elements + world - 1) / world;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const std::int64_t first = rank * share, count = std::min(share, parameter.elements - first);
        if (count <= 0) break;
        require<DataError>(flat[static_cast<std::size_t>(rank)].add(view.parts, at, count, first),
                           "'{}': the partition of rank {} ends within '{}'", directory_.string(), rank,
                           parameter.name);
      }
      out.push_back(std::move(view));
      at += share;
    }
  }

  const fs::path directory_;
  const ckpt::torch::TorchFile states_;
  std::vector<std::shared_ptr<const TorchTree>> ranks_;
  std::vector<DeepSpeedParameter> parameters_;
  std::int64_t stage_ = 0;
};

}  // namespace

ForeignCheckpoint open_zero_partitions(const fs::path& given, const fs::path& directory,
                                       const ForeignOptions& options) {
  const ZeroFiles files(directory);
  const DeepSpeedTensors tensors{files.tensors(""), files.tensors("exp_avg"), files.tensors("exp_avg_sq")};
  require<DataError>(tensors.master != nullptr, "'{}' holds no fp32 weights", directory.string());
  ForeignCheckpoint out =
      assemble_deepspeed("DeepSpeed, partitions of ZeRO", given, directory, files.states(), tensors, options);
  if (!out.state) return out;
  const auto optimizer = files.inner_optimizer();
  if (const auto step = optimizer_step(files.first_file(), optimizer)) out.state->updates = *step;
  out.state->adam = adam_settings(optimizer);
  return out;
}

}  // namespace stoa::foreign
