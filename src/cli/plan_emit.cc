#include "cli/plan_emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "cli/config_source.h"
#include "cli/key_conditions.h"
#include "cli/plan_search_command.h"
#include "cli/schema.h"
#include "config/difference.h"
#include "config/yaml.h"
#include "foreign/megatron/patch.h"
#include "foreign/nemo/nemo_file.h"
#include "foreign/nemo2/recipe.h"
#include "foreign/nemo_writing.h"
#include "optim/batch_plan.h"
#include "plan/emit.h"
#include "plan/search_report.h"

namespace stoa::cli {
namespace {

using foreign::MegatronText;
using foreign::NemoSetting;

config::Node resolved(const train::RunConfig& run) {
  return config::parse_yaml(show_run_config(run), "plan");
}

// Values that are left out become what they stand for, so that two ways to say the same compare equal.
void write_out(train::RunConfig& run, std::int64_t vocabulary) {
  model::ModelConfig& m = run.model;
  m.ffn_hidden_size = m.ffn_size();
  m.num_query_groups = m.query_groups();
  m.kv_channels = m.latent.multi_latent_attention ? std::nullopt : std::optional(m.head_size());
  m.max_position_embeddings = m.max_positions();
  const bool qkv = m.has_qkv_bias(), output = m.has_attention_output_bias(), mlp = m.has_mlp_bias();
  m.bias = model::BiasKind::kAll;
  m.qkv_bias = qkv;
  m.attention_output_bias = output;
  m.mlp_bias = mlp;
  m.vocab_size = vocabulary;
  if (m.latent.multi_latent_attention) m.qk_layernorm = true;  // of its latent vectors
  if (m.moe.num_moe_experts) m.moe.moe_ffn_hidden_size = m.moe_ffn_size();
  if (m.recompute.granularity != model::RecomputeGranularity::kFull) {
    m.recompute.method.reset();
    m.recompute.num_layers.reset();
  } else {
    m.recompute.method = m.recompute.method.value_or(model::RecomputeMethod::kUniform);
    m.recompute.num_layers = m.recompute.num_layers.value_or(1);
  }
  train::LayoutConfig& l = run.layout;
  if (l.pipeline_model_parallel_split_rank.value_or(0) == 0) l.pipeline_model_parallel_split_rank.reset();
  if (l.virtual_pipeline_model_parallel_size == 1) l.virtual_pipeline_model_parallel_size.reset();
  const char* usual = l.virtual_pipeline_model_parallel_size ? "interleaved" : "1f1b";
  if (!l.pipeline_schedule || l.pipeline_model_parallel_size == 1) l.pipeline_schedule = usual;
  l.expert_tensor_parallel_size = l.expert_tensor_parallel_size.value_or(l.tensor_model_parallel_size);
  l.sequence_parallel = l.sequence_parallel && l.tensor_model_parallel_size > 1;
  l.microbatch_group_size_per_vp_stage =
      l.microbatch_group_size_per_vp_stage.value_or(l.pipeline_model_parallel_size);
  if (l.pipeline_layers && std::adjacent_find(l.pipeline_layers->begin(), l.pipeline_layers->end(),
                                              std::not_equal_to<>()) == l.pipeline_layers->end())
    l.pipeline_layers.reset();
  run.batch.global_batch_size = run.batch.global();
  optim::OptimConfig& o = run.optim;
  o.start_weight_decay = o.start_weight_decay.value_or(o.weight_decay);
  o.end_weight_decay = o.end_weight_decay.value_or(o.weight_decay);
  if (!o.sched.decay_steps && run.trainer.max_steps)
    o.sched.decay_steps = std::max<std::int64_t>(1, *run.trainer.max_steps - o.sched.constant_steps);
  o.sched.constant_steps = 0;
  if (!o.sched.warmup_ratio) o.sched.warmup_steps = o.sched.warmup_steps.value_or(0);
  run.trainer.gradient_clip_val = run.trainer.gradient_clip_val.value_or(0);
}

// Files, devices, and what changes only the speed of Stoa's own program.
bool counts(const std::string& path) {
  constexpr const char* kOthers[] = {"name",
                                     "restore_from_path",
                                     "trainer.max_epochs",
                                     "trainer.max_time",
                                     "trainer.log_every_n_steps",
                                     "trainer.val_check_interval",
                                     "trainer.limit_val_batches",
                                     "trainer.trace_steps",
                                     "trainer.check_weight_hash_across_dp_replicas_interval",
                                     "trainer.devices",
                                     "trainer.num_nodes",
                                     "trainer.communication_timeout",
                                     "trainer.stop_grace",
                                     "trainer.memory_limit_gb",
                                     "trainer.num_threads",
                                     "trainer.sample_prompts",
                                     "trainer.sample_max_tokens",
                                     "trainer.eval_tasks",
                                     "trainer.eval_interval",
                                     "trainer.eval_limit",
                                     "trainer.eval_shots",
                                     "trainer.eval_chat_template",
                                     "trainer.eval_data",
                                     "trainer.eval_include_path",
                                     "model.make_vocab_size_divisible_by",
                                     "model.moe_buffer_factor",
                                     "model.data.data_prefix",
                                     "model.data.splits_string",
                                     "model.data.index_mapping_dir",
                                     "model.optim.bucket_cap_mb",
                                     "model.optim.overlap_grad_sync",
                                     "model.optim.reduce_each_microbatch"};
  return !path.starts_with("exp_manager.") && !path.starts_with("model.tokenizer.") &&
         std::find(std::begin(kOthers), std::end(kOthers), path) == std::end(kOthers);
}

// "model.bert.*" and "model.moe_layer_freq" of conditions.
bool is_key(const std::string& pattern, const std::string& path) {
  return pattern.ends_with("*") ? path.starts_with(pattern.substr(0, pattern.size() - 1)) : pattern == path;
}

void require_same(const char* program, const train::RunConfig& planned, const train::RunConfig& read_back,
                  std::int64_t vocabulary) {
  const auto differ = differences_of_plans(planned, read_back, vocabulary);
  require<ConfigError>(differ.empty(), "{} has no words for part of this plan, and nothing is written: {}",
                       program, fmt::join(differ, "; "));
}

EmittedPlan emit_stoa(const PlanSubject& s, const train::RunConfig& planned) {
  EmittedPlan out{show_run_config(planned), "plan.yaml", "stoa train @FILE", true, {}, {}};
  if (!s.cluster.links.host_is_device && !s.cluster.links.shared_device) out.command += " --backend cuda";
  // What the configuration leaves open is asked for when the job starts.
  const auto ask = [&](bool open, const char* variable, const char* words, const char* key) {
    if (!open) return;
    out.needs.push_back(fmt::format("{}: {}", variable, words));
    out.command += fmt::format(" {}=\"${}\"", key, variable);
  };
  const config::Node tree = resolved(planned);
  const auto null = [&](const char* path) {
    const config::Node* node = tree.find_path(path);
    return !node || node->is_null() || (node->is_scalar() && node->scalar == "null");
  };
  ask(planned.data.data_prefix.empty(), "DATA", "set it to the prepared data (stoa data prepare)",
      "model.data");
  ask(null("model.tokenizer.type") && null("model.tokenizer.vocab_file") && null("model.tokenizer.model"),
      "TOKENIZER", "set it to the directory of the tokenizer", "model.tokenizer");
  ask(!planned.trainer.max_steps && !planned.trainer.max_tokens && !planned.trainer.max_epochs, "STEPS",
      "set it to the number of steps", "trainer.max_steps");
  if (!train::run_directory(planned)) out.command += fmt::format(" --output runs/{}", planned.name);
  return out;
}

EmittedPlan emit_torchtitan(const PlanSubject& s, const train::RunConfig& planned, const plan::Found& found) {
  EmittedPlan out;
  const plan::EmitModel model{s.training.options.model, s.config.name, s.workload.format,
                              s.config.trainer.max_steps.value_or(0)};
  for (const std::string& line : plan::torchtitan_arguments(found, model, out.notes)) out.text += line + "\n";
  out.file_name = "torchtitan.args";
  out.command = fmt::format(
      "bash -c 'torchrun --nnodes=$SLURM_NNODES --nproc-per-node={} --rdzv-backend=c10d "
      "--rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT -m torchtitan.train $(cat @FILE)'",
      planned.trainer.devices.value_or(1));
  return out;
}

// For Megatron-LM and NeMo.
class Emission {
 public:
  Emission(const ConfigArguments& arguments, const train::RunConfig& given, const train::RunConfig& planned,
           std::int64_t vocabulary, const std::string& title)
      : a_(arguments),
        given_(given),
        vocabulary_(vocabulary),
        planned_(in_steps(planned, !arguments.from_megatron.empty())),
        ranks_{planned.trainer.num_nodes.value_or(1), planned.trainer.devices.value_or(1)},
        title_(title) {}

