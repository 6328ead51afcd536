// Checkpoints of trainings that Megatron-Core made: answers, one more step, and back.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <tuple>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

fs::path trainings() { return test::source_dir() / "tests/fixtures/megatron_training"; }

// The command line that Megatron-LM would have been given (tests/oracle/make_megatron_training_fixtures.py).
std::string command_of(const std::string& model) {
  const std::string llama =
      "--group-query-attention --num-query-groups 2 --kv-channels 4 --swiglu --normalization RMSNorm "
      "--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights ";
  std::string out =
      "pretrain_gpt.py --num-layers 2 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 24 "
      "--seq-length 8 --max-position-embeddings 64 --hidden-dropout 0 --attention-dropout 0 "
      "--micro-batch-size 2 --global-batch-size 2 --train-iters 3 --lr 0.01 --min-lr 0.01 --lr-decay-style "
      "constant --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --clip-grad 1.0 --vocab-size 48 "
      "--data-path "
      "tokens --no-bias-gelu-fusion --split 100,0,0 --eval-iters 0 ";
  if (model == "gpt_interleaved") out += "--num-layers 4 ";
  if (model == "llama3") out += llama + "--use-rope-scaling ";
  if (model == "moe")
    out += llama +
           "--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 12 --moe-layer-freq [0,1] "
           "--moe-shared-expert-intermediate-size 20 --moe-router-score-function sigmoid "
           "--moe-router-enable-expert-bias --moe-router-topk-scaling-factor 1.5 "
           "--moe-router-bias-update-rate 1e-12 --moe-router-load-balancing-type none ";
  if (model == "mla")
    out +=
        "--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
        "--multi-latent-attention --q-lora-rank 8 --kv-lora-rank 8 --qk-head-dim 4 --qk-pos-emb-head-dim 4 "
        "--v-head-dim 4 --rotary-scaling-factor 4 --mscale 1.0 --mscale-all-dim 1.0 --qk-layernorm ";
  return out;
}

// The name of a fixture, and of the model in it.
class TrainingCheckpoint : public Workplace, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string name() const { return GetParam(); }
  std::string model() const {
    for (const char* model : {"gpt_interleaved", "gpt", "moe"})
      if (name().starts_with(model)) return model;
    return name();
  }
  fs::path fixture() const {
    return (name() == "gpt_universal" ? trainings() / "../relaid_checkpoints" : trainings()) / name();
  }
  // After one more step, as Megatron-Core made it; of all forms of a model the same.
  fs::path next() const { return trainings() / model() / "iter_0000003"; }

  void expect_answers(const std::string& directory) {
    const auto answers = nlohmann::json::parse(read_text(next().parent_path() / "answers.json"));
    std::string ids;
    for (const auto& id : answers["ids"]) ids += fmt::format("{} ", id.get<int>());
    write_text(path("ids.txt"), ids + "\n");
    const auto found =
        nlohmann::json::parse(stoa_ok({"score", directory, "ids.txt", "--ids", "--dtype", "fp32"}).out);
    for (std::size_t i = 1; i < answers["ids"].size(); ++i)
      EXPECT_NEAR(found["logprobs"][i].get<double>(), answers["logprobs"][i].get<double>(), 1e-4) << i;
  }
  Outcome train_from(const std::string& checkpoint, const std::string& run, const Arguments& more = {}) {
    for (const char* file : {"tokens.bin", "tokens.idx"})
      if (!fs::exists(path(file))) fs::copy_file(trainings() / file, path(file));
    return stoa(Arguments{"train", "--from-megatron", command_of(model()), "trainer.precision=fp32",
                          "model.optim.eps=1e-4", "trainer.val_check_interval=0", "--restore", checkpoint,
                          "--output", run} +
                more);
  }
  // Every tensor of both, weights and optimizer, within 1e-4; in latent attention two elements of first
  // moments are 1.3e-4 apart.
  void expect_same_tensors(const std::string& a, const std::string& b) {
    const auto compared = nlohmann::json::parse(
        stoa({"compare", a, b, "--tolerance", name() == "mla" ? "2e-4" : "1e-4", "--json"}).out);
    EXPECT_GT(compared["tensors"], 20);
    EXPECT_EQ(compared["different_tensors"].size(), 0u) << compared.dump(1);
  }
};

