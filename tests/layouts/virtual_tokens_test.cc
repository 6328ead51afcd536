// Virtual tokens (prompt tuning, p-tuning, prefix tuning) over the ranks of layouts: they start from the same
// values and end at those of one rank, packed or padded, and the model below them keeps every bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapted_runs.h"
#include "data/labelled_dataset.h"
#include "data/numpy_random.h"
#include "data/pair_row.h"
#include "data/virtual_sources.h"
#include "family_runs.h"
#include "made_texts.h"
#include "tune/chat_dataset.h"

namespace stoa::layouts {
namespace {

using model::PeftScheme;
using model::PromptEncoder;
using ::testing::IsEmpty;
using tune::ChatDataset;

constexpr std::int32_t kVirtual = 3, kVocabulary = 61;

// Sources of two to nine tokens, which fill their part of a row or not.
class MadePairs final : public data::Dataset {
 public:
  explicit MadePairs(std::int64_t target) : target_(target) {
    data::NumpyRandom random(7);
    for (const std::int64_t length : {9, 4, 7, 2, 9, 3, 8, 5})
      pairs_.push_back({text_of(random, length).tokens, text_of(random, 2 + length / 2).tokens});
  }
  std::int64_t size() const override { return std::ssize(pairs_); }
  std::int64_t sequence_length() const override { return kSource + target_; }
  void read(std::int64_t k, data::BatchRow row) const override {
    const auto& [source, target] = pairs_[static_cast<std::size_t>(k)];
    data::write_pair(source, target, kSource, 0, row);
  }
  std::vector<data::Piece> pieces(std::int64_t) const override { return {}; }

  static constexpr std::int64_t kSource = 9;

