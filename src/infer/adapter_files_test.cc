// Directories of adapters as PEFT writes them, on models with weights by formula.
#include "infer/adapter_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/test_folder.h"
#include "ckpt/tensor_directory.h"
#include "model/huggingface/adapter_config.h"
#include "model/huggingface/adapter_tensors.h"
#include "model/huggingface/formula_weights.h"

namespace stoa::infer {
namespace {

namespace hf = model::huggingface;
namespace fixture = model::testing;
using FileShapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

// Writes the tensors with values by formula, in the order of their names.
void write_directory(const fs::path& directory, const std::string& config, FileShapes shapes) {
  std::sort(shapes.begin(), shapes.end());
  fs::create_directories(directory);
  write_text(directory / hf::kAdapterConfig, config);
  std::vector<ckpt::TensorEntry> entries;
  for (const auto& [name, shape] : shapes) {
    ckpt::TensorEntry entry;
    entry.name = name;
    entry.type = ckpt::StorageType::kF32;
    entry.shape = shape;
    entries.push_back(entry);
  }
  ckpt::ShardedWriter writer(directory, "adapter_model", entries, ckpt::WriteMode::kInPlace);
  for (std::size_t t = 0; t < entries.size(); ++t) {
    std::vector<float> values(static_cast<std::size_t>(entries[t].elements()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(
          hf::testing::formula(static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(i)));
    writer.write_bytes(entries[t].name, std::as_bytes(std::span(values)));
  }
  writer.commit();
}

// The values by formula, and those of the adapter.
void load_values(fixture::Model& model, const model::ModelSpec& spec, const hf::Family& family,
                 const AdapterFiles& files) {
  model.initialize_all(1);
  hf::testing::load_formula(model, spec, family);
  for (const auto& tensor : model::canonical_tensors(spec))
    if (const std::vector<float>* values = files.find(tensor.name)) {
      const TensorView view = model.canonical_view(tensor.name);
      for (std::size_t i = 0; i < values->size(); ++i)
        fixture::Model::set(view, static_cast<std::int64_t>(i), (*values)[i]);
    }
}

// A text behind the virtual tokens.
std::vector<std::int32_t> text_of(const model::ModelSpec& spec) {
  std::vector<std::int32_t> ids{3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7};
  for (std::int64_t i = spec.adapters->virtual_tokens(); i-- > 0;)
    ids.insert(ids.begin(), static_cast<std::int32_t>(spec.vocabulary + i));
  return ids;
}

std::vector<double> logits_of(const model::ModelSpec& spec, const hf::Family& family,
                              const AdapterFiles& files) {
  const bool pairs = spec.config.kind == model::ModelKind::kT5;
  const std::vector<std::int32_t> target{0, 4, 21, 6, 13, 28, 10};
  model::ChunkOptions o;
  o.layers = spec.config.num_layers;
  o.precision = fixture::fp64();
  const std::int64_t in_front = spec.adapters->virtual_tokens(), source = 12 + in_front;
  o.tokens = o.positions = source + (pairs ? std::ssize(target) : 0);
  fixture::Model model(spec, o, fixture::reference(), source);
  load_values(model, spec, family, files);
  const std::vector<std::int32_t> ids = text_of(spec);
  fixture::Batch batch = pairs ? fixture::Batch::pairs(1, ids, target, target)
                               : fixture::Batch(1, ids, std::vector<std::int32_t>(ids.size(), 0));
  return model.logits(batch);
}

const std::string kQwenMoe =
    R"({"model_type":"qwen3_moe","vocab_size":32,"hidden_size":16,"intermediate_size":24,"num_hidden_layers":3,
        "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"head_dim":6,"num_experts":4,
        "num_experts_per_tok":2,"moe_intermediate_size":8,"norm_topk_prob":true,"mlp_only_layers":[1],
        "bos_token_id":1,"eos_token_id":2,"pad_token_id":0})";

// All experts of a layer as one parameter (PEFT 0.21.2 with transformers 5.23): the values of the reference,
// where the model's files have the experts one by one and layer 1 has none.
TEST(AdapterFiles, TakesJointExpertsApart) {
  const TestFolder directory;
  FileShapes shapes;
  const std::string prefix = "base_model.model.model.layers.";
  for (const char* layer : {"0", "1", "2"}) {
    shapes.push_back({prefix + layer + ".self_attn.q_proj.lora_A.weight", {2, 16}});
    shapes.push_back({prefix + layer + ".self_attn.q_proj.lora_B.weight", {24, 2}});
    if (layer[0] == '1') continue;
    shapes.push_back({prefix + layer + ".mlp.experts.base_layer.lora_A.weight", {8, 16}});
    shapes.push_back({prefix + layer + ".mlp.experts.base_layer.lora_B.weight", {16, 8}});
    shapes.push_back({prefix + layer + ".mlp.experts.lora_A.weight", {8, 8}});
    shapes.push_back({prefix + layer + ".mlp.experts.lora_B.weight", {16, 8}});
  }
  write_directory(directory.path(),
                  R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"],
                      "target_parameters":["mlp.experts.gate_up_proj","mlp.experts.down_proj"]})",
                  shapes);
  const hf::ModelDescription base = hf::read_config(kQwenMoe);
  const AdapterFiles files(directory.path(), model::resolve_model(base.config), base.family->type);
  const auto logits = logits_of(files.model(), *base.family, files);
  const std::vector<double> expected{-.4676297, 1.390364, -.1380815, .157798};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(logits[11 * 32 + i], expected[i], 2e-5);
  double sum = 0;
  for (const double logit : logits) sum += logit;
  EXPECT_NEAR(sum, 9.215138, 5e-4);
}

