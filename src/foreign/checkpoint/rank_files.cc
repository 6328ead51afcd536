#include "foreign/checkpoint/rank_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/error.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/torch/torch_tree.h"
#include "foreign/checkpoint/distributed_states.h"
#include "foreign/checkpoint/megatron_checkpoint.h"
#include "foreign/checkpoint/megatron_model.h"
#include "foreign/checkpoint/megatron_names.h"

namespace stoa::foreign {
namespace {

using ckpt::torch::TorchTree, ckpt::torch::Value, ckpt::torch::ValueKind;

// The numbers of mp_rank_01_002: 1, 2.
std::vector<std::int64_t> rank_numbers(const fs::path& folder) {
  std::vector<std::int64_t> out;
  std::string_view rest = std::string_view(folder.native()).substr(folder.native().rfind('/') + 1);
  rest.remove_prefix(std::string_view(ckpt::kRankFolder).size());
  while (!rest.empty()) {
    const auto word = rest.substr(0, rest.find('_'));
    std::int64_t number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    require<DataError>(read.ec == std::errc() && read.ptr == word.data() + word.size() && number >= 0,
                       "'{}': expected a folder such as mp_rank_00 or mp_rank_00_000", folder.string());
    out.push_back(number);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return out;
}

// The parameters of a file in the order of the optimizer: group by group.
class OptimizerOrder {
 public:
  // `groups`: param_groups; `names`: the model's, in order.
  OptimizerOrder(const Value& groups, const std::vector<std::string>& names,
                 const ckpt::TensorSource& tensors) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const Value group = groups[g];
      const auto text = [&](const char* key) { return group.find(key); };
      const auto number = [&](const char* key, double otherwise) {
        const auto found = text(key);
        return found && (found->is(ValueKind::kFloat) || found->is(ValueKind::kInt)) ? found->number()
                                                                                     : otherwise;
      };
      const bool decays = number("wd_mult", number("weight_decay", 1) == 0 ? 0 : 1) != 0;
      const auto expert = text("is_expert_parallel");
      const bool of_experts = expert && expert->is(ValueKind::kBool) && expert->boolean();
      std::vector<std::string> own;
      for (const std::string& name : names) {
        const ckpt::TensorEntry& entry = tensors.entry(name);
        const bool decayed = !name.ends_with(".bias") && entry.shape.size() != 1;
        const bool is_expert = name.find(".experts.") != name.npos;
        if (decayed == decays && (!expert || is_expert == of_experts)) own.push_back(name);
      }
      sizes_.push_back(own.size());
      order_.insert(order_.end(), own.begin(), own.end());
    }
  }
  const std::vector<std::string>& order() const { return order_; }
  std::size_t size(std::size_t group) const { return sizes_[group]; }

 private:
  std::vector<std::string> order_;
  std::vector<std::size_t> sizes_;
};

// Adds the states of a rank's optimizer to those of the others; false where the parameters cannot be told
// apart.
class RankOptimizer {
 public:
  RankOptimizer(const TorchTree& tree, const RankFile& file) : tree_(tree), file_(file) {}

  bool add(MegatronSources& out, const std::vector<std::pair<std::string, MegatronPlace>>& places) {
    for (const auto& [name, place] : places) place_.emplace(name, place);
    const auto root = tree_.root().find("optimizer");
    if (!root) return false;
    if (root->is(ValueKind::kList)) {  // a chain: of dense parameters, of experts
      for (std::size_t i = 0; i < root->size(); ++i)
        if (!add_one(out, (*root)[i], fmt::format("optimizer.{}.", i))) return false;
      return root->size() > 0;
    }
    return add_one(out, *root, "optimizer.");
  }

 private:
  bool add_one(MegatronSources& out, const Value& optimizer, std::string prefix) {
    if (!optimizer.is(ValueKind::kDict)) return false;
    std::optional<Value> inner = optimizer;
    const std::string outer = prefix;
    if (const auto own = optimizer.find("optimizer"); own && own->is(ValueKind::kDict)) {
      inner = own;
      prefix += "optimizer.";
    }
    const auto groups = inner->find("param_groups");
    if (!groups || !groups->is(ValueKind::kList) || !inner->find("state")) return false;
    std::vector<std::string> names;
    for (const std::string& name : file_.names)
      if (is_rank_parameter(name)) names.push_back(name);
    const OptimizerOrder order(*groups, names, tree_);
    std::size_t id = 0;
    for (std::size_t g = 0; g < groups->size(); ++g) {
      const auto params = (*groups)[g].find("params");
      if (!params || !params->is(ValueKind::kList) || params->size() != order.size(g)) return false;
      for (std::size_t p = 0; p < params->size(); ++p, ++id) {
        const std::string& name = order.order()[id];
        if (!(*params)[p].is(ValueKind::kInt)) return false;
        const std::string state = fmt::format("{}state.{}.", prefix, (*params)[p].integer());
        if (!add_state(out.exp_avg, state + "exp_avg", name) ||
            !add_state(out.exp_avg_sq, state + "exp_avg_sq", name))
          return false;
        const std::string master = fmt::format("{}fp32_from_fp16_params.{}.{}", outer, g, p);
        if (tree_.find_entry(master) && !add_state(out.master, master, name)) return false;
      }
    }
    return true;
  }

