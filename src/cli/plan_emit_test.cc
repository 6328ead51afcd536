// A plan as the user's own command or file: what he gave stays, what the plan changes is marked, and what is
// written reads back as the plan. Over the public command lines and files of tests/fixtures.
#include "cli/plan_emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "cli/config_source.h"
#include "cli/schema.h"
#include "config/yaml.h"
#include "foreign/megatron/patch.h"

namespace stoa::cli {
namespace {

using nlohmann::json;
using plan::SearchTarget;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

json emit_fixture(const char* name) {
  return json::parse(read_text(test::source_dir() / "tests/fixtures" / name / "corpus.json"));
}

std::int64_t vocabulary_of(const train::RunConfig& run) {
  return run.model.vocab_size.value_or(model::kVocabWithoutTokenizer);
}

// Another layout, recomputation and batch, as a search might find them: `variant` chooses.
train::RunConfig replanned(train::RunConfig run, int variant, bool only_even) {
  train::LayoutConfig& l = run.layout;
  const std::int64_t tp = run.model.num_attention_heads % 2 == 0 && variant != 1 ? 2 : 1;
  const bool t5 = run.model.kind == model::ModelKind::kT5;
  const std::int64_t pp = !t5 && run.model.num_layers % 2 == 0 && variant > 0 ? 2 : 1;
  const bool chunks = variant == 2 && pp == 2 && run.model.num_layers % 4 == 0;
  l = {};
  l.tensor_model_parallel_size = tp;
  l.sequence_parallel = tp > 1;
  l.pipeline_model_parallel_size = pp;
  if (chunks) l.virtual_pipeline_model_parallel_size = 2;
  l.pipeline_schedule = chunks ? "interleaved" : "1f1b";
  if (variant == 1 && pp == 2 && !only_even && run.model.num_layers > 2)
    l.pipeline_layers = {{run.model.num_layers / 2 + 1, run.model.num_layers / 2 - 1}};
  l.zero_stage = variant == 0 ? 0 : 1;
  run.sharding.overlap_grad_sync = true;
  run.batch.rampup_batch_size = std::nullopt;
  run.batch.micro_batch_size = 1;
  run.batch.global_batch_size = 64;
  run.trainer.devices = 8;
  run.trainer.num_nodes = 2;
  model::RecomputeConfig& r = run.model.recompute;
  r = {};
  if (variant == 1) r = {model::RecomputeGranularity::kFull, model::RecomputeMethod::kBlock, 1};
  if (variant == 2) r.granularity = model::RecomputeGranularity::kSelective;
  if (variant != 2) run.estimated.recompute_modules.clear();
  return run;
}

class PlanEmit : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  // The run that the emitted text is, read as a user would.
  static train::RunConfig read_emitted(const ConfigArguments& arguments) {
    return read_config(arguments, Purpose::kPlan).run;
  }

  const TestFolder directory_;
};

std::string bash_script(const std::string& arguments) {
  std::string out = "#!/bin/bash\n#SBATCH --nodes=1\n# my run\nmodule load cuda\nNNODES=1\nARGS=(\n";
  for (const std::string& word : foreign::megatron_text(arguments).words)
    out += fmt::format("{}{}", word.starts_with("--") ? "\n    " : " ", foreign::shell_quoted(word));
  return out +
         "\n)\ntorchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py \"${ARGS[@]}\" 2>&1 | tee log\n";
}

// What BigScience's copy has and current Megatron-LM does not.
bool only_of_forks(const train::RunConfig& run) {
  return run.model.embedding_layernorm ||
         run.model.position_embedding_type == model::PositionEmbedding::kAlibi ||
         run.model.activation == model::Activation::kGeglu;
}

// Every input with each of the three plans; each plan is a test, so that they run at the same time.
class PlanOfMegatronCorpus : public PlanEmit, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Plans, PlanOfMegatronCorpus, ::testing::Values(0, 1, 2));