// Packed experts whose files name them otherwise than transformers 5 holds them: PEFT's names are the latter.
TEST(AdapterFiles, NamesExpertsAsTransformersHoldsThem) {
  const hf::ModelDescription base = hf::read_config(
      R"({"model_type":"granitemoe","vocab_size":32,"hidden_size":16,"intermediate_size":8,"num_hidden_layers":1,
          "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"num_local_experts":4,
          "num_experts_per_tok":2,"bos_token_id":1,"eos_token_id":2,"pad_token_id":0})");
  const TestFolder directory;
  const std::string experts = "base_model.model.model.layers.0.block_sparse_moe.experts.";
  const FileShapes shapes{{experts + "base_layer.lora_A.weight", {8, 16}},
                          {experts + "base_layer.lora_B.weight", {16, 8}},
                          {experts + "lora_A.weight", {8, 8}},
                          {experts + "lora_B.weight", {16, 8}}};
  write_directory(directory.path(),
                  R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":[],
                      "target_parameters":["block_sparse_moe.experts.gate_up_proj",
                                           "block_sparse_moe.experts.down_proj"]})",
                  shapes);
  const AdapterFiles files(directory.path(), model::resolve_model(base.config), base.family->type);
  FileShapes written;
  for (const ckpt::TensorEntry& entry : adapter_entries(files.model(), DType::kF32))
    written.emplace_back(entry.name, entry.shape);
  std::sort(written.begin(), written.end());
  EXPECT_EQ(written, shapes);
}

const std::string kLlama =
    R"({"model_type":"llama","vocab_size":32,"hidden_size":16,"intermediate_size":24,"num_hidden_layers":2,
        "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"rms_norm_eps":1e-5,
        "bos_token_id":1,"eos_token_id":2,"pad_token_id":0})";

const std::string kT5 =
    R"({"model_type":"t5","vocab_size":32,"d_model":16,"d_kv":6,"d_ff":24,"num_layers":2,"num_decoder_layers":2,
        "num_heads":4,"relative_attention_num_buckets":8,"relative_attention_max_distance":16,
        "feed_forward_proj":"relu","tie_word_embeddings":true,"pad_token_id":0,"eos_token_id":1,
        "decoder_start_token_id":0})";

// PEFT's directories of virtual tokens: the values of the reference. Those of p-tuning hold what the encoder
// made, which is used as a prompt is.
const std::string kQwenShared =
    R"({"model_type":"qwen2_moe","vocab_size":32,"hidden_size":16,"intermediate_size":24,"num_hidden_layers":1,
        "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"num_experts":2,
        "num_experts_per_tok":1,"moe_intermediate_size":8,"shared_expert_intermediate_size":12,
        "bos_token_id":1,"eos_token_id":2,"pad_token_id":0})";

