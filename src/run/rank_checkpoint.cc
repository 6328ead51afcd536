#include "run/rank_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "infer/canonical_index.h"
#include "infer/host_window.h"
#include "infer/open_base.h"
#include "infer/read_weights.h"
#include "model/huggingface/adapter_config.h"
#include "model/same_function.h"
#include "nn/packed_weight.h"

namespace stoa::run {

namespace hf = model::huggingface;

namespace {

// Host copy of one tensor.
struct HostCopy {
  std::vector<std::byte> bytes;
  TensorView view;
};

HostCopy copy_to_host(infer::Machine& machine, TensorView tensor) {
  HostCopy copy;
  copy.bytes.resize(tensor.bytes());
  infer::read_tensor(machine, tensor,
                     [&](TensorView host) { std::memcpy(copy.bytes.data(), host.data, host.bytes()); });
  copy.view = TensorView(copy.bytes.data(), tensor.dtype, tensor.shape);
  return copy;
}

// Whether a checkpoint holds it: of an adapter's what is trained alone, since its base is elsewhere.
bool is_kept(const TrainingOptions& options, const model::CanonicalTensor& tensor) {
  return tensor.trained || !options.model.adapters;
}

// Set by set: "master/" and the moments.
struct StateSet {
  std::string prefix;
  std::function<TensorView(nn::ParamId)> tensor;
  std::function<bool(const model::CanonicalTensor&)> has;
};

std::vector<StateSet> state_sets(TrainingRank& rank) {
  std::vector<StateSet> sets{
      {"master/",
       [&rank](nn::ParamId id) {
         const bool kept = rank.parameters().specs()[static_cast<std::size_t>(id.index)].trained ||
                           !rank.options().model.adapters;
         return kept ? rank.parameters().master(id) : TensorView();
       },
       [&rank](const model::CanonicalTensor& tensor) { return is_kept(rank.options(), tensor); }}};
  const auto& moments = rank.optimizer().moment_names();
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const int m = static_cast<int>(i);
    sets.push_back({moments[i] + "/", [&rank, m](nn::ParamId id) { return rank.optimizer().moment(m, id); },
                    [&rank, m](const model::CanonicalTensor& tensor) {
                      return tensor.trained && rank.optimizer().has_moment(m, tensor.name, tensor.shape);
                    }});
  }
  return sets;
}

// Histories of delayed scaling, of the whole model.
std::vector<TensorSpec> amax_tensors(const TrainingOptions& options) {
  std::vector<TensorSpec> tensors;
  const model::Fp8Config& fp8 = options.model.config.fp8;
  if (!fp8.delayed()) return tensors;
  const model::Chunk chunk = model::whole_chunk(options.model);
  for (const nn::ParamId weight : chunk.eight_bit_layers())
    for (TensorSpec& spec :
         optim::AmaxHistory::specs(chunk.params().specs()[static_cast<std::size_t>(weight.index)],
                                   fp8.fp8_amax_history_len, options.precision.vectors()))
      tensors.push_back(std::move(spec));
  return tensors;
}

// Those of this rank, and their names; `written`: that this rank writes to its part of a checkpoint.
using AmaxTensor = std::function<void(const std::string& name, TensorView history)>;
void for_each_history(TrainingRank& rank, const AmaxTensor& body, bool written = false) {
  if (optim::AmaxHistory* amax = rank.amax_history())
    for (std::size_t layer = 0; layer < amax->names().size(); ++layer)
      if (!written || amax->writes(layer)) body(amax->names()[layer], amax->history(layer));
}

// The files in addition to state/, from canonical tensors wherever they are: a model's, or an adapter's.
class SavedModel {
 public:
  SavedModel(const TrainingOptions& options, const ModelTexts& texts, const hf::SpecialTokens& special)
      : spec_(options.model),
        type_(spec_.adapters ? options.precision.vectors() : options.precision.compute),
        files_(texts.files) {
    if (spec_.adapters) {
      files_.push_back({hf::kAdapterConfig, hf::write_adapter_config(spec_, texts.base.path.string())});
      files_.push_back({ckpt::kAdapterBase, ckpt::adapter_base_text(texts.base)});
    } else {
      files_.push_back({"config.json", hf::write_config(spec_, family(), type_, special)});
    }
  }
  std::string_view part() const { return spec_.adapters ? "adapter" : "model"; }
  std::string_view stem() const {
    if (!spec_.adapters) return ckpt::kModelStem;
    return spec_.config.peft.is_bottleneck() ? ckpt::kBottleneckStem : ckpt::kAdapterStem;
  }
  std::vector<ckpt::TensorEntry> tensors() const {
    return spec_.adapters ? infer::adapter_entries(spec_, type_)
                          : infer::model_entries(spec_, family(), type_);
  }
  void write(ckpt::ShardedWriter& writer, const std::function<TensorView(const std::string&)>& source) const {
    if (spec_.adapters)
      infer::write_adapter(writer, spec_, type_, source);
    else
      infer::write_model(writer, spec_, family(), type_, source);
  }
  const std::vector<ckpt::Snapshot::TextFile>& files() const { return files_; }