TEST_P(PlanOfMegatronCorpus, IsReadBack) {
  const int variant = GetParam();
  const std::string current = read_text(test::source_dir() / "tests/fixtures/megatron/current_arguments.txt");
  int written = 0, in_place = 0, refused = 0;
  for (const json& entry : emit_fixture("megatron")) {
    SCOPED_TRACE(entry["path"].get<std::string>());
    const std::string kind = entry["kind"], text = entry["arguments"];
    ConfigArguments arguments;
    arguments.ignore = entry.value("refused", std::vector<std::string>());
    arguments.from_megatron = fmt::format("pretrain_{}.py {}", kind, text);
    const train::RunConfig given =
        read_config(arguments, Purpose::kPlan, entry["ranks"].get<std::int64_t>()).run;
    train::RunConfig planned = replanned(given, variant, false);
    // Steps that are given in samples follow the batch.
    planned.batch.global_batch_size = given.batch.global();
    planned.batch.rampup_batch_size = given.batch.rampup_batch_size;
    const std::int64_t copies =
        16 / (planned.layout.tensor_model_parallel_size * planned.layout.pipeline_model_parallel_size);
    const bool chunks = planned.layout.virtual_pipeline_model_parallel_size.has_value();
    if (planned.batch.global() % (copies * (chunks ? 2 : 1)) != 0) continue;
    if (variant > 0 && kind == "gpt") {
      arguments.from_megatron = path("run.sh");
      write_text(arguments.from_megatron, bash_script(text));
    }
    if (only_of_forks(given)) {
      ++refused;
      EXPECT_THROW(
          emit_run(SearchTarget::kMegatron, arguments, given, planned, vocabulary_of(given), "a plan"),
          ConfigError);
      continue;
    }
    const EmittedPlan emitted =
        emit_run(SearchTarget::kMegatron, arguments, given, planned, vocabulary_of(given), "a plan");
    ++written;
    write_text(path("plan.sh"), emitted.text);
    // A command that counts tokens is written in samples, whose first limit ends the run.
    if (const auto tokens = planned.trainer.max_tokens) {
      const std::int64_t steps = *tokens / planned.model.encoder_seq_length / planned.batch.global();
      planned.trainer.max_steps = std::min(planned.trainer.max_steps.value_or(steps), steps);
      planned.trainer.max_tokens.reset();
    }
    ConfigArguments again = arguments;
    again.from_megatron = path("plan.sh");
    EXPECT_THAT(
        differences_of_plans(planned, read_config(again, Purpose::kPlan, 16).run, vocabulary_of(given)),
        ::testing::IsEmpty());
    for (const auto& a :
         foreign::read_megatron_command(foreign::megatron_text(path("plan.sh")).words).arguments)
      EXPECT_THAT("\n" + current, HasSubstr("\n" + a.name + "\n"));
    // Every argument of the user is there, and what is changed is marked.
    const auto before = foreign::read_megatron_command(foreign::megatron_text(arguments.from_megatron).words),
               after = foreign::read_megatron_command(foreign::megatron_text(path("plan.sh")).words);
    for (const auto& a : before.arguments) {
      const auto it = std::find_if(after.arguments.begin(), after.arguments.end(),
                                   [&](const auto& b) { return b.name == a.name; });
      if (it == after.arguments.end() || it->values != a.values) {
        EXPECT_THAT(emitted.text, HasSubstr("plan")) << a.name;
        EXPECT_THAT(emitted.text, HasSubstr("--" + a.name)) << "named where it is left out";
      }
    }
    if (arguments.from_megatron == path("run.sh")) {
      const bool here = emitted.text.find("# my run\n") != std::string::npos;
      in_place += here;
      EXPECT_TRUE(here) << fmt::format("{}", fmt::join(emitted.notes, "; "));
      EXPECT_THAT(emitted.text, AllOf(HasSubstr("module load cuda"), HasSubstr("--nnodes 2"),
                                      HasSubstr("#SBATCH --nodes=2"), HasSubstr("| tee log")));
    }
  }
  EXPECT_GE(written, 140);
  EXPECT_GE(in_place, variant > 0 ? 120 : 0);  // scripts have these plans
  EXPECT_GE(refused, 10);
}