// PEFT takes names of experts' layers for their parameters (tests/oracle/check_adapters.py compares with it).
TEST(AdapterFiles, NamesSharedExpertsAsParameters) {
  const hf::ModelDescription base = hf::read_config(kQwenShared);
  model::ModelConfig config = base.config;
  config.peft.peft_scheme = model::PeftScheme::kLora;
  config.peft.base_model_type = base.family->type;
  config.peft.lora.adapter_dim = 2;
  config.peft.lora.alpha = 4;
  config.peft.lora.target_modules = {"q_proj", "gate_proj", "up_proj", "down_proj"};
  const auto json =
      nlohmann::json::parse(hf::write_adapter_config(model::resolve_model(config), "some/model"));
  EXPECT_EQ(json["target_modules"], nlohmann::json({"q_proj"}));
  const std::string shared = "model.layers.0.mlp.shared_expert.";
  EXPECT_EQ(json["target_parameters"],
            nlohmann::json({"down_proj", "gate_up_proj", shared + "down_proj.weight",
                            shared + "gate_proj.weight", shared + "up_proj.weight"}));
  EXPECT_EQ(json["rank_pattern"], nlohmann::json({{".*\\.gate_up_proj", 4}}));
  EXPECT_EQ(json["alpha_pattern"], nlohmann::json({{".*\\.gate_up_proj", 8}}));
}

// The rank of gate and up together, where the adapter has a matrix for both and where it has them apart.
TEST(AdapterFiles, ReadsTheRankOfExpertsFromTheirMatrices) {
  const hf::ModelDescription base = hf::read_config(kQwenShared);
  const std::string mlp = "base_model.model.model.layers.0.mlp.";
  const std::string config =
      R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":[],
          "target_parameters":["gate_up_proj","down_proj"],"rank_pattern":{".*\\.gate_up_proj":4},
          "alpha_pattern":{".*\\.gate_up_proj":8}})";
  const auto check = [&](const FileShapes& shapes, std::int64_t rank) {
    const TestFolder directory;
    write_directory(directory.path(), config, shapes);
    const AdapterFiles files(directory.path(), model::resolve_model(base.config), base.family->type);
    EXPECT_EQ(files.model().adapters->modules().size(), 6U);
    for (const auto& module : files.model().adapters->modules()) {
      EXPECT_EQ(module.rank, module.linear.last_word() == "down_proj" ? 2 : rank) << module.linear.path;
      EXPECT_EQ(module.scale, 2) << module.linear.path;
    }
  };
  check({{mlp + "experts.base_layer.lora_A.weight", {8, 16}},
         {mlp + "experts.base_layer.lora_B.weight", {16, 8}},
         {mlp + "experts.lora_A.weight", {4, 8}},
         {mlp + "experts.lora_B.weight", {16, 4}}},
        4);
  FileShapes apart;
  for (const char* expert : {"0", "1"})
    for (const char* word : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = std::string(word) == "down_proj";
      const std::string path = mlp + "experts." + expert + "." + word;
      apart.push_back({path + ".lora_A.weight", {2, down ? 8 : 16}});
      apart.push_back({path + ".lora_B.weight", {down ? 16 : 8, 2}});
    }
  check(apart, 2);
}