 private:
  const hf::Family& family() const { return hf::choose_family(spec_.config); }

  const model::ModelSpec spec_;
  const DType type_;
  std::vector<ckpt::Snapshot::TextFile> files_;
};

class RankSnapshot final : public ckpt::Snapshot {
 public:
  RankSnapshot(TrainingRank& rank, const ModelTexts& texts, const hf::SpecialTokens& special)
      : saved_(rank.options(), texts, special), index_(rank.parameters().specs()) {
    for (const StateSet& set : state_sets(rank)) {
      auto& tensors = sets_.emplace_back(set.prefix, std::vector<HostCopy>()).second;
      for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p) {
        const TensorView tensor = set.tensor({static_cast<int>(p)});
        tensors.push_back(tensor ? copy_to_host(rank.machine(), tensor) : HostCopy());
      }
    }
    for_each_history(rank, [&](const std::string& name, TensorView history) {
      histories_.emplace_back(name, copy_to_host(rank.machine(), history));
    });
  }

  std::string_view part() const override { return saved_.part(); }
  std::string_view stem() const override { return saved_.stem(); }
  std::vector<ckpt::TensorEntry> model_tensors() const override { return saved_.tensors(); }
  void write_model(ckpt::ShardedWriter& writer) override {
    saved_.write(writer, [this](const std::string& name) {
      const auto& place = index_.at(name);
      return infer::CanonicalIndex::in(place, sets_[0].second[place.parameter.index].view);
    });
  }
  std::vector<TextFile> model_files() const override { return saved_.files(); }

  std::vector<ckpt::TensorEntry> state_tensors() const override {
    std::vector<ckpt::TensorEntry> entries;
    for (const auto& [prefix, tensors] : sets_)
      for (const auto& [name, place] : index_.places())
        if (const TensorView& view = tensors[place.parameter.index].view; view)
          entries.push_back(ckpt::entry_of({prefix + name, view.dtype, place.shape}));
    for (const auto& [name, history] : histories_)
      entries.push_back(ckpt::entry_of({name, history.view.dtype, history.view.shape}));
    return entries;
  }
  void write_state(ckpt::ShardedWriter& writer) override {
    for (const auto& [prefix, tensors] : sets_)
      for (const auto& [name, place] : index_.places())
        if (const TensorView& view = tensors[place.parameter.index].view; view)
          writer.write(prefix + name, infer::CanonicalIndex::in(place, view).reshape(place.shape));
    for (const auto& [name, history] : histories_) writer.write(name, history.view);
  }

 private:
  const SavedModel saved_;
  const infer::CanonicalIndex index_;
  std::vector<std::pair<std::string, std::vector<HostCopy>>> sets_;  // prefix, tensors by parameter
  std::vector<std::pair<std::string, HostCopy>> histories_;          // of delayed scaling
};

// The rank's configuration as its own checkpoint would say it: what a family's file does not carry is then
// equal on both sides.
model::ModelConfig as_saved(const model::ModelSpec& spec) {
  return hf::read_config(hf::write_config(spec, hf::choose_family(spec.config), DType::kF32, {})).config;
}

void require_same_function(const model::ModelConfig& found, const model::ModelSpec& spec,
                           model::Purpose purpose, const fs::path& directory) {
  std::string problems;
  for (const auto& d : model::function_differences(found, as_saved(spec), purpose))
    problems += fmt::format("\n  model.{}: {} in the files, {} in the configuration", d.path, d.from, d.to);
  require<ConfigError>(problems.empty(), "'{}' holds weights of a different model with the same shapes:{}",
                       directory.string(), problems);
}

// A tensor that was trained has moments, if the optimizer has any.
void require_same_frozen(TrainingRank& rank, const ckpt::TensorDirectory& state, const fs::path& root) {
  // Of any optimizer: one different from that of the checkpoint is reported by require_tensors().
  const auto was_trained = [&](const std::string& name) {
    return state.find("adam.m/" + name) || state.find("sgd.momentum/" + name) ||
           state.find("muon.momentum/" + name);
  };
  const auto tensors = model::canonical_tensors(rank.options().model);
  // SGD without momentum leaves no trace of what was trained.
  if (std::none_of(tensors.begin(), tensors.end(), [&](const auto& t) { return was_trained(t.name); }))
    return;
  for (const auto& tensor : tensors)
    if (is_kept(rank.options(), tensor))
      require<ConfigError>(
          was_trained(tensor.name) == tensor.trained,
          "'{}': '{}' was {} when this checkpoint was saved, the configuration {} it; give the "
          "same model.freeze, or start from the weights (restore_from_path)",
          root.string(), tensor.name, tensor.trained ? "frozen" : "trained",
          tensor.trained ? "trains" : "freezes");
}