  EmittedPlan megatron() {
    EmittedPlan out;
    MegatronText source;
    foreign::MegatronPatch patch;
    if (!a_.from_megatron.empty()) {
      source = foreign::megatron_text(a_.from_megatron);
      patch =
          foreign::patch_megatron(source.words, foreign::write_megatron(resolved(in_steps(as_given(), true))),
                                  foreign::write_megatron(resolved(planned_)));
      if (patch.older)
        out.notes.emplace_back(
            "words of an older Megatron-LM, of DeepSpeed's or BigScience's copy: written for current "
            "Megatron-LM, whose names they have now; what it lacks is left out, with the reason");
    } else {
      require<ConfigError>(
          planned_.model.kind == model::ModelKind::kGpt,
          "Megatron-LM's pretrain_gpt.py trains decoders: a plan of kind {} is written where "
          "its command was given (--from-megatron)",
          planned_.model.kind == model::ModelKind::kBert ? "bert" : "t5");
      train::RunConfig whole = planned_;
      whole.model.vocab_size = vocabulary_;
      patch.arguments = foreign::write_megatron(resolved(whole));
      files(patch.arguments, out.notes);
    }
    std::string note;
    out.text = foreign::patched_text(source, patch, ranks_, title_, note);
    if (!note.empty()) out.notes.push_back(note);
    const bool yaml = source.kind == MegatronText::Kind::kYaml && source.text != "" && source.whole;
    out.file_name = yaml ? "megatron.yaml" : "megatron.sh";
    const bool starts_itself = out.text.find("srun ") != std::string::npos;
    out.command = starts_itself ? "" : "bash @FILE";
    if (yaml) {  // as Megatron-LM's functional tests start it
      out.needs = {"MEGATRON_LM: set it to the directory of Megatron-LM",
                   "DATA_PATH: set it to the directory of the data of its tests"};
      out.command =
          "bash \"$MEGATRON_LM/tests/functional_tests/shell_test_utils/_run_training.sh\" "
          "TRAINING_SCRIPT_PATH=pretrain_gpt.py TRAINING_PARAMS_PATH=@FILE "
          "DATA_PATH=\"$DATA_PATH\" OUTPUT_PATH=\"$PWD/run\" TENSORBOARD_PATH=\"$PWD/run/tensorboard\" "
          "CHECKPOINT_SAVE_PATH=\"$PWD/run/checkpoints\" CHECKPOINT_LOAD_PATH=\"$PWD/run/checkpoints\" "
          "RUN_NUMBER=1 REPEAT=1";
    }
    const MegatronText written =
        foreign::megatron_text(yaml ? MegatronText::Kind::kYaml : MegatronText::Kind::kScript, out.text,
                               yaml ? source.name : out.file_name);
    const train::RunConfig back = read_megatron_config(written, a_.ignore, {}, Purpose::kPlan, devices()).run;
    require_same("Megatron-LM", planned_, back, vocabulary_);
    return out;
  }

