#include "foreign/checkpoint/write_nemo.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/tar_writer.h"
#include "ckpt/torch/pickle_writer.h"
#include "ckpt/torch/torch_writer.h"
#include "foreign/checkpoint/nemo_config.h"

namespace stoa::foreign {
namespace {

using ckpt::torch::PickleWriter;

bool is_tokenizer_file(const fs::path& path) {
  const std::string name = path.filename().string();
  for (const char* start :
       {"tokenizer", "vocab", "merges", "special_tokens", "added_tokens", "chat_template"})
    if (name.starts_with(start)) return true;
  return name == "spiece.model";
}

std::vector<fs::path> tokenizer_files(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code error;
  if (!fs::is_directory(directory, error)) return out;
  for (const auto& item : fs::directory_iterator(directory))
    if (item.is_regular_file() && is_tokenizer_file(item.path())) out.push_back(item.path());
  return out;
}

// Counts of a loop of Lightning, all of which stand at `count`.
void write_progress(PickleWriter& out, std::int64_t count, std::initializer_list<const char*> stages) {
  out.begin_dict();
  for (const char* scope : {"total", "current"}) {
    out.text(scope).begin_dict();
    for (const char* stage : stages) out.text(stage).integer(count);
    out.end_dict();
  }
}

// Where Lightning's loops were after `steps` batches of the first epoch.
void write_loops(PickleWriter& out, std::int64_t steps) {
  out.text("loops").begin_dict().text("fit_loop").begin_dict();
  for (const char* empty : {"state_dict", "epoch_loop.automatic_optimization.state_dict",
                            "epoch_loop.manual_optimization.state_dict", "epoch_loop.val_loop.state_dict"})
    out.text(empty).begin_dict().end_dict();
  out.text("epoch_loop.state_dict").begin_dict().text("_batches_that_stepped").integer(steps).end_dict();
  for (const auto& [name, count] : {std::pair("epoch_loop.batch_progress", steps),
                                    {"epoch_loop.val_loop.batch_progress", std::int64_t{0}}}) {
    write_progress(out.text(name), count, {"ready", "completed", "started", "processed"});
    out.text("is_last_batch").boolean(false).end_dict();
  }
  for (const auto& [name, count] :
       {std::pair("epoch_loop.scheduler_progress", steps),
        {"epoch_loop.manual_optimization.optim_step_progress", std::int64_t{0}}}) {
    write_progress(out.text(name), count, {"ready", "completed"});
    out.end_dict();
  }
  out.text("epoch_loop.automatic_optimization.optim_progress").begin_dict().text("optimizer").begin_dict();
  write_progress(out.text("step"), steps, {"ready", "completed"});
  out.end_dict();
  write_progress(out.text("zero_grad"), steps, {"ready", "completed", "started"});
  out.end_dict().end_dict().end_dict();
  out.text("epoch_progress").begin_dict();
  for (const char* scope : {"total", "current"}) {
    out.text(scope).begin_dict();
    for (const auto& [stage, count] :
         {std::pair("ready", 1), {"completed", 0}, {"started", 1}, {"processed", 0}})
      out.text(stage).integer(count);
    out.end_dict();
  }
  out.end_dict().end_dict().end_dict();
}

// What Lightning saves besides tensors. The data module's state has the name of its class.
std::string lightning_text(const model::ModelSpec& spec, const CanonicalState& state,
                           std::int64_t expert_ranks) {
  PickleWriter out;
  out.begin_dict();
  out.text("epoch").integer(0).text("global_step").integer(state.counters.iteration);
  out.text("pytorch-lightning_version").text("2.4.0");
  for (const char* empty : {"state_dict", "callbacks", "optimizer_states"})
    out.text(empty).begin_dict().end_dict();
  out.text("lr_schedulers").begin_list();
  if (state.exp_avg) {
    out.begin_dict().text("last_epoch").integer(state.counters.iteration);
    out.text("_step_count").integer(state.counters.iteration + 1).end_dict();
  }
  out.end_list();
  if (state.exp_avg) {
    write_loops(out, state.counters.iteration);
    for (const char* data : {"PreTrainingDataModule", "MockDataModule"})
      out.text(data).begin_dict().text("consumed_samples").integer(state.counters.samples).end_dict();
    out.text("optimizer").begin_list();
    write_megatron_optimizer(out, spec, state, expert_ranks, "fully_sharded_model_space");
    out.end_list();
  }
  out.end_dict();
  return ckpt::torch::torch_file_of(out.finish());
}

void copy_into(const fs::path& file, const fs::path& folder) {
  write_text(folder / file.filename(), read_text(file));
}

}  // namespace

MegatronExport write_nemo2(const model::ModelSpec& spec, const CanonicalState& state,
                           const MegatronForm& form, const fs::path& small_files, const fs::path& output,
                           const ckpt::ExportProgress& progress) {
  require_expert_ranks(spec, form.expert_ranks);
  const std::vector<fs::path> tokenizer = tokenizer_files(small_files);
  const NemoContext context = nemo2_context(spec, !tokenizer.empty());
  const std::string common = lightning_text(spec, state, form.expert_ranks);
  MegatronExport out;
  ckpt::write_complete(
      output,
      [&](const fs::path& staging) {
        const fs::path beside = staging / ckpt::kNemoContext, weights = staging / "weights";
        fs::create_directory(beside);
        fs::create_directory(weights);
        out = write_torch_dist(spec, state, form, "module.", common, weights, progress);
        write_text(beside / "model.yaml", context.model_yaml);
        write_text(beside / "io.json", context.io_json);
        if (!tokenizer.empty()) fs::create_directory(beside / kNemoTokenizer);
        for (const fs::path& file : tokenizer) copy_into(file, beside / kNemoTokenizer);
      },
      [] {});
  return out;
}

NemoArchive write_nemo1(const model::ModelSpec& spec, const CanonicalState& state, const MegatronForm& form,
                        const fs::path& small_files, const fs::path& output,
                        const ckpt::ExportProgress& progress) {
  require<IoError>(!fs::exists(output), "'{}' exists: name a new file", output.string());
  NemoArchive out;
  Nemo1Tokenizer tokenizer;
  std::vector<fs::path> files;
  const auto take = [&](const char* name) {
    const fs::path file = small_files / name;
    if (!fs::is_regular_file(file)) return std::string();
    files.push_back(file);
    return std::string(name);
  };
  tokenizer.sentencepiece = take("tokenizer.model");
  if (tokenizer.sentencepiece.empty() && fs::exists(small_files / "merges.txt")) {
    tokenizer.vocabulary = take("vocab.json");
    if (!tokenizer.vocabulary.empty()) tokenizer.merges = take("merges.txt");
  }
  out.tokenizer_left = files.empty() && !tokenizer_files(small_files).empty();
  const std::string config = nemo1_config(spec, tokenizer);
  CanonicalState weights;
  weights.weights = state.weights;
  PickleWriter common;
  common.begin_dict().text("state_dict").begin_dict().end_dict().end_dict();
  // The parts are written next to the archive and go into it one by one, each removed after it.
  fs::path parts = output;
  parts += ".parts";
  ckpt::with_staging(parts, [&](const fs::path& staging) {
    out.written = write_torch_dist(spec, weights, form, "model.", ckpt::torch::torch_file_of(common.finish()),
                                   staging, progress);
    ckpt::TarWriter tar(output);
    tar.add(ckpt::kNemoConfig, config);
    for (const fs::path& file : files) tar.add(file.filename().string(), read_text(file));
    tar.move(staging, "model_weights");
    tar.commit();
  });
  return out;
}

}  // namespace stoa::foreign
