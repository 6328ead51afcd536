// An answer does not depend on what else is being answered: the logits of every token have the same bits
// alone and in a batch, from a cached prefix, in chunks, after preemption, behind guesses, with one thread
// and with two.
#include <gtest/gtest.h>

#include <map>

#include "constraint/test_support.h"
#include "infer/cache_type.h"
#include "infer/engine/draft_model.h"
#include "infer/engine/engine.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/recorded_model.h"
#include "nn/stored_weight.h"

namespace stoa::infer {
namespace {

enum BitsKind {
  kBitsLlama,
  kBitsWindowed,
  kBitsAlibi,
  kBitsLatent,
  kBitsExperts,
  kBitsStored,
  kBitsStoredExperts,
  kBitsWide
};

model::ModelConfig bits_config(BitsKind kind) {
  model::ModelConfig c;
  c.num_layers = 2;
  c.hidden_size = 48;
  c.num_attention_heads = 6;
  c.ffn_hidden_size = 80;
  c.encoder_seq_length = 8;
  c.max_position_embeddings = 256;
  c.vocab_size = 61;
  if (kind == kBitsAlibi) {
    c.position_embedding_type = model::PositionEmbedding::kAlibi;
    return c;
  }
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.num_query_groups = 2;
  if (kind == kBitsStored || kind == kBitsStoredExperts) {
    c.hidden_size = 64;
    c.num_attention_heads = 4;
    c.ffn_hidden_size = 256;
  }
  if (kind == kBitsWide) {  // heads of 32: tiles of AMX
    c.hidden_size = 64;
    c.num_query_groups = c.num_attention_heads = 2;
  }
  if (kind == kBitsWindowed) {
    c.window_size = 21;
    c.window_attn_skip_freq = 2;
    c.attn_logit_softcapping = 2;
  }
  if (kind == kBitsLatent) {
    c.num_query_groups = 6;
    c.latent = {true, 6, 5, 4, 4, 3};
  }
  if (kind == kBitsExperts || kind == kBitsStoredExperts) {
    c.moe.num_moe_experts = 4;
    c.moe.moe_ffn_hidden_size = kind == kBitsExperts ? 24 : 96;
  }
  return c;
}

struct Way {
  const char* name;
  std::int64_t sequences = 32, pass_tokens = 512, blocks = 400;
  int threads = 1;
  bool alone = false, twice = false, preempts = false, speculated = false;
  std::optional<DType> cache = {};  // of keys and values
};

// Changes every third guess of another.
class SpoiledDrafter final : public Drafter {
 public:
  explicit SpoiledDrafter(std::unique_ptr<Drafter> drafter) : drafter_(std::move(drafter)) {}
  void propose(std::span<DraftWish> wishes) override {
    drafter_->propose(wishes);
    for (DraftWish& wish : wishes)
      for (std::int32_t& id : wish.guesses)
        if (++guesses_ % 3 == 0) id = (id + 1) % 61;
  }
  void forget(SequenceId sequence) override { drafter_->forget(sequence); }

