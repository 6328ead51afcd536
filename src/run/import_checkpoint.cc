#include "run/import_checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/checkpoint_writer.h"
#include "ckpt/convert.h"
#include "foreign/checkpoint/rearranged_source.h"
#include "infer/model_files.h"
#include "model/huggingface/tensor_map.h"
#include "ops/step_state.h"
#include "run/export_as_family.h"

namespace stoa::run {
namespace {

namespace hf = model::huggingface;
using ckpt::TensorEntry, ckpt::TensorSource;

// A source that outlives the use.
std::shared_ptr<const TensorSource> borrowed(const TensorSource& source) {
  return {std::shared_ptr<const TensorSource>(), &source};
}

// The content of a model directory: views of the tensors where the files of the family can be seen as such,
// otherwise tensor by tensor.
ckpt::ExportContent model_content(const foreign::ForeignCheckpoint& from,
                                  const ckpt::ExportProgress& progress) {
  ckpt::ExportContent content;
  std::shared_ptr<const TensorSource> view;
  if (from.is_huggingface) {
    view = borrowed(*from.weights);
    content.config = read_text(from.weights->directory() / "config.json");
  } else {
    const auto files = std::make_shared<infer::ModelFiles>(from.weights->directory(), from.description,
                                                           borrowed(*from.weights));
    const hf::Family& family = hf::choose_family(files->model().config);
    const DType type = files->stored_type();
    view = foreign::rearranged(borrowed(*from.weights), files->model(), *from.description.family, family);
    // Files that leave a prefix out of their names are not seen so.
    if (!view || view->entries().size() < hf::tensors(files->model(), family).size())
      return content_as_family(files, family, type, progress);
    content.config = hf::write_config(files->model(), family, type, from.description.special);
  }
  for (const TensorEntry* entry : view->entries()) content.tensors.push_back(*entry);
  content.write = [view, progress](ckpt::ShardedWriter& writer) {
    ckpt::write_elements_of(*view, writer, progress);
  };
  return content;
}

// Canonical tensors in fp32 under a prefix.
class StateTensors {
 public:
  // `all`: what the model has; the state of a tensor that `source` lacks, such as the bias of a choice of
  // experts, which no optimizer of another program moves, is 0.
  StateTensors(std::string prefix, std::shared_ptr<const TensorSource> source,
               std::shared_ptr<const TensorSource> all)
      : prefix_(std::move(prefix)), source_(std::move(source)), all_(std::move(all)) {}

  void add_entries(std::vector<TensorEntry>& out) const {
    for (const TensorEntry* entry : all_->entries()) {
      TensorEntry wide = *entry;
      wide.name = prefix_ + entry->name;
      wide.type = ckpt::StorageType::kF32;
      out.push_back(std::move(wide));
    }
  }
  void write(ckpt::ShardedWriter& writer, const std::function<void(std::uint64_t)>& written) const {
    constexpr std::int64_t kPiece = 1 << 22;  // elements
    std::vector<std::byte> scratch, wide;
    for (const TensorEntry* entry : all_->entries()) {
      const TensorEntry* stored = source_->find_entry(entry->name);
      for (std::int64_t at = 0; at < entry->elements(); at += kPiece) {
        const std::int64_t count = std::min(kPiece, entry->elements() - at);
        wide.assign(static_cast<std::size_t>(count) * sizeof(float), std::byte{0});
        if (stored)
          ckpt::convert_elements(source_->elements(*stored, at, at + count, scratch).data(), stored->dtype(),
                                 wide.data(), DType::kF32, count);
        writer.write_elements(prefix_ + entry->name, at, wide);
        written(wide.size());
      }
    }
  }

 private:
  const std::string prefix_;
  const std::shared_ptr<const TensorSource> source_, all_;
};

class ForeignSnapshot final : public ckpt::Snapshot {
 public:
  ForeignSnapshot(const foreign::ForeignCheckpoint& from, const std::filesystem::path& small_files,
                  const ckpt::ExportProgress& progress)
      : progress_(progress),
        content_(model_content(from, [this](std::uint64_t done, std::uint64_t) { advance(done); })) {
    const foreign::OptimizerState& state = *from.state;
    const model::ModelSpec spec = model::resolve_model(from.description.config);
    const auto canonical = [&](const TensorSource& source) {
      std::shared_ptr<const TensorSource> view =
          foreign::rearranged(borrowed(source), spec, *from.description.family, hf::stoa_family());
      require<DataError>(view != nullptr, "'{}': the optimizer's state of family {} cannot be read",
                         source.directory().string(), from.description.family->type);
      return view;
    };
    const auto weights = canonical(*from.weights);
    // Weights that the optimizer keeps no copy of are those of the model.
    const auto master = state.master ? foreign::united(canonical(*state.master), weights) : weights;
    // In the order of their names, which is that of the files.
    sets_.emplace_back("adam.m/", canonical(*state.exp_avg), weights);
    sets_.emplace_back("adam.v/", canonical(*state.exp_avg_sq), weights);
    sets_.emplace_back("master/", master, weights);
    for (const StateTensors& set : sets_) set.add_entries(state_entries_);
    for (const TensorEntry& entry : content_.tensors) total_ += entry.bytes();
    for (const TensorEntry& entry : state_entries_) total_ += entry.bytes();
    files_.push_back({"config.json", content_.config});
    for (const ckpt::SmallFile& file : ckpt::small_files_of(small_files))
      files_.push_back({file.name, file.text});
  }