  EmittedPlan nemo() {
    const fs::path file = a_.config;
    std::error_code error;
    if (a_.from_megatron.empty()) {
      if (fs::is_regular_file(file, error) && file.extension() != ".json") {
        const config::Node root = config::read_yaml(file);
        if (foreign::is_nemo2(root)) return nemo2(root, read_text(file));
        if (foreign::is_nemo(root)) return nemo1(root, read_text(file));
      } else if (auto recipe = foreign::nemo2_recipe(a_.config)) {
        return nemo2(*recipe, "");
      }
    }
    require<ConfigError>(
        planned_.model.kind == model::ModelKind::kGpt,
        "a NeMo file for a model that is not a decoder can only be written where such a file was given");
    train::RunConfig whole = planned_;
    whole.model.vocab_size = vocabulary_;
    EmittedPlan out;
    out.text = foreign::nemo_file_text(foreign::write_nemo(resolved(whole)), title_);
    out.file_name = "nemo.yaml";
    out.command = kNemoCommand;
    const train::RunConfig back =
        read_nemo_run_config(config::parse_yaml(out.text, out.file_name), {}, Purpose::kPlan);
    require_same("NeMo 1.x", planned_, back, vocabulary_);
    return out;
  }

 private:
  std::int64_t devices() const { return ranks_.nodes * ranks_.per_node; }