 private:
  const std::unique_ptr<Drafter> drafter_;
  int guesses_ = 0;
};

// Matrices in the numbers of a file, of several formats; experts of a layer have one.
std::shared_ptr<const nn::StoredTypes> stored_types(const model::ModelSpec& spec) {
  auto out = std::make_shared<nn::StoredTypes>();
  using quant::BlockType;
  for (const auto& tensor : model::canonical_tensors(spec))
    if (tensor.shape.rank() == 2)
      out->emplace(tensor.name, tensor.name.find(".experts.") != tensor.name.npos ? BlockType::kQ4_0
                                : tensor.shape[1] % 256 == 0                      ? BlockType::kQ6_K
                                : out->size() % 3 == 0                            ? BlockType::kQ8_0
                                : out->size() % 3 == 1                            ? BlockType::kQ4_1
                                                                                  : BlockType::kQ5_0);
  return out;
}

quant::BlockType stored_type(const nn::ParamSpec& spec, std::size_t piece) {
  return spec.stored.parts[piece % static_cast<std::size_t>(spec.stored.count)].type;
}

void fill_stored(const nn::ParamSpec& spec, std::int64_t salt, TensorView memory) {
  std::vector<std::vector<std::byte>> blocks;
  for (std::size_t p = 0; p < spec.shard.pieces.size(); ++p) {
    const Shape shape = spec.shard.pieces[p].global;
    const quant::BlockFormat& format = quant::format_of(stored_type(spec, p));
    std::vector<float> numbers(static_cast<std::size_t>(shape.elements()));
    fill_by_formula(TensorView(numbers.data(), DType::kF32, shape), salt + static_cast<std::int64_t>(p));
    blocks.emplace_back(static_cast<std::size_t>(shape[0] * format.row_bytes(shape[1])));
    quant::encode_numbers(format, numbers.data(), shape.elements(), nullptr, blocks.back().data());
  }
  nn::pack_stored(
      spec,
      [&](std::size_t piece, std::int64_t row) {
        const auto& format = quant::format_of(stored_type(spec, piece));
        return blocks[piece].data() + row * format.row_bytes(spec.stored.columns);
      },
      [](std::int64_t tasks, const std::function<void(std::int64_t)>& body) {
        for (std::int64_t task = 0; task < tasks; ++task) body(task);
      },
      static_cast<std::byte*>(memory.data));
}

RequestLogits logits_of(BitsKind kind, DType type, const Way& way) {
  Machine machine = machine_with_rows_apart(way.threads);
  PagedModel::Options options{model::resolve_model(bits_config(kind)), {type, type}, {}};
  const bool stored = kind == kBitsStored || kind == kBitsStoredExperts;
  if (stored) options.model.stored = stored_types(options.model);
  options.cache = way.cache;
  options.limits = {.block_tokens = 16,
                    .blocks = way.blocks,
                    .context = 256,
                    .pass_tokens = way.pass_tokens,
                    .sequences = way.sequences,
                    .scored = 64,
                    .vocabulary = 61};
  const auto load = [&] {
    auto decoder = make_rank<PagedDecoder>(machine, options);
    auto& parameters = decoder->chunk().parameters();
    std::size_t packed = 0;
    for (std::size_t p = 0; p < parameters.specs().size(); ++p) {
      const nn::ParamSpec& spec = parameters.specs()[p];
      const TensorView memory = parameters.get({static_cast<int>(p)});
      packed += spec.is_stored();
      if (spec.is_stored())
        fill_stored(spec, static_cast<std::int64_t>(p), memory);
      else
        fill_by_formula(memory, static_cast<std::int64_t>(p));
    }
    EXPECT_EQ(packed, stored ? 9u : 0u);  // four of a layer and the embedding
    return decoder;
  };
  const auto decoder = load();
  RequestLogits out;
  RecordedModel recorded(*decoder);
  std::unique_ptr<Drafter> drafter;
  if (way.speculated) drafter = std::make_unique<SpoiledDrafter>(std::make_unique<DraftModel>(load()));
  Engine engine(recorded, std::move(drafter));
  const auto listener = [](const Event&) { return true; };
  const auto pairs = constraint::letters_that_match("([abc][de])*", 61);
  SequenceId before = 0;
  for (int turn = 0; turn < (way.twice ? 2 : 1); ++turn) {
    for (std::size_t i = 0; i < 32; ++i) {
      Request r;
      const std::size_t length = i % 5 == 0 ? 70 + i : 3 + i * 7 % 40;
      for (std::size_t t = 0; t < length; ++t)
        r.prompt.push_back(static_cast<std::int32_t>((t < 33 ? t * 5 : t * i) % 61));
      r.max_tokens = 40;
      r.sampling.seed = i;
      if (i % 3 == 1) r.constraint = pairs;
      if (!way.twice) r.prompt_logprobs = 0;
      engine.submit(r, listener);
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
  const EngineCounters counts = engine.counters();
  EXPECT_EQ(counts.accepted_tokens > 100, way.speculated) << way.name;
  EXPECT_EQ(counts.draft_tokens - counts.accepted_tokens > 100, way.speculated) << way.name;
  EXPECT_TRUE(!way.twice || engine.counters().prefix_hit_tokens > 0) << way.name;
  return out;
}

// Compares all ways with texts that are read alone; `cache`: the type of keys and values.
void expect_same_bits(BitsKind kind, DType type, std::optional<DType> cache) {
  const RequestLogits alone = logits_of(kind, type, {.name = "alone", .alone = true, .cache = cache});
  ASSERT_GT(alone.size(), 32u * 12u);
  for (Way way :
       {Way{.name = "batch"}, Way{.name = "two threads", .threads = 2},
        Way{.name = "chunks of 1", .pass_tokens = 1},
        Way{.name = "chunks of 64", .pass_tokens = 64, .threads = 2},
        Way{.name = "preempted", .blocks = 18, .preempts = true}, Way{.name = "cached prefix", .twice = true},
        Way{.name = "speculated", .sequences = 4, .speculated = true}}) {
    way.cache = cache;
    const RequestLogits other = logits_of(kind, type, way);
    expect_rows_of(alone, other,
                   fmt::format("{}, kind {} {}, keys and values in {}", way.name, static_cast<int>(kind),
                               name_of(type), cache_type_name(cache.value_or(type))));
  }
}

TEST(SameBits, LogitsDoNotDependOnWhatElseIsInThePass) {
  for (const BitsKind kind : {kBitsLlama, kBitsWindowed, kBitsAlibi, kBitsLatent, kBitsExperts, kBitsStored,
                              kBitsStoredExperts, kBitsWide})
    for (const DType type : {DType::kF32, DType::kBF16}) expect_same_bits(kind, type, {});
}

TEST(SameBits, WhateverTheTypeOfKeysAndValues) {
  for (const DType cache : {DType::kBF16, DType::kF16, DType::kU8}) {
    for (const BitsKind kind : {kBitsLlama, kBitsWindowed, kBitsLatent, kBitsStored, kBitsStoredExperts})
      expect_same_bits(kind, DType::kF32, cache);
    if (cache != DType::kBF16) expect_same_bits(kBitsWide, DType::kBF16, cache);
  }
}

// Adapters of every kind that the family has.
std::vector<model::PeftConfig> adapters_of(BitsKind kind) {
  std::vector<model::PeftConfig> out;
  const auto lora = [&](std::vector<std::string> targets, std::int64_t rank, bool magnitudes) {
    model::PeftConfig& c = out.emplace_back();
    c.peft_scheme = model::PeftScheme::kLora;
    c.lora.target_modules = std::move(targets);
    c.lora.adapter_dim = rank;
    c.lora.use_dora = magnitudes;
  };
  if (kind == kBitsExperts) {
    lora({"o_proj"}, 3, false);
    lora({"w1", "w2"}, 2, false);
    return out;
  }
  if (kind == kBitsLatent) {
    lora({"kv_b", "out"}, 3, false);
    return out;
  }
  lora({"q_proj", "v_proj"}, 4, false);
  lora({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}, 8, false);
  lora({"q_proj", "down_proj"}, 5, true);
  model::PeftConfig& factors = out.emplace_back();
  factors.peft_scheme = model::PeftScheme::kIa3;
  lora({"o_proj"}, 2, false);
  out.back().modules_to_save = {"lm_head"};
  for (const model::PeftScheme scheme : {model::PeftScheme::kPrompt, model::PeftScheme::kPrefix}) {
    model::PeftConfig& c = out.emplace_back();
    c.peft_scheme = scheme;
    c.virtual_tokens.virtual_tokens = scheme == model::PeftScheme::kPrompt ? 5 : 18;
  }
  return out;
}

std::int64_t salt_of(const std::string& name, std::size_t adapter) {
  return static_cast<std::int64_t>(std::hash<std::string>()(name) % 997 + adapter * 1000);
}

// `chosen`: by request, the adapter; none: only the requests of `only` are made, of a model that has this
// adapter alone.
RequestLogits logits_with_adapters(BitsKind kind, DType type, const std::vector<int>& chosen, int only = -1) {
  Machine machine = machine_with_rows_apart(2);
  const std::vector<model::PeftConfig> adapters = adapters_of(kind);
  const auto spec_of = [&](int adapter) {
    model::ModelConfig config = bits_config(kind);
    if (kind == kBitsLlama) config.share_embeddings_and_output_weights = false;
    if (adapter > 0) config.peft = adapters[static_cast<std::size_t>(adapter - 1)];
    return model::resolve_model(config);
  };
  const bool alone = only >= 0;
  PagedModel::Options options{spec_of(alone ? only : 0), {type, type}, {}};
  PassLimits& l = options.limits;
  l.blocks = 400;
  l.context = 256;
  l.pass_tokens = alone ? 512 : 100;
  l.sequences = 16;
  l.scored = 64;
  l.vocabulary = 61;
  l.virtual_tokens = options.model.config.peft.virtual_count();
  for (int a = 1; !alone && a <= std::ssize(adapters); ++a) {
    options.adapters.push_back(spec_of(a));
    l.adapters.push_back(options.adapters.back().config.peft.virtual_count());
  }
  const auto decoder = make_rank<PagedDecoder>(machine, options);
  const auto fill = [](optim::ParameterStore& store, int adapter) {
    for (std::size_t p = 0; p < store.specs().size(); ++p) {
      const nn::ParamSpec& spec = store.specs()[p];
      const bool own = spec.trained && adapter > 0;
      fill_by_formula(store.get({static_cast<int>(p)}),
                      salt_of(spec.name, own ? static_cast<std::size_t>(adapter) : 0));
    }
  };
  fill(decoder->chunk().parameters(), alone ? only : 0);
  for (int a = 1; a <= std::ssize(options.adapters); ++a) fill(decoder->adapters().own(a), a);
  RecordedModel recorded(*decoder);
  Engine engine(recorded);
  RequestLogits out;
  std::map<SequenceId, std::size_t> request_of;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (alone && chosen[i] != only) continue;
    Request r;
    r.adapter = alone ? 0 : chosen[i];
    for (std::size_t t = 0; t < 20 + i * 7 % 40; ++t)
      r.prompt.push_back(static_cast<std::int32_t>((t < 17 ? t * 5 : t * i) % 61));
    r.max_tokens = 12;
    r.sampling.seed = i;
    request_of[static_cast<SequenceId>(request_of.size()) + 1] = i;
    engine.submit(r, [](const Event&) { return true; });
    if (alone)
      while (engine.step()) continue;
  }
  while (engine.step()) continue;
  for (auto& [key, row] : recorded.rows) out[{request_of.at(key.first), key.second}] = row;
  return out;
}

TEST(SameBits, AdaptersServedTogetherAnswerAsAlone) {
  for (const BitsKind kind : {kBitsLlama, kBitsLatent, kBitsExperts})
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const int count = static_cast<int>(adapters_of(kind).size());
      std::vector<int> chosen;
      for (int i = 0; i < 4 * (count + 1); ++i) chosen.push_back(i * 5 % (count + 1));
      const RequestLogits together = logits_with_adapters(kind, type, chosen);
      const RequestLogits of_base = logits_with_adapters(kind, type, std::vector<int>(chosen.size(), 0), 0);
      for (int adapter = 0; adapter <= count; ++adapter) {
        const RequestLogits alone = logits_with_adapters(kind, type, chosen, adapter);
        ASSERT_GE(alone.size(), 4u * 12u);
        std::size_t different = 0;
        for (const auto& [key, row] : alone) {
          const auto it = together.find(key);
          ASSERT_NE(it, together.end()) << adapter;
          different += it->second != row;
        }
        EXPECT_EQ(different, 0u) << "kind " << kind << " " << name_of(type) << ", adapter " << adapter
                                 << " of " << alone.size();
        const auto& [place, row] = *alone.begin();
        const std::int64_t before =
            adapter == 0 ? 0 : adapters_of(kind)[static_cast<std::size_t>(adapter - 1)].virtual_count();
        EXPECT_EQ(row == of_base.at({place.first, place.second - before}), adapter == 0) << adapter;
      }
    }
}

}  // namespace
}  // namespace stoa::infer