TEST_P(TrainingCheckpoint, AnswersAsMegatronDoes) {
  expect_answers(fixture());
  stoa_ok({"checkpoint", "import", fixture(), "--output", "model"});
  expect_answers("model");
  EXPECT_EQ(stoa({"compare", fixture(), "model"}).exit_code, 0);
  EXPECT_THAT(stoa_ok({"checkpoint", "inspect", fixture()}).out,
              HasSubstr("embedding.word_embeddings.weight"));
}

TEST_P(TrainingCheckpoint, GoesOnAsMegatronDoes) {
  const Outcome trained = train_from(fixture(), "run");
  ASSERT_EQ(trained.exit_code, 0) << trained.text();
  EXPECT_THAT(trained.text(), HasSubstr("step-0000002"));
  stoa_ok({"checkpoint", "import", next(), "--with-optimizer", "--output", "after"});
  expect_same_tensors("run/checkpoints/step-0000003", "after/step-0000003");
}

// Megatron-Core's answers, from what NeMo makes of the same weights.
class NemoCheckpoint : public TrainingCheckpoint {};

TEST_P(NemoCheckpoint, AnswersAsMegatronDoes) {
  const fs::path nemo = test::source_dir() / "tests/fixtures/relaid_checkpoints" / GetParam();
  expect_answers(nemo);
  stoa_ok({"checkpoint", "import", nemo, "--output", "model"});
  expect_answers("model");
  EXPECT_THAT(stoa({"checkpoint", "import", nemo, "--with-optimizer", "--output", "state"}).err,
              HasSubstr("no state of an optimizer"));
}

INSTANTIATE_TEST_SUITE_P(Of, NemoCheckpoint, ::testing::Values("gpt.nemo", "gpt_legacy.nemo", "gpt_nemo2"),
                         [](const auto& of) {
                           const std::string name = of.param;
                           return name.substr(0, name.find('.'));
                         });

// What Stoa writes for Megatron is read back to the last bit, weights and optimizer.
TEST_F(Workplace, MegatronExportIsReadBack) {
  for (const auto& [name, model] :
       {std::pair<std::string, Arguments>{"dense", {}},
        {"experts",
         {"model.num_moe_experts=4", "model.moe_router_topk=2", "model.moe_dense_layers=[0]",
          "model.activation=swiglu", "model.bias=none", "model.normalization=rmsnorm",
          "model.position_embedding_type=rope", "model.share_embeddings_and_output_weights=false"}}}) {
    stoa_ok(train(name, model + Arguments{"trainer.max_steps=3", "model.optim.betas=[0.8, 0.97]"}));
    const bool experts = name != "dense";
    const Arguments exported{"checkpoint", "export", name, "--to", "megatron", "--dtype", "fp32", "--output"};
    stoa_ok(exported + Arguments{name + "-megatron"});
    const auto common = [&](const std::string& folder) {
      return read_text(path(folder) / "iter_0000003/common.pt");
    };
    // Several expert ranks have an optimizer of their own for the experts, whose group has its mark.
    const Outcome split =
        stoa(exported + Arguments{name + "-split", "--expert-model-parallel-size", experts ? "2" : "3"});
    EXPECT_EQ(split.exit_code == 0, experts) << split.text();
    if (experts)
      EXPECT_NE(common(name + "-split"), common(name + "-megatron"));
    else
      EXPECT_THAT(split.err, HasSubstr("that divides the model's 1 expert"));
    EXPECT_THAT(stoa({"checkpoint", "export", name + "/checkpoints/step-0000003/model", "--to", "megatron",
                      "--dtype", "fp32", "--output", name + "-weights", "--expert-model-parallel-size", "2"})
                    .err,
                HasSubstr("holds weights alone"));
    stoa_ok({"checkpoint", "import", name + (experts ? "-split" : "-megatron"), "--with-optimizer",
             "--output", name + "-back"});
    const auto compared =
        nlohmann::json::parse(stoa({"compare", fmt::format("{}/checkpoints/step-0000003", name),
                                    fmt::format("{}-back/step-0000003", name), "--json"})
                                  .out);
    EXPECT_EQ(compared["different_tensors"].size(), 0u) << compared.dump(1);
    EXPECT_EQ(compared["tensors"], compared["equal_tensors"]);
    const auto manifest = [&](const std::string& checkpoint) {
      return nlohmann::json::parse(read_text(path(checkpoint) / "state/manifest.json"))["training"];
    };
    const auto here = manifest(name + "/checkpoints/step-0000003"),
               back = manifest(name + "-back/step-0000003");
    EXPECT_EQ(here["adam"]["beta2"], 0.97);
    EXPECT_EQ(back["adam"], here["adam"]);
  }
}