// Model files out of a state that is on disk.
class StateModel final : public ckpt::Snapshot {
 public:
  StateModel(const TrainingRank& rank, const ModelTexts& texts, const hf::SpecialTokens& special,
             std::filesystem::path directory)
      : saved_(rank.options(), texts, special), directory_(std::move(directory)) {}
  std::string_view part() const override { return saved_.part(); }
  std::string_view stem() const override { return saved_.stem(); }
  std::vector<ckpt::TensorEntry> model_tensors() const override { return saved_.tensors(); }
  void write_model(ckpt::ShardedWriter& writer) override {
    const ckpt::TensorDirectory state(directory_ / "state", ckpt::kStateStem);
    saved_.write(writer, [&](const std::string& name) { return state.at(ckpt::master_name(name)).view(); });
  }
  std::vector<TextFile> model_files() const override { return saved_.files(); }
  std::vector<ckpt::TensorEntry> state_tensors() const override { return {}; }
  void write_state(ckpt::ShardedWriter&) override {}

 private:
  const SavedModel saved_;
  const std::filesystem::path directory_;
};

}  // namespace

void save_scalars(TrainingRank& rank, ckpt::TrainingState& training) {
  training.loss_scale = rank.read_scalars().slots;
  for (double& x : training.loss_scale)
    if (!std::isfinite(x)) x = 0;  // loss and norm of a skipped step: recomputed before they are read again
  training.seed = static_cast<std::uint64_t>(rank.options().model.config.seed);
}

std::unique_ptr<ckpt::Snapshot> take_snapshot(TrainingRank& rank, const ModelTexts& texts,
                                              const hf::SpecialTokens& special,
                                              ckpt::TrainingState& training) {
  save_scalars(rank, training);
  return std::make_unique<RankSnapshot>(rank, texts, special);
}

std::vector<TensorSpec> state_tensors(TrainingRank& rank) {
  std::vector<TensorSpec> all;
  const auto canonical = model::canonical_tensors(rank.options().model);
  const nn::Precision precision = rank.options().precision;
  for (const StateSet& set : state_sets(rank))
    for (const model::CanonicalTensor& tensor : canonical) {
      // A frozen matrix has no master: its value is stored as it is held.
      const DType type = tensor.matrix && !tensor.trained ? precision.compute : precision.vectors();
      if (set.has(tensor)) all.push_back({set.prefix + tensor.name, type, tensor.shape});
    }
  for (TensorSpec& spec : amax_tensors(rank.options())) all.push_back(std::move(spec));
  return all;
}

std::vector<ckpt::HeldTensor> take_part(TrainingRank& rank) {
  std::vector<ckpt::HeldTensor> part;
  for (const StateSet& set : state_sets(rank))
    for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p) {
      const nn::ParamId id{static_cast<int>(p)};
      ShardSpec shard = rank.parameters().written(id);
      const TensorView tensor = set.tensor(id);
      if (shard.pieces.empty() || !tensor || tensor.elements() == 0) continue;
      for (ShardPiece& piece : shard.pieces) piece.name = set.prefix + piece.name;
      HostCopy copy = copy_to_host(rank.machine(), tensor);
      part.push_back({std::move(shard), std::move(copy.bytes), copy.view.dtype});
    }
  for_each_history(
      rank,
      [&](const std::string& name, TensorView history) {
        HostCopy copy = copy_to_host(rank.machine(), history);
        part.push_back({ShardSpec::whole(name, history.shape), std::move(copy.bytes), history.dtype});
      },
      true);
  return part;
}

std::unique_ptr<ckpt::Snapshot> model_of_state(TrainingRank& rank, const ModelTexts& texts,
                                               const hf::SpecialTokens& special,
                                               std::filesystem::path directory) {
  return std::make_unique<StateModel>(rank, texts, special, std::move(directory));
}

namespace {

void require_same_base_format(const model::PeftConfig& peft, const std::filesystem::path& adapter,
                              const std::filesystem::path& root) {
  const auto base = ckpt::read_adapter_base(adapter);
  if (!base) return;
  const model::BaseFormat saved = model::base_format(base->quantized);
  require<ConfigError>(saved == peft.quantize_base,
                       "'{}' is a checkpoint of an adapter that is trained with peft.quantize_base {}, the "
                       "configuration has {}: give the same, or a new run that starts from the adapter "
                       "(peft.restore_from_path)",
                       root.string(), model::name_of(saved), model::name_of(peft.quantize_base));
}

}  // namespace