class PlanOfNemoCorpus : public PlanEmit, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Plans, PlanOfNemoCorpus, ::testing::Values(0, 2));

TEST_P(PlanOfNemoCorpus, IsReadBack) {
  const int variant = GetParam();
  int written = 0;
  for (const json& entry : emit_fixture("nemo")) {
    if (entry.contains("refused")) continue;
    SCOPED_TRACE(entry["path"].get<std::string>());
    ConfigArguments arguments;
    arguments.config = path("training.yaml");
    write_text(arguments.config,
               "# mine\n" + config::write_yaml(config::parse_yaml(entry["values"].dump(), "x")));
    train::RunConfig given;
    try {
      given = read_config(arguments, Purpose::kPlan).run;
    } catch (const Error&) {
      continue;  // read with settings that the corpus test gives
    }
    if (given.model.recompute.offload.cpu_offloading) continue;
    const train::RunConfig planned = replanned(given, variant, true);
    const EmittedPlan emitted =
        emit_run(SearchTarget::kNemo, arguments, given, planned, vocabulary_of(given), "a plan");
    ++written;
    EXPECT_THAT(emitted.text, AllOf(HasSubstr("# mine"), HasSubstr("# plan: was")));
    ConfigArguments again;
    again.config = path("plan.yaml");
    write_text(again.config, emitted.text);
    EXPECT_THAT(differences_of_plans(planned, read_emitted(again), vocabulary_of(given)),
                ::testing::IsEmpty());
  }
  EXPECT_GE(written, 100);
}

TEST_F(PlanEmit, RecipesOfNemo2AreChangedInTheirOwnKeys) {
  int written = 0;
  for (const char* file : {"corpus.json", "bridge.json"}) {
    for (const json& entry : json::parse(read_text(test::source_dir() / "tests/fixtures/nemo2" / file))) {
      if (entry.contains("refused")) continue;
      SCOPED_TRACE(entry["name"].get<std::string>());
      ConfigArguments arguments;
      arguments.config = path("recipe.yaml");
      write_text(arguments.config, config::write_yaml(config::parse_yaml(entry["values"].dump(), "x")));
      const train::RunConfig given = read_config(arguments, Purpose::kPlan).run;
      if (given.model.kind != model::ModelKind::kGpt || given.layout.zero_stage > 1) continue;
      const train::RunConfig planned = replanned(given, 2, true);
      const EmittedPlan emitted =
          emit_run(SearchTarget::kNemo, arguments, given, planned, vocabulary_of(given), "a plan");
      ++written;
      ConfigArguments again;
      again.config = path("plan.yaml");
      write_text(again.config, emitted.text);
      EXPECT_THAT(differences_of_plans(planned, read_emitted(again), vocabulary_of(given)),
                  ::testing::IsEmpty());
    }
  }
  EXPECT_GE(written, 100);
}