  bool add_state(MegatronTensors& to, const std::string& state, const std::string& name) {
    const ckpt::TensorEntry* entry = tree_.find_entry(state);
    const ckpt::TensorEntry& parameter = tree_.entry(name);
    if (!entry || entry->elements() != parameter.elements()) return false;
    const auto place = place_.find(name);
    const auto chunk = std::find_if(file_.chunks.begin(), file_.chunks.end(),
                                    [&](const std::string& prefix) { return name.starts_with(prefix); });
    to.add(tree_, *entry, std::string_view(name).substr(chunk->size()), place->second, 0, parameter.shape);
    return true;
  }

  const TorchTree& tree_;
  const RankFile& file_;
  std::map<std::string, MegatronPlace> place_;
};

void require_all_ranks(const std::vector<RankFile>& files, const fs::path& directory) {
  std::set<std::array<std::int64_t, 3>> there;
  std::array<std::int64_t, 3> sizes{1, 1, 1};
  for (const RankFile& file : files) {
    there.insert({file.tensor_rank, file.stage, file.expert_rank});
    sizes = {std::max(sizes[0], file.tensor_rank + 1), std::max(sizes[1], file.stage + 1),
             std::max(sizes[2], file.expert_rank + 1)};
  }
  for (std::int64_t t = 0; t < sizes[0]; ++t)
    for (std::int64_t p = 0; p < sizes[1]; ++p)
      for (std::int64_t e = 0; e < sizes[2]; ++e)
        require<DataError>(there.contains({t, p, e}),
                           "'{}' has no file of tensor rank {}, pipeline stage {}, expert rank {}, though it "
                           "has files of other ranks up to {}, {}, {}",
                           directory.string(), t, p, e, sizes[0] - 1, sizes[1] - 1, sizes[2] - 1);
}

}  // namespace

bool is_rank_parameter(std::string_view name) {
  return !name.ends_with("_extra_state") && !name.ends_with("inv_freq") && !name.ends_with("expert_bias") &&
         !name.ends_with("local_tokens_per_expert");
}

std::vector<std::vector<MegatronPlace>> rank_places(const std::vector<RankFile>& files) {
  const std::size_t chunks = files.front().chunks.size();
  std::vector<std::vector<MegatronPlace>> out(files.size(), std::vector<MegatronPlace>(chunks));
  std::int64_t first_layer = 0, order = 0;
  std::int64_t stages = 0;
  for (const RankFile& file : files) stages = std::max(stages, file.stage + 1);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk)
    for (std::int64_t stage = 0; stage < stages; ++stage, ++order) {
      std::int64_t layers = 0;
      for (std::size_t f = 0; f < files.size(); ++f) {
        const RankFile& file = files[f];
        if (file.stage != stage) continue;
        std::int64_t experts = 0;
        for (const std::string& name : file.names) {
          if (!name.starts_with(file.chunks[chunk])) continue;
          const auto count = [&](std::string_view stem) { return number_after(name, stem).value_or(-1) + 1; };
          layers = std::max({layers, count("decoder.layers."), count("encoder.layers.")});
          experts = std::max({experts, count("local_experts."), count(".experts.linear_fc1.weight")});
        }
        out[f][chunk] = {file.tensor_rank, first_layer, file.expert_rank * experts, order};
      }
      first_layer += layers;
    }
  return out;
}

MegatronSources rank_file_sources(const std::vector<RankFile>& files, model::ModelKind kind) {
  MegatronSources out{
      {}, MegatronTensors(kind), MegatronTensors(kind), MegatronTensors(kind), MegatronTensors(kind)};
  const auto places = rank_places(files);
  for (std::size_t f = 0; f < files.size(); ++f) {
    out.alive.push_back(files[f].tensors);
    for (std::size_t chunk = 0; chunk < files[f].chunks.size(); ++chunk)
      out.weights.add(*files[f].tensors, files[f].chunks[chunk], places[f][chunk]);
  }
  bool complete = true;
  for (std::size_t f = 0; f < files.size() && complete; ++f) {
    const auto* tree = dynamic_cast<const TorchTree*>(files[f].tensors.get());
    if (!tree || !tree->root().is(ValueKind::kDict)) break;
    std::vector<std::pair<std::string, MegatronPlace>> of_names;
    for (const std::string& name : files[f].names)
      for (std::size_t chunk = 0; chunk < files[f].chunks.size(); ++chunk)
        if (name.starts_with(files[f].chunks[chunk])) of_names.emplace_back(name, places[f][chunk]);
    complete = RankOptimizer(*tree, files[f]).add(out, of_names);
  }
  if (!complete) out.master = out.exp_avg = out.exp_avg_sq = MegatronTensors(kind);
  return out;
}