  // The command without the user's changes behind it, which the emitted one holds.
  train::RunConfig as_given() const {
    ConfigArguments plain = a_;
    plain.overrides.clear();
    plain.output.clear();
    if (!plain.from_megatron.empty()) plain.config.clear();
    try {
      // A command of Megatron-LM has a batch by its ranks; files of NeMo say their own devices.
      const bool command = !plain.from_megatron.empty();
      return read_config(plain, Purpose::kPlan, command ? std::optional(devices()) : std::nullopt).run;
    } catch (const Error&) {
      return given_;  // which needs them
    }
  }

  // Data, tokenizer and checkpoints of a command that is written from scratch.
  void files(std::vector<foreign::WrittenArgument>& list, std::vector<std::string>& notes) const {
    const config::Node tree = resolved(planned_);
    const auto text = [&](const char* path) {
      const config::Node* node = tree.find_path(path);
      return node && node->is_scalar() && node->scalar != "null" ? node->scalar : std::string();
    };
    const std::string library = text("model.tokenizer.library"), type = text("model.tokenizer.type");
    if (library == "megatron" && !text("model.tokenizer.vocab_file").empty()) {
      list.push_back({"tokenizer-type", {"GPT2BPETokenizer"}});
      list.push_back({"vocab-file", {text("model.tokenizer.vocab_file")}});
      list.push_back({"merge-file", {text("model.tokenizer.merge_file")}});
    } else if (library == "sentencepiece" && !text("model.tokenizer.model").empty()) {
      list.push_back({"tokenizer-type", {"SentencePieceTokenizer"}});
      list.push_back({"tokenizer-model", {text("model.tokenizer.model")}});
    } else if (!type.empty()) {
      list.push_back({"tokenizer-type", {"HuggingFaceTokenizer"}});
      list.push_back({"tokenizer-model", {type}});
    } else {
      list.push_back({"tokenizer-type", {"NullTokenizer"}});
    }
    std::vector<std::string> prefix;
    if (const config::Node* node = tree.find_path("model.data.data_prefix"); node && node->is_sequence())
      for (const config::Node& item : node->items) prefix.push_back(item.scalar);
    else if (node && node->is_scalar() && node->scalar != "null")
      prefix = {node->scalar};
    if (prefix.empty()) {
      list.push_back({"mock-data", {}});
      notes.emplace_back(
          "the configuration names no data: the command trains on random tokens (--mock-data)");
    } else {
      list.push_back({"data-path", prefix});
    }
    if (const auto directory = train::run_directory(planned_)) {
      list.push_back({"save", {*directory + "/checkpoints"}});
      list.push_back({"load", {*directory + "/checkpoints"}});
    }
  }