// Everything that has words in the other's language is said, from a configuration of Stoa.
TEST_F(PlanEmit, WritesACommandForWhatMegatronHas) {
  const char* const models[] = {
      "model: {activation: swiglu, normalization: rmsnorm, position_embedding_type: rope, bias: none, "
      "rotary_percentage: 0.5}",
      "model: {activation: squared_relu, bias: qkv, share_embeddings_and_output_weights: false, vocab_size: "
      "1000}",
      "model: {window_size: 256, window_attn_skip_freq: 4, attention_sinks: true, qk_layernorm: true}",
      "model: {position_embedding_type: rope, no_rope_layers: [3, 7], rope_scaling: {type: llama3, factor: "
      "8, "
      "original_max_position_embeddings: 8192, low_freq_factor: 1, high_freq_factor: 4}}",
      "model: {bias: none, num_moe_experts: 8, moe_router_topk: 2, moe_ffn_hidden_size: 512, "
      "moe_shared_expert_intermediate_size: 256, moe_router_score_function: sigmoid, "
      "moe_router_enable_expert_bias: "
      "true, moe_router_pre_softmax: true, moe_dense_layers: [0, 1], moe_router_num_groups: 4, "
      "moe_router_group_topk: 2}",
      "model: {bias: none, num_moe_experts: 4, moe_shared_expert_intermediate_size: 256, "
      "moe_shared_expert_gate: true, "
      "moe_aux_loss_coeff: 0.01, moe_z_loss_coeff: 0.001, moe_expert_capacity_factor: 1.25}",
      "model: {multi_latent_attention: true, normalization: rmsnorm, bias: none, position_embedding_type: "
      "rope, q_lora_rank: "
      "96, kv_lora_rank: 64, qk_head_dim: 32, qk_pos_emb_head_dim: 16, v_head_dim: 32}",
      "model: {fp8: e4m3, fp8_recipe: delayed, fp8_margin: 2, fp8_amax_history_len: 16, fp8_wgrad: false, "
      "first_last_layers_bf16: true, num_layers_at_end_in_bf16: 3}",
      "model: {cpu_offloading: true, cpu_offloading_num_layers: 3, fp32_residual_connection: false}",
      "{trainer: {precision: fp16, max_steps: 1000}, model: {optim: {name: sgd, momentum: 0.8, sched: {name: "
      "WSD, "
      "wsd_decay_steps: 100, warmup_steps: 10}}}}",
      "{trainer: {max_steps: 1000}, model: {pipeline_model_parallel_size: 2, pipeline_layers: [7, 5], optim: "
      "{weight_decay: 0.05, betas: [0.9, 0.98], sched: {name: CosineAnnealing, warmup_ratio: 0.01, "
      "constant_steps: "
      "100, min_lr: 1e-5}}}}"};
  for (const char* yaml : models) {
    SCOPED_TRACE(yaml);
    train::RunConfig run = parse_run_config(yaml);
    run.trainer.devices = 8;
    run.batch.global_batch_size = 8;
    const EmittedPlan emitted = emit_run(SearchTarget::kMegatron, {}, run, run, 1000, "a plan");
    EXPECT_THAT(emitted.text, HasSubstr("pretrain_gpt.py"));
  }
}