// The same for NeMo 2, and for NeMo 1, whose archives hold weights alone.
TEST_F(Workplace, NemoExportIsReadBack) {
  const Arguments llama{"model.activation=swiglu", "model.bias=none", "model.normalization=rmsnorm",
                        "model.position_embedding_type=rope",
                        "model.share_embeddings_and_output_weights=false"};
  for (const auto& [name, model, archives] :
       {std::tuple<std::string, Arguments, bool>{"dense", {}, true},
        {"llama",
         llama + Arguments{"model.rope_scaling.type=llama3", "model.rope_scaling.factor=8",
                           "model.rope_scaling.original_max_position_embeddings=8192"},
         true},
        {"experts",
         llama +
             Arguments{"model.num_moe_experts=4", "model.moe_router_topk=2", "model.moe_dense_layers=[0]"},
         false}}) {
    stoa_ok(train(name, model + Arguments{"trainer.max_steps=3", "model.optim.betas=[0.8, 0.97]"}));
    const std::string checkpoint = name + "/checkpoints/step-0000003";
    const Arguments exported{"checkpoint", "export", name, "--to", "nemo", "--dtype", "fp32", "--output"};
    stoa_ok(exported + Arguments{name + "-nemo"});
    const auto context = nlohmann::json::parse(read_text(path(name + "-nemo/context/io.json")));
    EXPECT_EQ(context["version"], "0.0.1");
    EXPECT_TRUE(context["objects"].contains(context["root"]["key"].get<std::string>()));
    EXPECT_TRUE(fs::exists(path(name + "-nemo/context/nemo_tokenizer/tokenizer.json")));
    stoa_ok({"checkpoint", "import", name + "-nemo", "--with-optimizer", "--output", name + "-back"});
    const auto compared =
        nlohmann::json::parse(stoa({"compare", checkpoint, name + "-back/step-0000003", "--json"}).out);
    EXPECT_EQ(compared["different_tensors"].size(), 0u) << compared.dump(1);
    EXPECT_EQ(compared["tensors"], compared["equal_tensors"]);
    const auto training = [&](const std::string& at) {
      return nlohmann::json::parse(read_text(path(at) / "state/manifest.json"))["training"];
    };
    const auto here = training(checkpoint), back = training(name + "-back/step-0000003");
    for (const char* same : {"step", "samples", "adam"}) EXPECT_EQ(back[same], here[same]) << same;

    const Outcome archive = stoa(exported + Arguments{name + ".nemo"});
    EXPECT_EQ(archive.exit_code == 0, archives) << archive.text();
    if (!archives) {
      EXPECT_THAT(archive.err, HasSubstr("NeMo 1 has no such model"));
      EXPECT_FALSE(fs::exists(path(name + ".nemo")));
      continue;
    }
    EXPECT_FALSE(fs::exists(path(name + ".nemo.parts")));
    EXPECT_THAT(read_text(path(name + ".nemo")), HasSubstr("vocab_file: nemo:vocab.json"));
    stoa_ok({"checkpoint", "import", name + ".nemo", "--output", name + "-hf"});
    stoa_ok({"checkpoint", "import", name + "-nemo", "--output", name + "-hf2"});
    EXPECT_EQ(stoa({"compare", name + "-hf", name + "-hf2"}).exit_code, 0);
    EXPECT_THAT(stoa(exported + Arguments{name + ".nemo"}).err, HasSubstr("exists: name a new file"));
    EXPECT_THAT(stoa(exported + Arguments{"other.nemo", "--expert-model-parallel-size", "2"}).err,
                HasSubstr("'other.nemo' holds weights alone"));
  }
  stoa_ok(train("alibi", {"trainer.max_steps=3", "model.position_embedding_type=alibi"}));
  const Outcome refused =
      stoa({"checkpoint", "export", "alibi", "--to", "nemo", "--dtype", "fp32", "--output", "out"});
  EXPECT_THAT(refused.err, HasSubstr("NeMo 2 has no such model; it would lose:"));
  EXPECT_THAT(refused.err, HasSubstr("model.position_embedding_type"));
  EXPECT_FALSE(fs::exists(path("out")));
}

