// Bottlenecks with weights by formula on BERT and T5 with weights by formula, against logits that AdapterHub's
// library gave (tests/oracle/bottleneck_vectors.py: adapters 1.3.0). Decoders: adapter_vectors_test.cc.
#include "model/huggingface/bottleneck_files.h"

#include <gtest/gtest.h>

#include "model/huggingface/config_json.h"
#include "model/huggingface/formula_weights.h"

namespace stoa::model::huggingface {
namespace {

namespace fixture = model::testing;

struct BottleneckVector {
  const char *base, *type;
  double logits[4], sum;
};
constexpr BottleneckVector kBottleneckVectors[] = {
    {"bert", "seq_bn", {-.6236492, .1198219, .9518336, -1.005186}, -141.617},
    {"bert", "double_seq_bn", {-.9760952, -1.179879, -.5869072, -1.548154}, -78.73107},
    {"bert", "par_bn", {1.003004, -2.940266, .8446844, -2.652023}, -70.60673},
    {"t5", "seq_bn", {.01953906, -.04668628, .1949132, -.03707978}, .2524746},
    {"t5", "double_seq_bn", {.1453563, .4144888, .1928268, -.3534328}, -4.74247},
    {"t5", "par_bn", {-.1466277, -.3809613, -.0399386, .4949802}, -4.872995}};

std::string base_config(std::string_view type) {
  if (type == "bert")
    return R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 32, "hidden_size": 16,
              "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
              "max_position_embeddings": 40, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0})";
  return R"({"model_type": "t5", "vocab_size": 32, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2,
            "num_heads": 4, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16,
            "decoder_start_token_id": 0, "dropout_rate": 0})";
}

void load_bottlenecks(fixture::Model& model, const ModelSpec& spec) {
  std::vector<AdapterTensor> all = bottleneck_tensors(spec);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
  for (std::size_t t = 0; t < all.size(); ++t) {
    const TensorView view = model.canonical_view(all[t].tensor.parts.front().name);
    for (std::int64_t i = 0; i < view.elements(); ++i)
      fixture::Model::set(view, i,
                          testing::formula(static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(i)));
  }
}

void check_bottlenecks(const BottleneckVector& vector, nn::Precision precision, double tolerance,
                       const std::function<fixture::Machine()>& machine) {
  SCOPED_TRACE(::testing::Message() << vector.base << " " << vector.type);
  const ModelDescription description = read_config(base_config(vector.base));
  ModelConfig config = description.config;
  const bool bert = config.kind == ModelKind::kBert;
  if (!bert) {
    config.encoder_seq_length = 12;
    config.t5.seq_length_dec = 7;
  }
  config.peft.peft_scheme = PeftScheme::kAdapter;
  config.peft.base_model_type = description.family->type;
  for (const auto& [name, value] : enum_names(BottleneckType::kParallel))
    if (name == std::string_view(vector.type)) config.peft.bottleneck.type = value;
  config.peft.bottleneck.adapter_dim = 4;
  const ModelSpec spec = resolve_model(config);
  ChunkOptions o;
  o.layers = spec.config.num_layers;
  o.precision = precision;
  o.tokens = bert ? 24 : spec.config.sample_length();
  fixture::Model model(spec, o, machine());
  model.initialize_all(1);
  testing::load_formula(model, base_of(spec), *description.family);
  load_bottlenecks(model, spec);
  fixture::Batch batch = fixture::Batch::pairs(1, {3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7},
                                               {0, 4, 21, 6, 13, 28, 10}, {4, 21, 6, 13, 28, 10, 19});
  if (bert) {
    batch = fixture::Batch::masked({12, 12}, 12, 32, 1);
    for (const std::size_t row : {0, 12}) {
      const std::vector<std::int32_t> ids{3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7};
      for (std::size_t i = 0; i < 12; ++i) batch.tokens[row + i] = ids[i], batch.types[row + i] = i < 6 ? 0 : 1;
    }
  }
  const auto logits = model.logits(batch);
  const std::size_t rows = bert ? 12 : 7;
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(logits[(rows - 1) * 32 + i], vector.logits[i], tolerance);
  double sum = 0;
  for (std::size_t i = 0; i < rows * 32; ++i) sum += logits[i];
  EXPECT_NEAR(sum, vector.sum, 20 * tolerance);
}

TEST(BottleneckFiles, EncodersAndEncoderDecodersAreThoseOfAdapterHub) {
  for (const BottleneckVector& vector : kBottleneckVectors) {
    check_bottlenecks(vector, fixture::fp64(), 1e-5, fixture::reference);
    check_bottlenecks(vector, {DType::kF32, DType::kF32}, 1e-4, [] { return fixture::cpu(); });
  }
}

TEST(BottleneckFiles, NamesWithoutTheAdaptersOwn) {
  EXPECT_EQ(bottleneck_key("model.layers.0.output_adapters.adapters.mine.adapter_up.bias"),
            "model.layers.0.output_adapters.adapter_up.bias");
  EXPECT_EQ(bottleneck_key("model.layers.0.self_attn.q_proj.lora_A.weight"), "");
}

}  // namespace
}  // namespace stoa::model::huggingface