TEST(AdapterFiles, RefusesBranchesOfRouters) {
  const hf::ModelDescription base = hf::read_config(kQwenShared);
  const TestFolder directory;
  const std::string gate = "base_model.model.model.layers.0.mlp.gate.";
  const auto refused = [&](const FileShapes& shapes, const std::string& reason) {
    write_directory(directory.path(), R"({"peft_type":"LORA","r":2})", shapes);
    try {
      AdapterFiles(directory.path(), model::resolve_model(base.config), base.family->type);
      ADD_FAILURE() << "no error";
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  refused({{gate + "lora_A.weight", {2, 16}}, {gate + "lora_B.weight", {2, 2}}},
          "adapts the routers of experts");
}

TEST(AdapterFiles, UsesVirtualTokens) {
  struct Case {
    const char* type;
    std::vector<std::int64_t> shape;
    std::vector<double> logits;
    double sum;
    std::int64_t first_row;  // of the sum: PEFT gives no logits for a prefix
  };
  const std::vector<double> prompt{2.609348, -.9003576, -1.396242, -.1903768},
      prefix{2.871449, -1.684876, -.9217519, -.114325};
  for (const Case& c :
       {Case{"PROMPT_TUNING", {3, 16}, prompt, -102.6283, 0}, Case{"P_TUNING", {3, 16}, prompt, -102.6283, 0},
        Case{"PREFIX_TUNING", {3, 32}, prefix, 56.06478, 3}}) {
    SCOPED_TRACE(c.type);
    const TestFolder directory;
    write_directory(directory.path(),
                    std::string(R"({"num_virtual_tokens":3,"peft_type":")") + c.type + "\"}",
                    {{"prompt_embeddings", c.shape}});
    const hf::ModelDescription base = hf::read_config(kLlama);
    const model::ModelSpec spec = model::resolve_model(base.config);
    const AdapterFiles files(directory.path(), spec, base.family->type);
    const auto logits = logits_of(files.model(), *base.family, files);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(logits[14 * 32 + i], c.logits[i], 2e-5);
    double sum = 0;
    for (std::size_t i = static_cast<std::size_t>(c.first_row) * 32; i < logits.size(); ++i) sum += logits[i];
    EXPECT_NEAR(sum, c.sum, 1e-3);
    // Another count than that of the configuration.
    write_text(directory.path() / hf::kAdapterConfig,
               std::string(R"({"num_virtual_tokens":4,"peft_type":")") + c.type + "\"}");
    EXPECT_THROW(AdapterFiles(directory.path(), spec, base.family->type), DataError);
  }
}

// PEFT's files hold as many rows again for the decoder's input, which it does not use. What follows are the
// values of PEFT 0.21.2 with transformers 5.24.
TEST(AdapterFiles, EncodersReadVirtualTokensBeforeTheirTexts) {
  const std::string pairs = R"("num_virtual_tokens":3,"task_type":"SEQ_2_SEQ_LM")";
  for (const char* type : {"PROMPT_TUNING", "P_TUNING"})
    for (const std::int64_t submodules : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << type << ", rows of " << submodules);
      const TestFolder directory;
      write_directory(
          directory.path(),
          fmt::format(R"({{{},"peft_type":"{}","num_transformer_submodules":{}}})", pairs, type, submodules),
          {{"prompt_embeddings", {3 * submodules, 16}}});
      const hf::ModelDescription base = hf::read_config(kT5);
      model::ModelConfig config = base.config;
      config.encoder_seq_length = 15;  // of the pass below
      config.t5.seq_length_dec = 7;
      const AdapterFiles files(directory.path(), model::resolve_model(config), base.family->type);
      const auto logits = logits_of(files.model(), *base.family, files);
      ASSERT_EQ(logits.size(), 7U * 32);
      const std::vector<double> expected{.3035352, .2841505, .2158381, -.3626989};
      for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(logits[6 * 32 + i], expected[i], 1e-6);
      double sum = 0;
      for (const double logit : logits) sum += logit;
      EXPECT_NEAR(sum, -1.357014, 1e-5);
      // Of the other kind of model, and of a method that PEFT has for decoders alone.
      const hf::ModelDescription decoder = hf::read_config(kLlama);
      if (submodules == 2) {
        EXPECT_THROW(
            AdapterFiles(directory.path(), model::resolve_model(decoder.config), decoder.family->type),
            ConfigError);
      }
      write_directory(directory.path(), "{" + pairs + R"(,"peft_type":"PREFIX_TUNING"})",
                      {{"prompt_embeddings", {3, 64}}});
      EXPECT_THROW(AdapterFiles(directory.path(), model::resolve_model(config), base.family->type),
                   ConfigError);
    }
}

// The logits of a classification at some tokens of the text.
std::vector<double> classes_of(const model::ModelSpec& spec, const hf::Family& family,
                               const AdapterFiles& files, const std::vector<std::int32_t>& rows) {
  model::ChunkOptions o;
  o.layers = spec.config.num_layers;
  o.precision = fixture::fp64();
  const std::vector<std::int32_t> ids = text_of(spec);
  o.tokens = o.positions = std::ssize(ids);
  fixture::Model model(spec, o, fixture::reference(), o.tokens);
  load_values(model, spec, family, files);
  fixture::Batch batch = fixture::Batch::masked({o.tokens}, o.tokens, 32, 1);
  batch.tokens = ids;
  batch.types.assign(ids.size(), 0);
  const nn::BatchView view = batch.view();
  nn::Pass pass = model.pass(view, false);
  pass.state = {};
  model::Chunk::Outputs outputs;
  outputs.rows = rows;
  outputs.logits = model.new_memory(o.precision.vectors(), {std::ssize(rows), spec.config.task.classes()});
  model.chunk.infer(pass, {}, outputs);
  return fixture::Model::doubles(outputs.logits);
}

// A text is classified by its first virtual token, and the head is a part of the adapter, as in PEFT 0.21.2
// with transformers 5.24, whose values these are.
TEST(AdapterFiles, ClassificationsReadVirtualTokensBeforeTheirTexts) {
  const auto logits = [](const char* architecture, const char* task, const std::vector<std::int32_t>& rows) {
    const hf::ModelDescription base = hf::read_config(fmt::format(
        R"({{"model_type":"bert","architectures":["{}"],"vocab_size":32,"hidden_size":16,"intermediate_size":24,
             "num_hidden_layers":2,"num_attention_heads":4,"max_position_embeddings":40,"layer_norm_eps":1e-12,
             "hidden_act":"gelu","type_vocab_size":2,"pad_token_id":0,
             "id2label":{{"0":"a","1":"b","2":"c"}}}})",
        architecture));
    const TestFolder directory;
    write_directory(
        directory.path(),
        fmt::format(
            R"({{"peft_type":"PROMPT_TUNING","task_type":"{}","num_virtual_tokens":3,"modules_to_save":["classifier","score"]}})",
            task),
        {{"base_model.classifier.bias", {3}},
         {"base_model.classifier.weight", {3, 16}},
         {"prompt_embeddings", {3, 16}}});
    const AdapterFiles files(directory.path(), model::resolve_model(base.config), base.family->type);
    std::vector<std::string> names;
    for (const ckpt::TensorEntry& entry : adapter_entries(files.model(), DType::kF32))
      names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"base_model.classifier.bias", "base_model.classifier.weight",
                                               "prompt_embeddings"}));
    return classes_of(files.model(), *base.family, files, rows);
  };
  const auto near = [](const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_GE(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
  };
  near(logits("BertForSequenceClassification", "SEQ_CLS", {0}), {.2551801, 1.2153567, -.0307299});
  std::vector<std::int32_t> all(15);
  std::iota(all.begin(), all.end(), 0);
  const auto tags = logits("BertForTokenClassification", "TOKEN_CLS", all);
  near(tags, {.8644756, 1.6640200, 1.2075211, .2127132, .4241781, 1.1169651, .5454488, 1.0193911, 1.4185594});
  EXPECT_NEAR(std::accumulate(tags.begin(), tags.end(), 0.0), 37.5085066, 1e-5);
}

