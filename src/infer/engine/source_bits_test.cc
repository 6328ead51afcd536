// Encoder-decoders: the logits of every token of a target have the same bits alone and in a batch, whatever
// the passes hold, from a source that was read for another, after preemption, with one thread and with two.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "constraint/test_support.h"
#include "infer/cache_type.h"
#include "infer/engine/engine.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/recorded_model.h"
#include "infer/engine/text_losses.h"

namespace stoa::infer {
namespace {

enum SourceKind { kSourceRelative, kSourceLearned, kSourceWide };

model::ModelConfig source_config(SourceKind kind) {
  model::ModelConfig c;
  c.kind = model::ModelKind::kT5;
  c.num_layers = 4;
  c.t5.encoder_layers = 2;
  c.hidden_size = 48;
  c.num_attention_heads = 6;
  c.ffn_hidden_size = 80;
  c.encoder_seq_length = 120;
  c.t5.seq_length_dec = 120;
  c.vocab_size = 61;
  if (kind == kSourceLearned) {  // NeMo's variant
    c.max_position_embeddings = 120;
    c.t5.scale_attention = true;
    return c;
  }
  c.position_embedding_type = model::PositionEmbedding::kRelative;
  c.t5.relative_attention_num_buckets = 8;
  c.t5.relative_attention_max_distance = 20;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kGegluTanh;
  c.bias = model::BiasKind::kNone;
  c.share_embeddings_and_output_weights = false;
  if (kind == kSourceWide) {  // heads of 32: tiles of AMX
    c.hidden_size = 64;
    c.num_attention_heads = 2;
  }
  return c;
}

struct SourceWay {
  const char* name;
  std::int64_t sequences = 32, pass_tokens = 512, blocks = 500;
  int threads = 1;
  bool alone = false, twice = false, preempts = false;
  std::optional<DType> cache = {};
};

std::unique_ptr<PagedDecoder> make_pairs_model(Machine& machine, SourceKind kind, DType type,
                                               const SourceWay& way, bool losses = false) {
  PagedModel::Options options{model::resolve_model(source_config(kind)), {type, type}, {}};
  options.cache = way.cache;
  options.losses = losses;
  options.limits = {.block_tokens = 16,
                    .blocks = way.blocks,
                    .context = 64,
                    .pass_tokens = way.pass_tokens,
                    .sequences = way.sequences,
                    .scored = 64,
                    .vocabulary = 61,
                    .source_tokens = 120,
                    .start = 2};
  auto out = make_rank<PagedDecoder>(machine, options);
  auto& parameters = out->chunk().parameters();
  for (std::size_t p = 0; p < parameters.specs().size(); ++p)
    fill_by_formula(parameters.get({static_cast<int>(p)}), static_cast<std::int64_t>(p));
  return out;
}

Request source_request(std::size_t i) {
  Request r;
  const std::size_t length = i % 5 == 0 ? 70 + i : 1 + i * 7 % 40;
  for (std::size_t t = 0; t < length; ++t)
    r.prompt.push_back(static_cast<std::int32_t>((t < 33 ? t * 5 : t * i) % 61));
  r.max_tokens = 20 + static_cast<std::int64_t>(i % 23);
  r.sampling.seed = i;
  return r;
}

RequestLogits target_logits(SourceKind kind, DType type, const SourceWay& way) {
  Machine machine = machine_with_rows_apart(way.threads);
  const auto decoder = make_pairs_model(machine, kind, type, way);
  RecordedModel recorded(*decoder);
  Engine engine(recorded);
  const auto pairs = constraint::letters_that_match("([abc][de])*", 61);
  RequestLogits out;
  SequenceId before = 0;
  for (int turn = 0; turn < (way.twice ? 2 : 1); ++turn) {
    for (std::size_t i = 0; i < 32; ++i) {
      Request r = source_request(i);
      if (i % 3 == 1) r.constraint = pairs;
      engine.submit(r, [](const Event&) { return true; });
      if (way.alone)
        while (engine.step()) continue;
    }
    while (engine.step()) continue;
    for (auto& [key, row] : recorded.rows)
      out[{static_cast<std::size_t>(key.first - before - 1), key.second}] = row;
    recorded.rows.clear();
    before += 32;
  }
  EXPECT_EQ(engine.counters().preemptions > 0, way.preempts) << way.name;
  EXPECT_EQ(engine.counters().prefix_hit_tokens > 0, way.twice) << way.name;
  EXPECT_EQ(engine.counters().blocks_used, 0);
  return out;
}

void expect_same_target_bits(SourceKind kind, DType type, std::optional<DType> cache) {
  const RequestLogits alone = target_logits(kind, type, {.name = "alone", .alone = true, .cache = cache});
  ASSERT_GT(alone.size(), 32u * 12u);
  for (SourceWay way :
       {SourceWay{.name = "batch"}, SourceWay{.name = "two threads", .threads = 2},
        SourceWay{.name = "passes of 1", .pass_tokens = 1},
        SourceWay{.name = "more sequences than tokens", .sequences = 40, .pass_tokens = 9},
        SourceWay{.name = "passes of 50", .pass_tokens = 50, .threads = 2},
        SourceWay{.name = "preempted", .blocks = 24, .preempts = true},
        SourceWay{.name = "preempted, passes of 7", .pass_tokens = 7, .blocks = 16, .preempts = true},
        SourceWay{.name = "sources read before", .twice = true}}) {
    way.cache = cache;
    const RequestLogits other = target_logits(kind, type, way);
    EXPECT_EQ(other.size(), alone.size()) << way.name;
    expect_rows_of(alone, other,
                   fmt::format("{}, kind {} {}, keys and values in {}", way.name, static_cast<int>(kind),
                               name_of(type), cache_type_name(cache.value_or(type))));
  }
}

TEST(SourceBits, LogitsDoNotDependOnWhatElseIsInThePass) {
  for (const SourceKind kind : {kSourceRelative, kSourceLearned, kSourceWide})
    for (const DType type : {DType::kF32, DType::kBF16}) expect_same_target_bits(kind, type, {});
}

TEST(SourceBits, WhateverTheTypeOfKeysAndValues) {
  for (const DType cache : {DType::kBF16, DType::kF16, DType::kU8})
    expect_same_target_bits(kSourceRelative, DType::kF32, cache);
}

// The losses of a target are those of the probabilities with which it is drawn.
TEST(SourceBits, LossesAreThoseOfTheLogits) {
  for (const SourceKind kind : {kSourceRelative, kSourceLearned}) {
    Machine machine = machine_with_rows_apart(2);
    const auto decoder = make_pairs_model(machine, kind, DType::kF32, {.name = ""}, true);
    std::vector<TokenPair> pairs;
    std::vector<std::vector<float>> expected;
    for (std::size_t i = 0; i < 12; ++i) {
      Engine engine(*decoder);
      Request r = source_request(i);
      r.logprobs = 0;
      TokenPair& pair = pairs.emplace_back(TokenPair{r.prompt, {}});
      auto& losses = expected.emplace_back();
      engine.submit(r, [&](const Event& event) {
        if (event.kind != Event::Kind::kToken) return true;
        pair.target.push_back(event.token.token.id);
        losses.push_back(-event.token.token.logprob);
        return true;
      });
      while (engine.step()) continue;
    }
    const auto found = pair_losses(*decoder, pairs);
    ASSERT_EQ(found.size(), pairs.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected[i].size());
      for (std::size_t t = 0; t < found[i].size(); ++t) EXPECT_NEAR(found[i][t], expected[i][t], 1e-4) << i;
    }
  }
}

// The dry run has seen the memory of whatever passes the scheduler makes: many short sources, a long one next
// to answers under way, and what is between.
TEST(SourceBits, PassesOfEveryShapeFit) {
  for (const std::int64_t pass_tokens : {12, 40, 100, 512}) {
    Machine machine = machine_with_rows_apart(2);
    const auto decoder = make_pairs_model(machine, kSourceRelative, DType::kF32,
                                          {.name = "", .pass_tokens = pass_tokens}, true);
    const auto submit = [&](Engine& engine, std::size_t length, std::size_t i) {
      Request r;
      for (std::size_t t = 0; t < length; ++t)
        r.prompt.push_back(static_cast<std::int32_t>((t < 2 ? i / (1 + t * 61) : t) % 61));
      r.max_tokens = 2 + static_cast<std::int64_t>(i % 2);
      engine.submit(r, [](const Event&) { return true; });
    };
    for (const std::size_t length : {1u, 2u, 5u, 9u, 15u, 17u, 24u, 40u, 70u, 120u}) {
      Engine engine(*decoder);
      for (std::size_t i = 0; i < 40; ++i) submit(engine, length, i);
      while (engine.step()) continue;
    }
    for (const std::size_t others : {1u, 7u, 16u, 31u}) {
      Engine engine(*decoder);
      for (std::size_t i = 0; i < others; ++i) submit(engine, 3, i);
      engine.step();
      submit(engine, 120, others);
      while (engine.step()) continue;
    }
  }
}

TEST(SourceBits, ChoicesDrawAsIfAlone) {
  Machine machine = machine_with_rows_apart(2);
  const auto answers = [&](const SourceWay& way, int choices) {
    const auto decoder = make_pairs_model(machine, kSourceRelative, DType::kF32, way);
    Engine engine(*decoder);
    std::map<std::pair<RequestId, int>, std::vector<std::int32_t>> out;
    for (std::size_t i = 0; i < 8; ++i) {
      Request r = source_request(i);
      r.choices = choices;
      engine.submit(r, [&](const Event& event) {
        if (event.kind == Event::Kind::kToken)
          out[{event.request, event.choice}].push_back(event.token.token.id);
        return true;
      });
    }
    while (engine.step()) continue;
    return out;
  };
  const auto one = answers({.name = ""}, 1), five = answers({.name = ""}, 5),
             small = answers({.name = "", .sequences = 3, .blocks = 14}, 5);
  EXPECT_EQ(five, small);
  for (const auto& [key, ids] : one) EXPECT_EQ(five.at(key), ids);
  EXPECT_NE(five.at({1, 0}), five.at({1, 1}));
}

}  // namespace
}  // namespace stoa::infer