  // Neither program counts a run in tokens. `whole`: a command that counts samples leaves a last step out
  // that is not whole, as Megatron-LM does.
  static train::RunConfig in_steps(train::RunConfig run, bool whole) {
    if (!run.trainer.max_tokens) return run;
    const std::int64_t length = run.model.encoder_seq_length;
    const std::int64_t samples =
        whole ? *run.trainer.max_tokens / length : (*run.trainer.max_tokens + length - 1) / length;
    const optim::BatchPlan batch(run.batch.global(), 1, run.batch.rampup_batch_size);
    std::int64_t steps = batch.steps_for(samples);
    if (whole && batch.samples_after(steps) > samples) --steps;
    run.trainer.max_steps = std::min(run.trainer.max_steps.value_or(steps), steps);
    run.trainer.max_tokens.reset();
    return run;
  }

  static constexpr const char* kNemoCommand =
      "python3 \"${NEMO:-/opt/NeMo}/examples/nlp/language_modeling/megatron_gpt_pretraining.py\" "
      "--config-path=\"$(dirname \"$PWD/@FILE\")\" --config-name=nemo";

  // What a T5's file says for each of its stacks is changed there.
  static std::vector<NemoSetting> of_stacks(const std::vector<NemoSetting>& changed,
                                            const config::Node& root) {
    std::vector<NemoSetting> out;
    for (const NemoSetting& s : changed) {
      const std::string key = s.path.substr(s.path.find('.') + 1);
      bool in_stacks = false;
      for (const char* stack : {"model.encoder.", "model.decoder."}) {
        if (!s.path.starts_with("model.") || !root.find_path(stack + key)) continue;
        out.push_back({stack + key, s.value});
        in_stacks = true;
      }
      if (!in_stacks) out.push_back(s);
    }
    return out;
  }

  EmittedPlan nemo1(const config::Node& root, const std::string& text) {
    EmittedPlan out;
    auto changed = foreign::changed_settings(foreign::write_nemo(resolved(as_given())),
                                             foreign::write_nemo(resolved(planned_)));
    // Between stages NeMo sends tensors of the model's length, which must be that of the data.
    const config::Node *model = root.find_path("model.encoder_seq_length"),
                       *data = root.find_path("model.data.seq_length");
    if (planned_.layout.pipeline_model_parallel_size > 1 && model && data && model->scalar != data->scalar)
      changed.push_back({"model.encoder_seq_length", std::to_string(planned_.model.encoder_seq_length)});
    // What mcore_distributed_optim does not read and another optimizer would.
    const auto optimizer = std::find_if(changed.begin(), changed.end(),
                                        [](const NemoSetting& s) { return s.path == "model.optim.name"; });
    if (optimizer != changed.end() && optimizer->value != "mcore_distributed_optim")
      for (const char* key : {"model.optim.dtype", "model.do_layer_norm_weight_decay"})
        if (root.find_path(key)) changed.push_back({key, "null"});
    std::vector<std::string> overrides;
    for (const NemoSetting& s : changed) overrides.push_back(fmt::format("{}={}", s.path, s.value));
    const train::RunConfig back = load_run_config(a_.config, overrides);
    require_same("NeMo 1.x", planned_, back, vocabulary_);
    if (root.find("stages") || root.find("training")) {  // the launcher's own file, which holds no model
      out.text = fmt::format("# {}\npython3 main.py", title_);
      for (const std::string& o : overrides) out.text += fmt::format(" \\\n  training.{}", o);
      out.text += "\n";
      out.file_name = "nemo.sh";
      out.command = "";
      return out;
    }
    out.text = fmt::format("# {}\n", title_) +
               foreign::patch_yaml(text, foreign::yaml_changes(of_stacks(changed, root), root));
    out.file_name = "nemo.yaml";
    out.command = kNemoCommand;
    if (!root.find("defaults"))
      require_same("NeMo 1.x", planned_,
                   read_nemo_run_config(config::parse_yaml(out.text, out.file_name), {}, Purpose::kPlan),
                   vocabulary_);
    return out;
  }