TEST_F(PlanEmit, RefusesWhatTheOtherCannotSay) {
  const auto refusal = [](SearchTarget target, const char* yaml) -> std::string {
    train::RunConfig run = parse_run_config(yaml);
    run.batch.global_batch_size = 8;
    try {
      emit_run(target, {}, run, run, 1000, "a plan");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "(written)";
  };
  using S = SearchTarget;
  for (const auto& [yaml, words] :
       {std::pair("model: {activation: geglu}", "model.activation geglu"),
        std::pair("model: {window_size: 256, window_first_layer: 4}", "model.window_first_layer 4"),
        std::pair("model: {position_embedding_type: alibi}", "model.position_embedding_type alibi"),
        std::pair("model: {norm_placement: both}", "model.norm_placement both"),
        std::pair("model: {attn_logit_softcapping: 50}", "model.attn_logit_softcapping 50"),
        std::pair("model: {kind: t5, position_embedding_type: relative}", "of kind t5"),
        std::pair("model: {label_smoothing: 0.1}", "model.label_smoothing 0.1"),
        std::pair("model: {rotary_base: 10000.5, position_embedding_type: rope}",
                  "model.rotary_base 10000.5"),
        std::pair("model: {freeze: [embedding]}", "model.freeze")})
    EXPECT_THAT(refusal(S::kMegatron, yaml), HasSubstr(words));
  for (const auto& [yaml, words] :
       {std::pair("model: {num_moe_experts: 8, moe_router_score_function: sigmoid}",
                  "model.moe_router_score_function sigmoid"),
        std::pair("model: {bias: none, num_moe_experts: 8, moe_shared_expert_intermediate_size: 64}",
                  "model.moe_shared_expert_intermediate_size 64"),
        std::pair("model: {pipeline_model_parallel_size: 2, pipeline_layers: [7, 5]}",
                  "model.pipeline_layers"),
        std::pair("model: {attention_sinks: true}", "model.attention_sinks true")})
    EXPECT_THAT(refusal(S::kNemo, yaml), HasSubstr(words));
  EXPECT_EQ(refusal(S::kNemo, "model: {activation: geglu}"), "(written)");
}

// The user's changes behind the command are part of what is written.
TEST_F(PlanEmit, ChangesBehindTheCommandAreWritten) {
  ConfigArguments arguments;
  arguments.from_megatron =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
      "--vocab-size 512 --micro-batch-size 1 --global-batch-size 8 --bf16 --checkpoint-activations";
  arguments.overrides = {"model.num_layers=8", "model.activation=swiglu"};
  const train::RunConfig given = read_config(arguments, Purpose::kPlan, 8).run;
  train::RunConfig planned = given;
  planned.trainer.devices = 8;
  planned.trainer.num_nodes = 1;
  planned.model.recompute = {};
  const EmittedPlan emitted = emit_run(SearchTarget::kMegatron, arguments, given, planned, 512, "a plan");
  EXPECT_THAT(emitted.text,
              AllOf(HasSubstr("--num-layers 8  # plan: was 4"), HasSubstr("--swiglu  # plan: added"),
                    HasSubstr("# left out by the plan: --checkpoint-activations")));
}

// A command of Megatron-DeepSpeed is one of Megatron-LM, started by torchrun.
TEST_F(PlanEmit, WordsOfForksAreThoseOfCurrentMegatron) {
  ConfigArguments arguments;
  arguments.from_megatron = path("ds.sh");
  write_text(arguments.from_megatron,
             "#!/bin/bash\ndeepspeed --num_gpus 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 "
             "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 512 "
             "--micro-batch-size 1 --global-batch-size 8 --bf16 --data-impl mmap --layernorm-epsilon 1e-6 "
             "--train-tokens 65536 --lr-warmup-tokens 5120 --lr 1e-4 --deepspeed --zero-stage 1 "
             "--deepspeed-activation-checkpointing --checkpoint-activations --ckpt-format fsdp_dtensor\n");
  const train::RunConfig given = read_config(arguments, Purpose::kPlan, 8).run;
  train::RunConfig planned = given;
  planned.trainer.devices = 8;
  planned.trainer.num_nodes = 1;
  const EmittedPlan emitted = emit_run(SearchTarget::kMegatron, arguments, given, planned, 512, "a plan");
  EXPECT_THAT(emitted.text,
              AllOf(HasSubstr("torchrun --nproc-per-node 8"), HasSubstr("--norm-epsilon 1e-6"),
                    HasSubstr("--train-samples 1024"), Not(HasSubstr("--train-iters")),
                    HasSubstr("--lr-warmup-samples 80"), HasSubstr("--use-distributed-optimizer"),
                    HasSubstr("--recompute-granularity full"),
                    HasSubstr("left out by the plan: --data-impl mmap: Megatron-LM finds it out"),
                    HasSubstr("left out by the plan: --ckpt-format fsdp_dtensor")));
  EXPECT_THAT(emitted.text,
              AllOf(Not(HasSubstr("deepspeed --num_gpus")), Not(HasSubstr("    --zero-stage"))));
  EXPECT_THAT(emitted.notes, ::testing::Contains(HasSubstr("written for current Megatron-LM")));
}

}  // namespace
}  // namespace stoa::cli