void restore(TrainingRank& rank, const ckpt::FoundCheckpoint& found) {
  const ckpt::StateReader reader(found);
  const bool adapted = rank.options().model.adapters != nullptr;
  require<ConfigError>(adapted == found.adapter.has_value(),
                       "'{}' is a checkpoint of {}, the configuration trains {}: give the same model.peft",
                       found.root.string(), found.adapter ? "an adapter" : "a whole model",
                       adapted ? "an adapter" : "a whole model");
  if (adapted) require_same_base_format(rank.options().model.config.peft, *found.adapter, found.root);
  require_same_frozen(rank, reader.tensors(), found.root);
  ckpt::require_tensors(state_tensors(rank), reader.tensors());
  const model::TaskConfig& task = rank.options().model.config.task;
  std::optional<infer::ModelFiles> base;
  if (adapted) {
    base.emplace(task.labelled() ? infer::ModelFiles(found.model, task) : infer::ModelFiles(found.model));
    infer::grow_for(*base, *found.adapter);
  }
  const model::ModelConfig saved =
      adapted ? base->description().config : hf::read_config(read_text(found.model / "config.json")).config;
  require_same_function(saved, rank.options().model,
                        adapted ? model::Purpose::kStart : model::Purpose::kResume, found.root);
  if (adapted) load_weights(rank, *base);
  for (const StateSet& set : state_sets(rank))
    for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p) {
      const nn::ParamId id{static_cast<int>(p)};
      const TensorView tensor = set.tensor(id);
      if (!tensor || tensor.elements() == 0) continue;  // another rank holds all of it
      infer::write_tensor(rank.machine(), tensor, [&](TensorView host) {
        std::memset(host.data, 0, host.bytes());
        reader.read(set.prefix, rank.parameters().held(id), host);
      });
    }
  rank.optimizer().refresh_values(rank.ops());
  const auto& slots = reader.training().loss_scale;
  require<DataError>(slots.size() == static_cast<std::size_t>(ops::StepSlot::kCount),
                     "{}: {} step scalars, expected {}: written by a different version", found.root.string(),
                     slots.size(), static_cast<int>(ops::StepSlot::kCount));
  rank.write_scalars({slots});
  if (!rank.amax_history()) return;
  rank.amax_history()->reset(rank.ops());
  for_each_history(rank, [&](const std::string& name, TensorView history) {
    infer::write_tensor(rank.machine(), history, [&](TensorView host) {
      reader.read("", ShardSpec::whole(name, history.shape), host);
    });
  });
  rank.refresh_scales();
}

namespace {

// Of what this rank holds.
infer::HeldParameters held_parameters(TrainingRank& rank) {
  infer::HeldParameters held;
  // The tensors of the whole model, not only of this rank.
  for (const auto& tensor : model::canonical_tensors(model::base_of(rank.options().model)))
    held.tensors.push_back({tensor.name, rank.options().precision.vectors(), tensor.shape});
  for (std::size_t p = 0; p < rank.parameters().specs().size(); ++p)
    held.parts.push_back(rank.parameters().held({static_cast<int>(p)}));
  return held;
}

}  // namespace

void load_weights(TrainingRank& rank, const infer::ModelFiles& files) {
  const auto memory = [&](nn::ParamId id) { return rank.parameters().master(id); };
  const auto& specs = rank.parameters().specs();
  infer::read_weights(rank.machine(), files,
                      held_parameters(rank).without_adapters(specs).without_bytes(specs), memory);
  for (std::size_t p = 0; p < specs.size(); ++p)
    if (specs[p].is_packed())
      infer::write_tensor(rank.machine(), memory({static_cast<int>(p)}), [&](TensorView host) {
        nn::pack_weight(
            specs[p], [&](std::size_t piece) { return files.floats(specs[p].shard.pieces[piece].name); },
            static_cast<std::byte*>(host.data));
      });
  if (const auto& plan = rank.options().model.adapters)
    infer::read_start_values(rank.machine(), files, *plan, held_parameters(rank), memory);
  require_same_function(files.description().config, rank.options().model, model::Purpose::kStart,
                        files.directory());
  rank.optimizer().refresh_values(rank.ops());
}

void load_adapter(TrainingRank& rank, const infer::AdapterFiles& files) {
  infer::read_weights(rank.machine(), files, held_parameters(rank),
                      [&](nn::ParamId id) { return rank.parameters().master(id); });
  rank.optimizer().refresh_values(rank.ops());
}

}  // namespace stoa::run
