#include "model/huggingface/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/huggingface/quantization.h"

namespace stoa::model::huggingface {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GenerationConfig, ReadsWhatModelsCarry) {
  const auto llama = read_generation_config(
      R"({"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128008, 128009],
          "temperature": 0.6, "top_p": 0.9, "max_length": 4096, "transformers_version": "4.42.3"})");
  EXPECT_THAT(llama.special.eos, ElementsAre(128001, 128008, 128009));
  EXPECT_EQ(llama.special.bos, 128000);
  EXPECT_EQ(llama.do_sample, true);
  EXPECT_EQ(llama.temperature, 0.6);
  EXPECT_EQ(llama.top_p, 0.9);
  EXPECT_FALSE(llama.top_k);
  EXPECT_TRUE(llama.draws());
  EXPECT_TRUE(llama.not_followed.empty());
  const auto other = read_generation_config(
      R"({"eos_token_id": 2, "pad_token_id": null, "suppress_tokens": [7, 9], "begin_suppress_tokens": [3],
          "bad_words_ids": [[4], [5, 6]], "no_repeat_ngram_size": 3, "num_beams": 1, "typical_p": 1.0,
          "max_new_tokens": 64, "forced_eos_token_id": 2})");
  EXPECT_THAT(other.special.eos, ElementsAre(2));
  EXPECT_FALSE(other.special.pad);
  EXPECT_THAT(other.suppressed, ElementsAre(7, 9));
  EXPECT_THAT(other.suppressed_first, ElementsAre(3));
  EXPECT_THAT(other.bad_words, ElementsAre(ElementsAre(4), ElementsAre(5, 6)));
  EXPECT_EQ(other.max_new_tokens, 64);
  EXPECT_EQ(other.typical_p, 1);
  EXPECT_FALSE(other.draws());
  EXPECT_THAT(other.not_followed, ElementsAre("no_repeat_ngram_size 3", "forced_eos_token_id 2"));
}

TEST(GenerationConfig, NamesTheFileAndTheKey) {
  const auto message = [](const char* file) {
    try {
      (void)read_generation_config(file);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message("[]"), HasSubstr("generation_config.json is not a JSON object"));
  EXPECT_THAT(message(R"({"temperature": "hot"})"),
              HasSubstr("generation_config.json: temperature is \"hot\", expected a number"));
  EXPECT_THAT(message(R"({"eos_token_id": [1, -2]})"), HasSubstr("-2 is not a token id"));
  EXPECT_THAT(message(R"({"bad_words_ids": [[]]})"), HasSubstr("list of lists"));
}

TEST(GenerationConfig, ReadsWhatItWrites) {
  SpecialTokens special;
  special.bos = 1, special.pad = 0, special.decoder_start = 0;
  special.eos = {2, 5};
  const auto read = read_generation_config(write_generation_config(special));
  EXPECT_EQ(read.special.bos, 1);
  EXPECT_EQ(read.special.pad, 0);
  EXPECT_EQ(read.special.decoder_start, 0);
  EXPECT_THAT(read.special.eos, ElementsAre(2, 5));
  EXPECT_FALSE(read_generation_config(write_generation_config({})).special.bos);
}

TEST(Quantization, IsToldByItsName) {
  const auto told = [](const std::string& quantization) {
    return read_config(R"({"model_type": "llama", "quantization_config": )" + quantization + "}")
        .quantised.value_or("nothing");
  };
  EXPECT_THAT(told(R"({"quant_method": "gptq", "bits": 4})"), HasSubstr("quantised by GPTQ, 4 bits"));
  EXPECT_THAT(told(R"({"quant_method": "awq", "bits": 4})"), HasSubstr("AWQ, 4 bits"));
  EXPECT_THAT(told(R"({"load_in_8bit": true})"), HasSubstr("bitsandbytes, 8 bits"));
  EXPECT_THAT(told(R"({"quant_method": "compressed-tensors", "format": "int-quantized"})"),
              HasSubstr("compressed-tensors, format int-quantized"));
  EXPECT_THAT(told(R"({"quant_method": "mxfp4"})"), HasSubstr("MXFP4"));
  EXPECT_THAT(told(R"({"quant_method": "new"})"), HasSubstr("quantised by new"));
  for (const auto& [name, method] : std::vector<std::pair<std::string, std::string>>{
           {"model.layers.0.mlp.up_proj.g_idx", "GPTQ"},
           {"model.layers.0.mlp.up_proj.qweight", "AWQ or GPTQ"},
           {"model.layers.0.mlp.up_proj.SCB", "bitsandbytes, 8 bits"},
           {"model.layers.0.mlp.up_proj.weight_packed", "compressed-tensors"}}) {
    const std::vector<FileTensor> tensors{{"model.norm.weight", Shape{4}}, {name, Shape{4}}};
    try {
      refuse_quantised(tensors);
      ADD_FAILURE() << name << " was accepted";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("quantised by " + method));
    }
  }
}

}  // namespace
}  // namespace stoa::model::huggingface