ForeignCheckpoint open_rank_trees(const fs::path& directory, const std::vector<RankTree>& trees,
                                  const ForeignOptions& options) {
  require<IoError>(!trees.empty(), "'{}' has no folder mp_rank_…", directory.string());
  std::vector<RankFile> files;
  for (const auto& [folder, tree, states] : trees) {
    const std::string path = tree->file().source();
    require<DataError>(tree->root().is(ValueKind::kDict),
                       "'{}' holds {}, and expected is a dict with 'model'", path, tree->root());
    const auto args = tree->root().find("args");
    require<DataError>(args && (args->is(ValueKind::kObject) || args->is(ValueKind::kDict)),
                       "'{}' holds no args: what the model is cannot be read from it", path);
    const auto numbers = rank_numbers(folder);
    require<DataError>(numbers.size() <= 3 && !numbers.empty(),
                       "'{}': expected a folder such as mp_rank_00_000", folder.string());
    RankFile file{tree, {}, {}, numbers[0], 0, 0, states};
    const bool staged = int_of(*args, "pipeline_model_parallel_size", 1) > 1;
    if (numbers.size() == 3) {
      file.stage = numbers[1];
      file.expert_rank = numbers[2];
    } else if (numbers.size() == 2) {
      (staged ? file.stage : file.expert_rank) = numbers[1];
    }
    if (tree->root().find("model"))
      file.chunks = {"model."};
    else
      for (int chunk = 0; tree->root().find(fmt::format("model{}", chunk)); ++chunk)
        file.chunks.push_back(fmt::format("model{}.", chunk));
    require<DataError>(!file.chunks.empty(), "'{}' holds no 'model'", path);
    for (const ckpt::TensorEntry* entry : tree->in_order())
      for (const std::string& prefix : file.chunks)
        if (entry->name.starts_with(prefix)) file.names.push_back(entry->name);
    require<DataError>(files.empty() || files.front().chunks.size() == file.chunks.size(),
                       "'{}' holds {} parts of the model, rank 0's {}", path, file.chunks.size(),
                       files.empty() ? 0 : files.front().chunks.size());
    files.push_back(std::move(file));
  }
  require_all_ranks(files, directory);
  const TorchTree& first = *trees.front().tree;
  const Value root = first.root();
  if (const auto version = root.find("checkpoint_version"))
    require<DataError>(
        version->number() >= 2,
        "'{}' is of checkpoint_version {}, which orders queries, keys and values otherwise; 2.0 "
        "and later are read",
        first.file().source(), version->number());
  ForeignCheckpoint out;
  out.kind = "Megatron-LM, a file per rank";
  std::vector<const ckpt::TensorSource*> parts;
  for (const RankTree& rank : trees) parts.push_back(rank.tree.get());
  const model::ModelKind kind = megatron_kind(parts);
  MegatronModel model =
      model_of_megatron(*root.find("args"), kind, options.vocabulary, first.file().source());
  out.notes = std::move(model.notes);
  assemble(out, directory, model.config, rank_file_sources(files, kind));
  const bool distributed =
      std::any_of(files.begin(), files.end(), [](const RankFile& file) { return file.states != nullptr; });
  std::string why = "its parameters cannot be told apart by the groups of the optimizer";
  if (!out.state && distributed) {
    MegatronSources sources = rank_file_sources(files, kind);
    why = add_distributed_states(sources, files, model.config.ties_head());
    if (why.empty()) why = take_fitting_state(out, directory, model.config, std::move(sources));
    if (!why.empty())
      why = fmt::format(
          "the distributed optimizer's state (distrib_optim.pt) cannot be read, because {}: load the "
          "checkpoint in Megatron-LM and save it in torch_dist with --dist-ckpt-optim-fully-reshardable; "
          "the weights are read as they are",
          why);
  }
  read_counters(out, first.file());
  if (!out.state && root.find("optimizer")) out.why_no_state = why;
  return out;
}

ForeignCheckpoint open_rank_files(const fs::path& directory, const ForeignOptions& options) {
  std::vector<fs::path> folders;
  for (const auto& item : fs::directory_iterator(directory))
    if (item.path().filename().string().starts_with(ckpt::kRankFolder)) folders.push_back(item.path());
  std::sort(folders.begin(), folders.end());
  std::vector<RankTree> trees;
  for (const fs::path& folder : folders) {
    const fs::path path = folder / "model_optim_rng.pt";
    require<IoError>(fs::exists(path), "'{}' does not exist: expected a file of each rank", path.string());
    const fs::path states = folder / "distrib_optim.pt";
    trees.push_back({folder, std::make_shared<const TorchTree>(path),
                     fs::exists(states) ? std::make_shared<const TorchTree>(states) : nullptr});
  }
  return open_rank_trees(directory, trees, options);
}

}  // namespace stoa::foreign