 private:
  std::int64_t target_;
  std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>> pairs_;
};

// Encoder-decoders have them in front of every source.
TestRun on_pairs(TestRun run) {
  const auto data = std::make_shared<const data::VirtualSources>(
      std::make_shared<MadePairs>(run.config.t5.seq_length_dec), MadePairs::kSource,
      data::VirtualSources::Tokens{kVirtual, kVocabulary});
  run.rows = data->size();
  run.batches = [data](std::int64_t) {
    data::Batch batch;
    data::fill_batch(*data, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, batch);
    return batch;
  };
  return run;
}

// A classification has them in front of every text, the first of which has the label of an encoder's.
TestRun on_labelled(TestRun run) {
  std::vector<data::LabelledRow> rows;
  data::NumpyRandom random(7);
  for (const std::int64_t length : {9, 4, 7, 2, 9, 3, 8, 5}) {
    data::LabelledRow& row = rows.emplace_back();
    for (std::int32_t i = 0; i < kVirtual; ++i) row.tokens.push_back(kVocabulary + i);
    for (const token::TokenId id : text_of(random, length).tokens) row.tokens.push_back(id);
    row.token_types.assign(row.tokens.size(), 0);
    row.labels = {{0, static_cast<std::int32_t>(length % 3)}};
    if (run.config.task.type == model::Task::kTokenClassification)
      row.labels = {{kVirtual, 1}, {kVirtual + 1, 2}};
  }
  data::LabelledDataset::Options options;
  options.sequence_length = kLength;
  options.shuffled = false;
  const auto data = std::make_shared<const data::LabelledDataset>(std::move(rows), std::nullopt, options);
  run.rows = data->size();
  run.batches = [data](std::int64_t) {
    data::Batch batch;
    data::fill_batch(*data, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}, batch);
    return batch;
  };
  return run;
}

// Two texts fill a row with their virtual tokens.
TestRun on_texts(TestRun run, bool packed = true) {
  if (run.config.task.labelled()) return on_labelled(std::move(run));
  if (run.config.kind == model::ModelKind::kT5) return on_pairs(std::move(run));
  auto files = std::make_shared<tune::EncodedFiles>();
  data::NumpyRandom random(7);
  for (int i = 0; i < 8; ++i)
    for (const std::int64_t length : {4, 2}) files->samples.push_back({text_of(random, length), {}, {}, 0});
  files->records = {{"test", 1}};
  const auto data = std::make_shared<const ChatDataset>(std::move(files), std::nullopt,
                                                        ChatDataset::Options{.sequence_length = kLength,
                                                                             .packed = packed,
                                                                             .pad = 0,
                                                                             .shuffled = false,
                                                                             .virtual_tokens = kVirtual,
                                                                             .first_virtual = kVocabulary});
  run.packed = true;
  run.rows = data->rows_per_epoch();
  run.batches = [data](std::int64_t) {
    std::vector<std::int64_t> samples;
    for (std::int64_t k = 0; k < data->rows_per_epoch(); ++k) samples.push_back(k);
    data::Batch batch;
    data::fill_batch(*data, samples, batch);
    return batch;
  };
  return run;
}

TestRun virtual_run(TestRun run, PeftScheme scheme, PromptEncoder encoder = PromptEncoder::kMlp) {
  run.steps = 4;
  run.rate = 0.05;
  model::PeftConfig& peft = run.config.peft;
  peft.peft_scheme = scheme;
  peft.virtual_tokens.virtual_tokens = kVirtual;
  peft.virtual_tokens.encoder_type = encoder;
  peft.virtual_tokens.bottleneck_dim = 5;
  peft.virtual_tokens.embedding_dim = 7;
  peft.virtual_tokens.init_std = 0.5;
  return run;
}

struct VirtualCase {
  const char* name;
  TestRun run;
};
std::vector<VirtualCase> virtual_cases() {
  TestRun scaled = llama_like();  // words are scaled, virtual tokens are not; keys have a norm
  scaled.config.apply_embedding_scaling = true;
  scaled.config.qk_layernorm = true;
  TestRun biased = tiny_run();  // scores are biased by distance, embeddings normed
  biased.config.position_embedding_type = model::PositionEmbedding::kAlibi;
  biased.config.embedding_layernorm = true;
  return {
      {"prompt", virtual_run(tiny_run(), PeftScheme::kPrompt)},
      {"prompt before scaled words", virtual_run(scaled, PeftScheme::kPrompt)},
      {"prompt of normed embeddings", virtual_run(biased, PeftScheme::kPrompt)},
      {"prefix of biased scores", virtual_run(biased, PeftScheme::kPrefix)},
      {"p-tuning by an MLP", virtual_run(tiny_run(), PeftScheme::kPTuning)},
      {"p-tuning by LSTMs", virtual_run(llama_like(), PeftScheme::kPTuning, PromptEncoder::kLstm)},
      {"p-tuning as in NeMo", virtual_run(llama_like(), PeftScheme::kPTuning, PromptEncoder::kTensorMlp)},
      {"prefix", virtual_run(tiny_run(), PeftScheme::kPrefix)},
      {"prefix of rotated keys", virtual_run(llama_like(), PeftScheme::kPrefix)},
      {"prefix of normed keys", virtual_run(scaled, PeftScheme::kPrefix)},
      {"prompt of an encoder", virtual_run(family_run("T5"), PeftScheme::kPrompt)},
      {"p-tuning before learned positions",
       virtual_run(family_run("T5 of learned positions"), PeftScheme::kPTuning)},
      {"p-tuning by LSTMs of an encoder",
       virtual_run(family_run("umT5"), PeftScheme::kPTuning, PromptEncoder::kLstm)},
      {"prompt of a classification", virtual_run(family_run("classes of texts"), PeftScheme::kPrompt)},
      {"p-tuning before tagged words", virtual_run(family_run("classes of tokens"), PeftScheme::kPTuning)}};
}

bool is_virtual(const std::string& name) {
  return name.find("prompt") != std::string::npos || name.find(".prefix.") != std::string::npos ||
         name.starts_with("head.classes.") || name.starts_with("head.tags.");  // of classifications
}

TEST(VirtualTokens, PackedIsPaddedAndTheModelIsUntouched) {
  for (VirtualCase& c : virtual_cases()) {
    SCOPED_TRACE(c.name);
    c.run.config.hidden_dropout = c.run.config.attention_dropout = c.run.config.embedding_dropout = 0;
    const RunResult one = run_layout(on_texts(c.run), data_parallel(1));
    EXPECT_THAT(one.faults, IsEmpty());
    EXPECT_LT(one.losses.back(), one.losses.front());
    EXPECT_THAT(differences(one, run_layout(on_texts(c.run, false), data_parallel(1)), kRounding), IsEmpty());
    expect_only_trained(weights_at_start(on_texts(c.run)), one, is_virtual);
  }
}

TEST(VirtualTokens, PipelinesAndShardsLikeOneRank) {
  for (const VirtualCase& c : virtual_cases()) {
    SCOPED_TRACE(c.name);
    const TestRun run = on_texts(c.run);
    const RunResult one = run_layout(run, data_parallel(1)), two = run_layout(run, data_parallel(2));
    EXPECT_THAT(differences(one, two, kRounding), IsEmpty());
    for (const run::Layout& layout :
         {pipeline(4), pipeline(2, "interleaved", 2), pipeline(2, "zb-h1"), pipeline(2, "zb-v", 2)}) {
      SCOPED_TRACE(layout.schedule);
      EXPECT_THAT(differences(one, run_layout(run, layout), 0), IsEmpty());
    }
    for (int stage = 1; stage <= 3; ++stage) {
      SCOPED_TRACE(::testing::Message() << "ZeRO " << stage);
      run::Layout layout = layout_of(1, 1, 1, 2, stage);
      if (stage == 3) layout = layout_of(1, 1, 1, 2, 1);
      layout.zero_stage = stage;
      layout.bucket_bytes = 400;
      layout.overlap_grad_reduce = stage > 1;
      EXPECT_THAT(differences(two, run_layout(run, layout), 0), IsEmpty());
    }
  }
}

// 4 tensor ranks share the two heads of keys.
TEST(VirtualTokens, RanksThatSplitTensors) {
  for (const VirtualCase& c : virtual_cases()) {
    SCOPED_TRACE(c.name);
    const TestRun run = on_texts(c.run);
    const RunResult one = run_layout(run, data_parallel(1));
    for (const int ranks : {2, 4})
      for (const bool sequence : {false, true}) {
        run::Layout layout = layout_of(ranks, 1, 1, ranks == 2 ? 2 : 1, sequence && ranks == 2 ? 2 : 1);
        layout.sequence_parallel = sequence;
        layout.zero_stage = sequence ? 1 : 3;
        SCOPED_TRACE(::testing::Message() << ranks << " ranks, sequence parallel " << sequence);
        const RunResult split = run_layout(run, layout);
        EXPECT_THAT(split.faults, IsEmpty());
        EXPECT_THAT(differences(one, split, kRounding), IsEmpty());
      }
    if (run.config.kind != model::ModelKind::kGpt) continue;  // such rows are not split over a context
    EXPECT_THAT(differences(one, run_layout(run, layout_of(2, 2, 1, 1, 1)), kRounding), IsEmpty());
  }
}

TEST(VirtualTokens, RecomputedAndOffloadedLayers) {
  for (const VirtualCase& c : virtual_cases()) {
    SCOPED_TRACE(c.name);
    const TestRun run = on_texts(c.run);
    const RunResult one = run_layout(run, data_parallel(1));
    for (const auto granularity :
         {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
      TestRun again = run;
      again.config.recompute.granularity = granularity;
      if (granularity == model::RecomputeGranularity::kFull) {
        again.config.recompute.method = model::RecomputeMethod::kUniform;
        again.config.recompute.num_layers = 3;
      }
      EXPECT_THAT(differences(one, run_layout(again, pipeline(2, "zb-h1")), 0), IsEmpty());
    }
    TestRun offloaded = run;
    offloaded.config.recompute.offload.cpu_offloading = true;
    EXPECT_THAT(differences(one, run_layout(offloaded, data_parallel(1)), 0), IsEmpty());
  }
}

// Experts, windows, attention sinks, embeddings with a norm; latent and linear attention keep no prefix.
TEST(VirtualTokens, Families) {
  for (const char* family :
       {"DeepSeek-V3", "gpt-oss", "Qwen3-Next", "norms after rotation, layers without it"}) {
    for (const PeftScheme scheme : {PeftScheme::kPrompt, PeftScheme::kPrefix}) {
      SCOPED_TRACE(family);
      const TestRun run = on_texts(virtual_run(family_run(family), scheme));
      const bool keeps_keys = family == std::string("gpt-oss") ||
                              family == std::string("norms after rotation, layers without it");
      if (scheme == PeftScheme::kPrefix && !keeps_keys) {
        EXPECT_THROW(run_layout(run, data_parallel(1)), ConfigError);
        continue;
      }
      const RunResult one = run_layout(run, data_parallel(1));
      EXPECT_THAT(one.faults, IsEmpty());
      EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
      run::Layout tensor = layout_of(2, 1, 1, 1, 1);
      tensor.sequence_parallel = true;
      EXPECT_THAT(differences(one, run_layout(run, tensor), kRounding), IsEmpty());
    }
  }
}

// Of every trained tensor, the whole way to the loss, against finite differences in fp64.
TEST(VirtualTokens, GradientsAreThoseOfTheLoss) {
  constexpr double kStep = 1e-5;
  for (const VirtualCase& c : virtual_cases()) {
    SCOPED_TRACE(c.name);
    TestRun base = on_texts(c.run);
    base.steps = 1;
    base.max_norm = 0;
    const RunResult there = run_layout(base, data_parallel(1));
    for (const auto& [name, gradient] : there.gradients) {
      SCOPED_TRACE(name);
      const auto largest = std::max_element(gradient.begin(), gradient.end(),
                                            [](double a, double b) { return std::abs(a) < std::abs(b); }) -
                           gradient.begin();
      const auto loss_at = [&](double by) {
        TestRun run = base;
        run.before = [&](int, run::TrainingRank& rank) {
          for (std::size_t p = 0; p < rank.params().specs().size(); ++p)
            for (const ShardPiece& piece : rank.params().specs()[p].shard.pieces) {
              if (piece.name != name) continue;
              const nn::ParamId id{static_cast<int>(p)};
              const std::int64_t begin = piece.memory_row * rank.params().specs()[p].shard.local.inner();
              rank.parameters().master(id).as<double>()[begin + largest] += by;
              rank.optimizer().refresh_values(rank.ops());
            }
        };
        return run_layout(run, data_parallel(1)).losses.front();
      };
      const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(gradient[static_cast<std::size_t>(largest)], slope, 1e-6 * std::max(1e-2, std::abs(slope)));
    }
  }
}

}  // namespace
}  // namespace stoa::layouts