class MegatronsOther : public Workplace {
 protected:
  // What is written for Megatron and read back is the same to the last bit.
  void expect_exported(const std::string& checkpoint, const std::string& step) {
    stoa_ok(
        {"checkpoint", "export", checkpoint, "--to", "megatron", "--dtype", "fp32", "--output", "exported"});
    stoa_ok({"checkpoint", "import", "exported", "--with-optimizer", "--output", "again"});
    const auto compared = nlohmann::json::parse(stoa({"compare", checkpoint, "again/" + step, "--json"}).out);
    EXPECT_EQ(compared["tensors"], compared["equal_tensors"]);
    EXPECT_EQ(compared["different_tensors"].size(), 0u) << compared.dump(1);
  }
};

// An encoder-decoder that Megatron-Core wrote on two tensor ranks.
TEST_F(MegatronsOther, T5AnswersAsMegatronDoes) {
  const fs::path fixture = trainings() / "t5";
  const auto answers = nlohmann::json::parse(read_text(fixture / "answers.json"));
  const auto ids = [&](const char* key) {
    std::string out;
    for (const auto& id : answers[key]) out += fmt::format("{} ", id.get<int>());
    return out;
  };
  write_text(path("pairs.txt"), ids("source") + "\t" + ids("target") + "\n");
  stoa_ok({"checkpoint", "import", fixture, "--output", "model"});
  for (const std::string& model : {fixture.string(), std::string("model")}) {
    const auto found =
        nlohmann::json::parse(stoa_ok({"score", model, "pairs.txt", "--ids", "--dtype", "fp32"}).out);
    for (std::size_t i = 0; i < answers["target"].size(); ++i)
      EXPECT_NEAR(found["logprobs"][i].get<double>(), answers["logprobs"][i].get<double>(), 1e-4) << i;
  }
  stoa_ok({"checkpoint", "import", fixture, "--with-optimizer", "--output", "state"});
  EXPECT_TRUE(fs::exists(path("state/step-0000002/state/manifest.json")));
  expect_exported("state/step-0000002", "step-0000002");
}