  EmittedPlan nemo2(const config::Node& root, const std::string& text) {
    EmittedPlan out;
    const bool bridge = root.find("train") != nullptr;
    auto changed = foreign::changed_settings(foreign::write_nemo2(resolved(as_given()), bridge),
                                             foreign::write_nemo2(resolved(planned_), bridge));
    // What says how many layers the ends of another pipeline have.
    if (planned_.layout.pipeline_layers != given_.layout.pipeline_layers)
      for (const char* end : {"first", "last"})
        for (const char* section : {"trainer.strategy", "model.config", "model"}) {
          const std::string key = fmt::format("{}.num_layers_in_{}_pipeline_stage", section, end);
          const config::Node* node = root.find_path(key);
          if (node && !node->is_null()) changed.push_back({key, "null"});
        }
    if (text.empty()) {  // by name: its changes are words of the command
      std::vector<std::string> overrides;
      for (const NemoSetting& s : changed) overrides.push_back(fmt::format("{}={}", s.path, s.value));
      out.text = fmt::format("# {}\nnemo llm pretrain --factory {}", title_, a_.config);
      for (const std::string& o : overrides) out.text += fmt::format(" \\\n  {}", o);
      out.text += "\n";
      out.file_name = "nemo.sh";
      out.command = "bash @FILE";
      require_same("NeMo 2", planned_, read_nemo2_config(root, overrides, Purpose::kPlan, devices()).run,
                   vocabulary_);
      return out;
    }
    out.text =
        fmt::format("# {}\n", title_) + foreign::patch_yaml(text, foreign::yaml_changes(changed, root));
    out.file_name = "recipe.yaml";
    out.command = "nemo llm pretrain --yaml @FILE";
    require_same(bridge ? "Megatron-Bridge" : "NeMo 2", planned_,
                 read_nemo2_config(config::parse_yaml(out.text, out.file_name), {}, Purpose::kPlan, {}).run,
                 vocabulary_);
    return out;
  }

  const ConfigArguments& a_;
  const train::RunConfig& given_;
  const std::int64_t vocabulary_;
  const train::RunConfig planned_;
  const foreign::PlannedRanks ranks_;
  const std::string& title_;
};

}  // namespace

std::vector<std::string> differences_of_plans(train::RunConfig planned, train::RunConfig read_back,
                                              std::int64_t vocabulary) {
  // A vocabulary that is read back as another one would be lost below.
  const auto read_vocabulary = read_back.model.vocab_size;
  std::vector<std::string> out;
  if (read_vocabulary && *read_vocabulary != vocabulary)
    out.push_back(fmt::format("model.vocab_size {} (read back as {})", vocabulary, *read_vocabulary));
  write_out(planned, vocabulary);
  write_out(read_back, vocabulary);
  const std::vector<config::Condition> conditions = key_conditions();
  for (const config::Difference& d : config::differences(run_schema().schema(), &planned, &read_back)) {
    const bool used = std::all_of(conditions.begin(), conditions.end(), [&](const auto& c) {
      const bool of_it = std::any_of(c.keys.begin(), c.keys.end(),
                                     [&](const std::string& key) { return is_key(key, d.path); });
      return !of_it || c.holds(&planned);
    });
    if (used && counts(d.path)) out.push_back(fmt::format("{} {} (read back as {})", d.path, d.from, d.to));
  }
  return out;
}

EmittedPlan emit_run(plan::SearchTarget target, const ConfigArguments& arguments,
                     const train::RunConfig& given, const train::RunConfig& planned, std::int64_t vocabulary,
                     const std::string& title) {
  Emission emission(arguments, given, planned, vocabulary, title);
  return target == plan::SearchTarget::kMegatron ? emission.megatron() : emission.nemo();
}

EmittedPlan emit_plan(plan::SearchTarget target, const PlanSubjectArguments& arguments,
                      const PlanSubject& subject, const plan::Found& found) {
  const train::RunConfig planned = with_plan(subject.config, found, subject.cluster.links.devices_per_node);
  if (target == plan::SearchTarget::kStoa) return emit_stoa(subject, planned);
  if (target == plan::SearchTarget::kTorchtitan) return emit_torchtitan(subject, planned, found);
  return emit_run(target, arguments.config, subject.config, planned,
                  subject.training.options.model.vocabulary,
                  fmt::format("{} on {} x {}: {}", subject.config.name, found.workload.devices(),
                              subject.cluster.device.name, plan::describe(found)));
}

}  // namespace stoa::cli
