#include "foreign/checkpoint/distributed_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "base/rounding.h"
#include "foreign/checkpoint/bucket_states.h"

namespace stoa::foreign {
namespace {

using ckpt::torch::TorchTree, ckpt::torch::ValueKind;

// A parameter of a chunk, by its name in the file.
struct FlatParameter {
  const ckpt::TensorEntry* entry;
  bool shared = false;  // the embedding that a head on another rank has too: alone in its bucket
};

// Where the parameters begin. Buckets follow each other without the padding at their ends. nullopt: they do
// not fill `total` elements.
std::optional<std::vector<std::int64_t>> flat_begins(const std::vector<FlatParameter>& parameters,
                                                     std::int64_t total) {
  std::vector<std::int64_t> out(parameters.size());
  std::int64_t bucket = 0, filled = 0;  // its begin, and what it holds
  const auto end_bucket = [&] {
    bucket += filled;
    filled = 0;
  };
  for (std::size_t i = parameters.size(); i-- > 0;) {
    filled = round_up(filled, kBucketAlignment);
    if (parameters[i].shared) end_bucket();
    out[i] = bucket + filled;
    filled += parameters[i].entry->elements();
    if (parameters[i].shared) end_bucket();
  }
  return bucket + filled == total ? std::optional(std::move(out)) : std::nullopt;
}

// The state of one rank: of all its parameters, or in a chain of those of experts and of all others.
class FlatStates {
 public:
  FlatStates(MegatronSources& out, const RankFile& file, const std::vector<MegatronPlace>& places, bool tied)
      : out_(out), file_(file), places_(places), tied_(tied) {}

  std::string add() {
    const auto root = file_.states->root();
    if (!root.is(ValueKind::kList)) return add_optimizer("", {});
    if (root.size() != 2) return fmt::format("it holds the states of {} optimizers", root.size());
    for (const bool experts : {false, true}) {
      // Only one rank of those that hold a parameter alike saves its state.
      if (root[experts ? 1 : 0].is(ValueKind::kNone)) continue;
      if (std::string why = add_optimizer(experts ? "1." : "0.", experts); !why.empty()) return why;
    }
    return "";
  }

 private:
  std::string add_optimizer(const std::string& prefix, std::optional<bool> experts) {
    const auto tensor = [&](std::size_t buffer, const char* key) {  // "#0": the pair of its types
      return file_.states->find_entry(fmt::format("{}{}.#0.{}", prefix, buffer, key));
    };
    if (tensor(file_.chunks.size(), "param"))
      return "parameters of different types have buffers of their own";
    for (std::size_t chunk = 0; chunk < file_.chunks.size(); ++chunk) {
      const std::vector<FlatParameter> parameters = of_chunk(file_.chunks[chunk], experts);
      if (parameters.empty()) continue;
      const ckpt::TensorEntry* const master = tensor(chunk, "param");
      if (!master)
        return "it does not hold a flat tensor of each buffer, as Megatron-Core writes it since 0.7";
      const auto begins = flat_begins(parameters, master->elements());
      if (!begins)
        return fmt::format("the parameters of '{}' do not fill its {} elements",
                           file_.tensors->directory().string(), master->elements());
      for (const auto& [key, set] :
           {std::pair("param", &out_.master), {"exp_avg", &out_.exp_avg}, {"exp_avg_sq", &out_.exp_avg_sq}}) {
        const ckpt::TensorEntry* const flat = tensor(chunk, key);
        if (!flat || flat->elements() != master->elements())
          return fmt::format("it has no '{}' of the size of its weights", key);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const ckpt::TensorEntry& entry = *parameters[i].entry;
          set->add(*file_.states, *flat, std::string_view(entry.name).substr(file_.chunks[chunk].size()),
                   places_[chunk], (*begins)[i], entry.shape);
        }
      }
    }
    return "";
  }

  std::vector<FlatParameter> of_chunk(const std::string& chunk, std::optional<bool> experts) const {
    std::vector<FlatParameter> out;
    for (const std::string& name : file_.names) {
      const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
      if (!name.starts_with(chunk) || !is_rank_parameter(name)) continue;
      if (experts && *experts != has(".experts.")) continue;
      out.push_back({&file_.tensors->entry(name),
                     tied_ && (name.ends_with("word_embeddings.weight") || has("output_layer.weight"))});
    }
    return out;
  }

  MegatronSources& out_;
  const RankFile& file_;
  const std::vector<MegatronPlace>& places_;
  const bool tied_;
};

}  // namespace

std::string add_distributed_states(MegatronSources& out, const std::vector<RankFile>& files, bool tied) {
  const auto places = rank_places(files);
  std::int64_t last_stage = 0;
  for (const RankFile& file : files) last_stage = std::max(last_stage, file.stage);
  for (std::size_t f = 0; f < files.size(); ++f) {
    if (!files[f].states) return "not every rank has such a file";
    out.alive.push_back(files[f].states);
    if (std::string why = FlatStates(out, files[f], places[f], tied && last_stage > 0).add(); !why.empty())
      return why;
  }
  return "";
}

}  // namespace stoa::foreign