// An encoder that Megatron-Core wrote on two tensor and two pipeline ranks, in both formats.
class MegatronsBert : public MegatronsOther, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    for (const char* file : {"sentences.bin", "sentences.idx", "vocab.txt"})
      fs::copy_file(trainings() / file, path(file));
    fs::copy(trainings() / GetParam(), path("checkpoints"), fs::copy_options::recursive);
  }
  const Arguments train_{
      "train",
      "--from-megatron",
      "pretrain_bert.py --num-layers 2 --hidden-size 8 --num-attention-heads 4 --ffn-hidden-size 16 "
      "--seq-length 32 "
      "--max-position-embeddings 64 --hidden-dropout 0 --attention-dropout 0 --micro-batch-size 2 "
      "--global-batch-size 2 "
      "--train-iters 3 --lr 0.01 --min-lr 0.01 --lr-decay-style constant --weight-decay 0.1 --adam-beta1 0.9 "
      "--adam-beta2 0.95 --clip-grad 1.0 --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt "
      "--data-path "
      "sentences --no-bias-gelu-fusion --split 100,0,0 --eval-iters 0",
      "trainer.precision=fp32",
      "model.optim.eps=1e-4",
      "trainer.val_check_interval=0"};
  const nlohmann::json answers_ = nlohmann::json::parse(read_text(trainings() / "bert/answers.json"));
};

TEST_P(MegatronsBert, AnswersAsMegatronDoes) {
  const auto ids_of = [](const nlohmann::json& list) {
    std::string out;
    for (const auto& id : list) out += fmt::format("{} ", id.get<int>());
    return out;
  };
  write_text(path("ids.txt"), ids_of(answers_["ids"]) + "\n");
  write_text(path("pair.txt"), ids_of(answers_["pair"][0]) + "\t" + ids_of(answers_["pair"][1]) + "\n");
  fs::create_directory(path("pieces"));
  fs::copy_file(path("vocab.txt"), path("pieces/vocab.txt"));
  stoa_ok({"checkpoint", "import", "checkpoints", "--tokenizer", "pieces", "--output", "model"});
  const auto config = nlohmann::json::parse(read_text(path("model/config.json")));
  EXPECT_EQ(config["model_type"], "megatron-bert");
  fs::copy_file(path("vocab.txt"), path("checkpoints/vocab.txt"));
  for (const char* model : {"checkpoints", "model"}) {
    const auto found =
        nlohmann::json::parse(stoa_ok({"score", model, "ids.txt", "--ids", "--dtype", "fp32"}).out);
    for (std::size_t i = 0; i < answers_["ids"].size(); ++i) {
      ASSERT_EQ(found["logprobs"][i].is_null(), answers_["logprobs"][i].is_null()) << i;
      if (found["logprobs"][i].is_null()) continue;
      EXPECT_NEAR(found["logprobs"][i].get<double>(), answers_["logprobs"][i].get<double>(), 1e-5) << i;
    }
    const auto follows = nlohmann::json::parse(
        stoa_ok({"score", model, "pair.txt", "--ids", "--follows", "--dtype", "fp32"}).out)["follows"];
    EXPECT_NEAR(follows["yes"].get<double>(), answers_["follows"][0].get<double>(), 1e-5);
    EXPECT_NEAR(follows["no"].get<double>(), answers_["follows"][1].get<double>(), 1e-5);
  }
}