  std::vector<TensorEntry> model_tensors() const override { return content_.tensors; }
  void write_model(ckpt::ShardedWriter& writer) override {
    content_.write(writer);
    for (const TensorEntry& entry : content_.tensors) done_ += entry.bytes();
  }
  std::vector<TextFile> model_files() const override { return files_; }
  std::vector<TensorEntry> state_tensors() const override { return state_entries_; }
  void write_state(ckpt::ShardedWriter& writer) override {
    for (const StateTensors& set : sets_)
      set.write(writer, [&](std::uint64_t bytes) {
        done_ += bytes;
        advance(0);
      });
  }

 private:
  void advance(std::uint64_t more) const {
    if (progress_) progress_(done_ + more, total_);
  }

  const ckpt::ExportProgress progress_;
  std::uint64_t done_ = 0, total_ = 0;
  const ckpt::ExportContent content_;
  std::vector<StateTensors> sets_;
  std::vector<TensorEntry> state_entries_;
  std::vector<TextFile> files_;
};

ckpt::TrainingState training_state(const foreign::ForeignCheckpoint& from) {
  const foreign::OptimizerState& state = *from.state;
  ckpt::TrainingState out;
  out.step = state.iteration;
  out.samples = out.data_cursor = state.samples;
  out.tokens = state.samples * from.description.config.sample_length();
  out.seed = static_cast<std::uint64_t>(from.description.config.seed);
  out.layout = from.kind;
  out.loss_scale.assign(static_cast<std::size_t>(ops::StepSlot::kCount), 0.0);
  const auto slot = [&](ops::StepSlot which) -> double& {
    return out.loss_scale[static_cast<std::size_t>(which)];
  };
  slot(ops::StepSlot::kLossScale) = state.loss_scale.value_or(1);
  slot(ops::StepSlot::kUpdates) = static_cast<double>(state.updates);
  slot(ops::StepSlot::kSamples) = static_cast<double>(state.samples);
  slot(ops::StepSlot::kHysteresis) = 2;  // Megatron's --hysteresis, and Stoa's
  slot(ops::StepSlot::kSkipped) =
      static_cast<double>(std::max<std::int64_t>(0, state.iteration - state.updates));
  if (state.adam) {
    out.adam = {state.adam->beta1, state.adam->beta2, state.adam->epsilon};
    slot(ops::StepSlot::kLearningRate) = state.adam->learning_rate;
    slot(ops::StepSlot::kWeightDecay) = state.adam->weight_decay;
  }
  return out;
}

}  // namespace

ckpt::ExportResult import_model(const foreign::ForeignCheckpoint& from,
                                const std::filesystem::path& small_files, const std::filesystem::path& output,
                                std::uint64_t max_shard_bytes, const ckpt::ExportProgress& progress) {
  return ckpt::export_content(small_files, model_content(from, progress), output, max_shard_bytes, progress);
}

std::filesystem::path import_training(const foreign::ForeignCheckpoint& from,
                                      const std::filesystem::path& small_files,
                                      const std::filesystem::path& checkpoints, std::uint64_t max_shard_bytes,
                                      const ckpt::ExportProgress& progress) {
  require<DataError>(from.state.has_value(), "'{}' holds no state of an optimizer{}{}",
                     from.weights->directory().string(), from.why_no_state.empty() ? "" : ": ",
                     from.why_no_state);
  const ckpt::TrainingState state = training_state(from);
  ckpt::WriterOptions options;
  options.max_shard_bytes = max_shard_bytes;
  ckpt::CheckpointWriter writer(checkpoints, options);
  writer.save(state, std::make_unique<ForeignSnapshot>(from, small_files, progress));
  writer.wait();
  return checkpoints / ckpt::checkpoint_name(state.step);
}

}  // namespace stoa::run