// What is written is read as the same values, experts in both forms among them.
TEST(AdapterFiles, ReadsWhatIsWritten) {
  const std::string gpt_oss =
      R"({"model_type":"gpt_oss","vocab_size":32,"hidden_size":16,"intermediate_size":12,"num_hidden_layers":2,
          "num_attention_heads":4,"num_key_value_heads":2,"head_dim":4,"num_local_experts":4,
          "num_experts_per_tok":2,"max_position_embeddings":64,"sliding_window":5})";
  using model::PeftScheme;
  for (const auto& [text, scheme] : {std::pair{kQwenMoe, PeftScheme::kLora},
                                     {gpt_oss, PeftScheme::kLora},
                                     {kQwenMoe, PeftScheme::kPrompt},
                                     {kQwenMoe, PeftScheme::kPrefix},
                                     {gpt_oss, PeftScheme::kPTuning},
                                     {kT5, PeftScheme::kPrompt},
                                     {kT5, PeftScheme::kPTuning}}) {
    const TestFolder directory;
    const hf::ModelDescription base = hf::read_config(text);
    model::ModelConfig config = base.config;
    config.peft.peft_scheme = scheme;
    config.peft.virtual_tokens.bottleneck_dim = 6;
    config.peft.base_model_type = base.family->type;
    config.peft.lora.adapter_dim = 3;
    const model::ModelSpec spec = model::resolve_model(config);
    std::map<std::string, std::vector<float>> values;
    for (const auto& tensor : model::canonical_tensors(spec))
      if (tensor.adapter)
        for (std::int64_t i = 0; i < tensor.shape.elements(); ++i)
          values[tensor.name].push_back(static_cast<float>(values.size() * 1000 + i) / 1e4f);
    write_text(directory.path() / hf::kAdapterConfig, hf::write_adapter_config(spec, "nowhere"));
    ckpt::ShardedWriter writer(directory.path(), "adapter_model", adapter_entries(spec, DType::kF32),
                               ckpt::WriteMode::kInPlace);
    write_adapter(writer, spec, DType::kF32, [&](const std::string& name) {
      auto& own = values.at(name);
      return TensorView(own.data(), DType::kF32, {static_cast<std::int64_t>(own.size())});
    });
    writer.commit();
    // An encoder is read where it is trained on.
    const AdapterFiles files =
        scheme == PeftScheme::kPTuning
            ? AdapterFiles(directory.path(), spec)
            : AdapterFiles(directory.path(), model::resolve_model(base.config), base.family->type);
    for (const auto& [name, own] : values) {
      const std::vector<float>* found = files.find(name);
      ASSERT_NE(found, nullptr) << name;
      EXPECT_EQ(*found, own) << name;
    }
  }
}

}  // namespace
}  // namespace stoa::infer
