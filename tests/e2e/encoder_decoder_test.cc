// Encoder-decoders through the commands: from text with sentinels to a model, on one rank and several.
#include <fstream>

#include "workplace.h"

namespace stoa::e2e {
namespace {

class EncoderDecoder : public Workplace {
 protected:
  void prepare(const char* sentinels = "20") const {
    stoa_ok({"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "120", "--sentinels",
             sentinels, "--output", "pieces"});
    stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "pieces", "--output", "pairs"});
  }
  static Arguments pairs(const std::string& run, const Arguments& more = {}) {
    return train(run,
                 Arguments{"model.data=pairs", "model.tokenizer=pieces", "model.kind=t5", "model.bias=none",
                           "model.position_embedding_type=relative", "model.normalization=rmsnorm",
                           "model.activation=geglu_tanh", "model.share_embeddings_and_output_weights=false",
                           "model.t5.seq_length_dec=16", "trainer.max_steps=4"} +
                     more);
  }
};

TEST_F(EncoderDecoder, LearnsTheSameOnOneRankAndSeveral) {
  prepare();
  stoa_ok(pairs("one", {"trainer.max_steps=12", "model.optim.lr=0.01"}));
  const auto curve = metrics("one");
  ASSERT_GE(curve.size(), 2u);
  EXPECT_LT(curve.rbegin()->second["loss"].get<double>(), curve.begin()->second["loss"].get<double>());
  stoa_ok(pairs("whole"));
  const auto config =
      nlohmann::json::parse(std::ifstream(path("whole/checkpoints/latest/model/config.json")));
  EXPECT_EQ(config["model_type"], "t5");
  EXPECT_EQ(config["num_decoder_layers"], 1);
  stoa_ok(pairs("tensor",
                {"--ranks", "2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"}));
  stoa_ok(pairs("data", {"--ranks", "2", "model.zero_stage=2"}));
  stoa_ok(pairs("pipeline", {"--ranks", "2", "model.pipeline_model_parallel_size=2"}));
  const auto whole = metrics("whole");
  for (const char* other : {"tensor", "data", "pipeline"}) {
    const auto losses = metrics(other);
    ASSERT_EQ(losses.size(), whole.size()) << other;
    for (const auto& [step, line] : losses) {
      const double loss = whole.at(step)["loss"].get<double>();
      EXPECT_NEAR(line["loss"].get<double>(), loss, 1e-4 * loss) << other << ", step " << step;
    }
  }
  stoa_ok({"plan", "memory"} + micro_model() +
          Arguments{"model.kind=t5", "model.position_embedding_type=relative", "model.vocab_size=140"});
}

TEST_F(EncoderDecoder, SaysWhatItCannotDo) {
  prepare("2");
  const auto refused = [&](const Arguments& more, const char* text) {
    const Outcome outcome = stoa(pairs("no", more));
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.text();
  };
  refused({"model.encoder_seq_length=64"}, "sentinels");
  refused({"model.t5.seq_length_dec=4"}, "t5.seq_length_dec of at least");
  refused({"--ranks", "2", "model.context_parallel_size=2"}, "pairs of source and target are not cut");
  refused({"model.kind=gpt"}, "is of kind t5");
  refused({"model.tokenizer=tok", "model.data=data"}, "sentinels");
  stoa_ok(pairs("run"));
  const Outcome generated = stoa({"generate", "run", "--prompt", "x"});
  EXPECT_NE(generated.exit_code, 0);
  EXPECT_NE(generated.err.find("encoder-decoder"), std::string::npos) << generated.text();
}

}  // namespace
}  // namespace stoa::e2e