// The loss has both parts: of hidden tokens and of the order of sentences.
TEST_P(MegatronsBert, GoesOnAsMegatronDoes) {
  const Outcome trained = stoa(train_ + Arguments{"--restore", "checkpoints", "--output", "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.text();
  EXPECT_NEAR(metrics("run").at(3)["loss"].get<double>(),
              answers_["loss"].get<double>() + answers_["sentence_loss"].get<double>(), 1e-5);
  stoa_ok(
      {"checkpoint", "import", trainings() / "bert/iter_0000003", "--with-optimizer", "--output", "after"});
  const auto compared = nlohmann::json::parse(
      stoa({"compare", "run/checkpoints/step-0000003", "after/step-0000003", "--tolerance", "1e-4", "--json"})
          .out);
  EXPECT_GT(compared["tensors"], 100);
  EXPECT_EQ(compared["different_tensors"].size(), 0u) << compared.dump(1);
  expect_exported("run/checkpoints/step-0000003", "step-0000003");
}

INSTANTIATE_TEST_SUITE_P(Of, MegatronsBert, ::testing::Values("bert", "bert_ranks"),
                         [](const auto& of) { return std::string(of.param); });

// DeepSpeed's, of a model of Hugging Face's.
class DeepSpeedTraining : public Workplace, public ::testing::WithParamInterface<const char*> {
 protected:
  static fs::path all() { return test::source_dir() / "tests/fixtures/deepspeed"; }
  fs::path fixture() const { return all() / GetParam(); }
};

TEST_P(DeepSpeedTraining, AnswersAndGoesOnAsDeepSpeedDoes) {
  const auto answers = nlohmann::json::parse(read_text(all() / "answers.json"));
  std::string ids;
  for (const auto& id : answers["ids"]) ids += fmt::format("{} ", id.get<int>());
  write_text(path("ids.txt"), ids + "\n");
  stoa_ok({"checkpoint", "import", fixture(), "--output", "model"});
  for (const std::string& model : {fixture().string(), std::string("model")}) {
    const auto found =
        nlohmann::json::parse(stoa_ok({"score", model, "ids.txt", "--ids", "--dtype", "fp32"}).out);
    for (std::size_t i = 1; i < answers["ids"].size(); ++i)
      EXPECT_NEAR(found["logprobs"][i].get<double>(), answers["logprobs"][i].get<double>(), 1e-4) << i;
  }
  EXPECT_FALSE(fs::exists(path("model/latest")));
  EXPECT_THAT(stoa_ok({"checkpoint", "inspect", fixture()}).out, HasSubstr("model.embed_tokens.weight"));
  for (const char* file : {"tokens.bin", "tokens.idx"}) fs::copy_file(all() / file, path(file));
  const Outcome trained = stoa({"train",
                                "model",
                                "--restore",
                                fixture(),
                                "--output",
                                "run",
                                "trainer.precision=fp32",
                                "model.data.data_prefix=tokens",
                                "model.data.splits_string='100,0,0'",
                                "model.encoder_seq_length=8",
                                "model.micro_batch_size=2",
                                "model.global_batch_size=2",
                                "trainer.max_steps=3",
                                "trainer.val_check_interval=0",
                                "model.optim.lr=0.01",

                                "model.optim.sched.name=Constant",
                                "model.optim.weight_decay=0.1",
                                "model.optim.betas=[0.9,0.95]",
                                "model.optim.eps=1e-4",
                                "trainer.gradient_clip_val=1.0"});
  ASSERT_EQ(trained.exit_code, 0) << trained.text();
  EXPECT_THAT(trained.text(), HasSubstr("step-0000002"));
  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "after"});
  fs::copy(all() / "expected/zero2_after", path("expected"));
  fs::copy_file(all() / "zero2/config.json", path("expected/config.json"));
  const auto compared =
      nlohmann::json::parse(stoa({"compare", "after", "expected", "--tolerance", "1e-4", "--json"}).out);
  EXPECT_EQ(compared["tensors"], 21);
  for (const auto& tensor : compared["different_tensors"])  // moments, which an export has not
    EXPECT_THAT(tensor["name"].get<std::string>(), HasSubstr("model/adam."));
}

INSTANTIATE_TEST_SUITE_P(Of, DeepSpeedTraining,
                         ::testing::Values("zero2", "zero3", "universal_zero2", "universal_zero3"),
                         [](const auto& of) { return std::string(of.param); });

INSTANTIATE_TEST_SUITE_P(OfMegatron, TrainingCheckpoint,
                         ::testing::Values("gpt", "gpt_ranks", "gpt_distributed", "gpt_buckets",
                                           "gpt_distrib_optim", "gpt_interleaved_ranks",
                                           "gpt_interleaved_distrib_optim", "gpt_universal", "moe",
                                           "moe_ranks", "moe_distrib_optim", "mla", "llama3"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace stoa::e2e
