#include "cli/schema.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/shipped_files.h"
#include "cli/key_conditions.h"
#include "config/reference.h"
#include "config/yaml.h"
#include "foreign/nemo/nemo_file.h"
#include "foreign/nemo_keys.h"
#include "foreign/tuning_programs.h"
#include "train/layout_plan.h"

namespace stoa::cli {

config::Section<RunConfig> run_schema(std::optional<std::int64_t> ranks) {
  using C = RunConfig;
  config::Section<C> s;
  const auto declare_trainer = [](config::Section<train::TrainerConfig>& t) { train::declare(t); };
  const auto declare_exp = [](config::Section<train::ExpManagerConfig>& t) { train::declare(t); };
  const auto declare_batch = [](config::Section<train::BatchConfig>& t) { train::declare(t); };
  const auto declare_scale = [](config::Section<train::LossScaleConfig>& t) { train::declare(t); };
  const auto declare_tokenizer = [](config::Section<data::TokenizerConfig>& t) { data::declare(t); };
  const auto declare_data = [](config::Section<data::DataConfig>& t) { data::declare(t); };
  const auto declare_chats = [](config::Section<tune::ChatDataConfig>& t) { tune::declare(t); };
  const auto declare_objective = [](config::Section<tune::ObjectiveConfig>& t) { tune::declare(t); };
  const auto declare_distill = [](config::Section<tune::DistillConfig>& t) { tune::declare(t); };
  const auto declare_layout = [](config::Section<train::LayoutConfig>& t) { train::declare(t); };
  const auto declare_sharding = [](config::Section<train::ShardingConfig>& t) { train::declare(t); };
  s.field("name", &C::name).help("Name of the run, for display.");
  s.field("restore_from_path", &C::restore_from_path)
      .help("Model directory or checkpoint from whose weights a new run starts.");
  s.section("trainer", &C::trainer, declare_trainer, "Length of the run, intervals, precision, devices.");
  s.section("exp_manager", &C::exp_manager, declare_exp, "The run directory, resuming, checkpoints.");
  s.section("model", &C::batch, declare_batch);
  s.section("model", &C::model, model::declare, "Batch, shape and initial weights of the model.");
  s.section("model", &C::estimated, model::declare_estimated);
  s.section("model", &C::loss_scale, declare_scale);
  s.section("model.tokenizer", &C::tokenizer, declare_tokenizer,
            "The tokenizer. `model.tokenizer: DIR` is short for `model.tokenizer.type: DIR`.");
  s.section("model.data", &C::data, declare_data,
            "Training data. `model.data: PREFIX` is short for `model.data.data_prefix: PREFIX`.");
  s.section("model.data", &C::chats, declare_chats);
  s.section("model.objective", &C::objective, declare_objective, "What tuning minimises (model.data.chat).");
  s.section("model.distill", &C::distill, declare_distill, "Training by the predictions of a teacher.");
  s.section("model.optim", &C::optim, optim::declare, "Optimizer and schedules.");
  s.section("model", &C::layout, declare_layout);
  s.section("model.optim", &C::sharding, declare_sharding);
  s.validate({"trainer.devices", "model.tensor_model_parallel_size", "model.pipeline_model_parallel_size"},
             [ranks](const C& c) {
               require<ConfigError>(
                   !ranks || train::ranks_of(c) == *ranks,
                   "trainer.devices {} x num_nodes {} = {}, but {} ranks run: make them agree, or "
                   "leave both out",
                   c.trainer.devices.value_or(1), c.trainer.num_nodes.value_or(1), train::ranks_of(c),
                   ranks.value_or(0));
               train::plan_layout(c);
             });
  s.validate({"model.mtp_num_layers", "model.hybrid_override_pattern", "model.num_layers"},
             [](const C& c) { model::validate(c.estimated, c.model); });
  s.resolve([ranks](C& c) {
    if (ranks && !c.trainer.devices && *ranks % c.trainer.num_nodes.value_or(1) == 0)
      c.trainer.devices = *ranks / c.trainer.num_nodes.value_or(1);
  });
  s.share({"model.encoder_seq_length", "model.data.seq_length"});
  return s;
}

fs::path presets_directory() { return shipped_directory(); }

RunConfig load_run_config(const std::string& config, std::span<const std::string> overrides,
                          config::Report* report, std::optional<std::int64_t> ranks,
                          foreign::Purpose purpose) {
  const config::Sources sources{presets_directory(), foreign::nemo_keys(), key_conditions()};
  const auto section = run_schema(ranks);
  config::Report found;
  RunConfig run;
  std::error_code error;
  bool nemo_file = false;
  if (fs::is_regular_file(config, error)) {
    const config::Node root = config::read_yaml(config);
    foreign::refuse_tuning_program(root, config);
    nemo_file = foreign::is_nemo(root);
  }
  if (nemo_file) {
    foreign::NemoFile nemo = foreign::read_nemo(config, overrides, section.schema(), purpose);
    found = config::read_object(section.schema(), nemo.root, &run, sources);
    found.notes.insert(found.notes.begin(), nemo.notes.begin(), nemo.notes.end());
  } else {
    run = config::load<RunConfig>(section, config, overrides, sources, &found);
  }
  if (report) *report = std::move(found);
  return run;
}

RunConfig read_nemo_run_config(config::Node root, std::span<const std::string> overrides,
                               foreign::Purpose purpose) {
  const auto section = run_schema();
  const foreign::NemoFile nemo = foreign::read_nemo(std::move(root), overrides, section.schema(), purpose);
  RunConfig run;
  config::read_object(section.schema(), nemo.root, &run,
                      {presets_directory(), foreign::nemo_keys(), key_conditions()});
  return run;
}

RunConfig parse_run_config(std::string_view yaml, std::span<const std::string> overrides,
                           config::Report* report) {
  const auto section = run_schema();
  std::vector<config::Node> layers;
  layers.push_back(config::parse_yaml(yaml, "text"));
  const config::Node root =
      config::merge_layers(section.schema(), std::move(layers), config::parse_overrides(overrides, 1));
  RunConfig run;
  config::Report found = config::read_object(section.schema(), root, &run,
                                             {presets_directory(), foreign::nemo_keys(), key_conditions()});
  if (report) *report = std::move(found);
  return run;
}

std::string show_run_config(const RunConfig& run) {
  return config::write_yaml(run_schema().schema().print(&run));
}

std::string reference_page() {
  const auto section = run_schema();
  const RunConfig defaults;
  return config::reference_markdown(section.schema(), section.schema().print(&defaults),
                                    foreign::nemo_keys());
}

}  // namespace stoa::cli
