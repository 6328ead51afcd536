#include "run/rank_checkpoint.h"

#include <cmath>
#include <cstring>
#include <map>

#include "model/same_function.h"
#include "run/host_window.h"

namespace stoa::run {

namespace hf = model::huggingface;

namespace {

// Host copy of one tensor.
struct HostCopy {
  std::vector<std::byte> bytes;
  TensorView view;
};

HostCopy copy_to_host(Machine& machine, TensorView tensor) {
  HostCopy copy;
  copy.bytes.resize(tensor.bytes());
  read_tensor(machine, tensor,
              [&](TensorView host) { std::memcpy(copy.bytes.data(), host.data, host.bytes()); });
  copy.view = TensorView(copy.bytes.data(), tensor.dtype, tensor.shape);
  return copy;
}

class RankSnapshot final : public ckpt::Snapshot {
 public:
  RankSnapshot(TrainingRank& rank, const ModelTextFiles& files, const hf::SpecialTokens& special)
      : gpt_(rank.options().model),
        type_(rank.options().precision.compute),
        index_(rank.parameters().specs()),
        family_(hf::choose_family(gpt_.config)),
        files_(files) {
    files_.push_back({"config.json", hf::write_config(gpt_, family_, type_, special)});
    auto& sets = sets_;
    const auto& moments = rank.optimizer().moment_names();
    sets.resize(1 + moments.size());
    sets[0].first = "master/";
    for (std::size_t m = 0; m < moments.size(); ++m) sets[m + 1].first = moments[m] + "/";
    for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p) {
      const nn::ParamId id{static_cast<int>(p)};
      sets[0].second.push_back(copy_to_host(rank.machine(), rank.parameters().master(id)));
      for (std::size_t m = 0; m < moments.size(); ++m)
        sets[m + 1].second.push_back(
            copy_to_host(rank.machine(), rank.optimizer().moment(static_cast<int>(m), id)));
    }
  }

  std::vector<ckpt::TensorEntry> model_tensors() const override {
    return model_entries(gpt_, family_, type_);
  }
  void write_model(ckpt::ShardedWriter& writer) override {
    run::write_model(writer, gpt_, family_, type_, [this](const std::string& name) {
      const auto& place = index_.at(name);
      return CanonicalIndex::in(place, sets_[0].second[place.parameter.index].view);
    });
  }
  std::vector<TextFile> model_files() const override { return files_; }

  std::vector<ckpt::TensorEntry> state_tensors() const override {
    std::vector<ckpt::TensorEntry> entries;
    for (const auto& [prefix, tensors] : sets_)
      for (const auto& [name, place] : index_.places())
        entries.push_back(
            ckpt::entry_of({prefix + name, tensors[place.parameter.index].view.dtype, place.shape}));
    return entries;
  }
  void write_state(ckpt::ShardedWriter& writer) override {
    for (const auto& [prefix, tensors] : sets_)
      for (const auto& [name, place] : index_.places())
        writer.write(prefix + name,
                     CanonicalIndex::in(place, tensors[place.parameter.index].view).reshape(place.shape));
  }

 private:
  const model::Gpt gpt_;
  const DType type_;
  const CanonicalIndex index_;
  const hf::Family family_;
  ModelTextFiles files_;
  std::vector<std::pair<std::string, std::vector<HostCopy>>> sets_;  // prefix, tensors by parameter
};

// The rank's configuration as its own checkpoint would say it: what a family's file does not carry is then
// equal on both sides.
model::ModelConfig as_saved(const model::Gpt& gpt) {
  return hf::read_config(hf::write_config(gpt, hf::choose_family(gpt.config), DType::kF32, {})).config;
}

void require_same_function(const model::ModelConfig& found, const model::Gpt& gpt, model::Purpose purpose,
                           const fs::path& directory) {
  std::string problems;
  for (const auto& d : model::function_differences(found, as_saved(gpt), purpose))
    problems += fmt::format("\n  model.{}: {} in the files, {} in the configuration", d.path, d.from, d.to);
  require<ConfigError>(problems.empty(), "'{}' holds weights of another model, though of the same shapes:{}",
                       directory.string(), problems);
}

}  // namespace

std::unique_ptr<ckpt::Snapshot> take_snapshot(TrainingRank& rank, const ModelTextFiles& files,
                                              const hf::SpecialTokens& special,
                                              ckpt::TrainingState& training) {
  training.loss_scale = rank.read_scalars().slots;
  for (double& x : training.loss_scale)
    if (!std::isfinite(x)) x = 0;  // loss and norm of a skipped step: recomputed before they are read again
  training.seed = static_cast<std::uint64_t>(rank.options().model.config.seed);
  return std::make_unique<RankSnapshot>(rank, files, special);
}

void restore(TrainingRank& rank, const ckpt::FoundCheckpoint& found) {
  const ckpt::StateReader reader(found);
  const auto& moments = rank.optimizer().moment_names();
  std::vector<TensorSpec> expected;
  for (const auto& spec : rank.parameters().specs())
    for (const auto& piece : spec.shard.pieces) {
      expected.push_back({"master/" + piece.name, rank.options().precision.vectors(), piece.global});
      for (const auto& name : moments)
        expected.push_back({name + "/" + piece.name, rank.options().precision.vectors(), piece.global});
    }
  ckpt::require_tensors(expected, reader.tensors());
  const hf::ModelDescription saved = hf::read_config(read_text(found.model / "config.json"));
  require_same_function(saved.config, rank.options().model, model::Purpose::kResume, found.root);
  for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p) {
    const nn::ParamId id{static_cast<int>(p)};
    const ShardSpec& shard = rank.parameters().specs()[p].shard;
    const auto load = [&](std::string_view prefix, TensorView tensor) {
      write_tensor(rank.machine(), tensor, [&](TensorView host) {
        std::memset(host.data, 0, host.bytes());
        reader.read(prefix, shard, host);
      });
    };
    load("master/", rank.parameters().master(id));
    for (std::size_t m = 0; m < moments.size(); ++m)
      load(moments[m] + "/", rank.optimizer().moment(static_cast<int>(m), id));
  }
  rank.optimizer().refresh_values(rank.ops());
  const auto& slots = reader.training().loss_scale;
  require<DataError>(slots.size() == static_cast<std::size_t>(ops::StepSlot::kCount),
                     "{}: {} step scalars, expected {}: written by another version", found.root.string(),
                     slots.size(), static_cast<int>(ops::StepSlot::kCount));
  rank.write_scalars({slots});
}

void load_weights(TrainingRank& rank, const ModelFiles& files) {
  std::map<int, HostCopy> staging;
  files.read(rank.parameters().specs(), [&](nn::ParamId id) {
    const TensorView master = rank.parameters().master(id);
    if (rank.machine().device->kind() == DeviceKind::kHost) return master;
    auto [it, fresh] = staging.try_emplace(id.index);
    if (fresh) it->second = copy_to_host(rank.machine(), master);
    return it->second.view;
  });
  require_same_function(files.description().config, rank.options().model, model::Purpose::kStart,
                        files.directory());
  for (auto& [index, copy] : staging)
    write_tensor(rank.machine(), rank.parameters().master({index}),
                 [&](TensorView host) { std::memcpy(host.data, copy.bytes.data(), copy.bytes.size()); });
  rank.optimizer().refresh_values(rank.ops());
}

}  // namespace stoa::run
