#include <algorithm>
#include <array>

#include "model/huggingface/config_json.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/quantization.h"
#include "model/huggingface/task_keys.h"

namespace stoa::model::huggingface {
namespace {

// Keys of all families that do not affect what a causal language model computes.
constexpr std::array kIgnored{"architectures",
                              "model_type",
                              "transformers_version",
                              "use_cache",
                              "initializer_range",
                              "name_or_path",
                              "is_encoder_decoder",
                              "is_decoder",
                              "cross_attention_hidden_size",
                              "output_hidden_states",
                              "output_attentions",
                              "return_dict",
                              "return_dict_in_generate",
                              "output_scores",
                              "torchscript",
                              "use_bfloat16",
                              "pruned_heads",
                              "chunk_size_feed_forward",
                              "id2label",
                              "label2id",
                              "num_labels",
                              "problem_type",
                              "task_specific_params",
                              "finetuning_task",
                              "tokenizer_class",
                              "prefix",
                              "sep_token_id",
                              "max_length",
                              "min_length",
                              "do_sample",
                              "early_stopping",
                              "num_beams",
                              "num_beam_groups",
                              "diversity_penalty",
                              "temperature",
                              "top_k",
                              "top_p",
                              "typical_p",
                              "repetition_penalty",
                              "length_penalty",
                              "no_repeat_ngram_size",
                              "encoder_no_repeat_ngram_size",
                              "bad_words_ids",
                              "num_return_sequences",
                              "forced_bos_token_id",
                              "forced_eos_token_id",
                              "remove_invalid_values",
                              "exponential_decay_length_penalty",
                              "suppress_tokens",
                              "begin_suppress_tokens",
                              "tf_legacy_loss",
                              "gradient_checkpointing",
                              "auto_map",
                              "attn_implementation",
                              "pretraining_tp",
                              "n_ctx",
                              "summary_type",
                              "summary_use_proj",
                              "summary_activation",
                              "summary_proj_to_labels",
                              "summary_first_dropout",
                              "reorder_and_upcast_attn",
                              "unsloth_version",
                              "unsloth_fixed",
                              "use_mrope",
                              "max_sequence_length"};

}  // namespace

void ignore_common_keys(JsonKeys& keys) {
  for (const char* key : kIgnored) keys.ignore(key);
}

ModelDescription read_config(std::string_view text) {
  // Limits the nesting, which costs stack.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    require<ConfigError>(depth < 32, "config.json is nested more than 32 deep");
    return true;
  };
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, shallow);
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what = error.what();  // "[json.exception...] parse error at ..."
    fail<ConfigError>("config.json is not valid JSON: {}", what.substr(what.find("] ") + 2));
  }
  require<ConfigError>(json.is_object(), "config.json is not a JSON object");
  JsonKeys keys(json, "");
  const auto type = keys.text("model_type");
  require<ConfigError>(type.has_value(), "config.json has no model_type, expected one such as 'llama'");
  ModelDescription out;
  out.family = &family_from_config(*type, json);
  for (const char* key : {"quantization_config", "compression_config"})
    if (const auto* quantization = keys.object(key);
        quantization && (out.family->quantised.empty() || !quantization->contains("quant_method") ||
                         (*quantization)["quant_method"] != std::string(out.family->quantised)))
      out.quantised = fmt::format("{}: weights quantised by {}", key, quantisation_text(*quantization));
  ignore_common_keys(keys);
  if (const auto old = keys.text("torch_dtype")) out.dtype = old;
  if (const auto now = keys.text("dtype")) out.dtype = now;
  out.family->read(keys, out.config);
  if (out.config.kind == ModelKind::kGpt) read_decoder_task(keys, *out.family, out.config);
  if (const auto std = keys.number("initializer_range")) out.config.init_method_std = *std;
  out.special.bos = keys.integer("bos_token_id", -1);
  out.special.pad = keys.integer("pad_token_id", -1);
  if (out.special.pad == -1) out.special.pad.reset();
  out.special.decoder_start = keys.integer("decoder_start_token_id", -1);
  out.special.eos = keys.integers("eos_token_id");
  keys.finish(out.family->type);
  // The file does not set the length of training samples: the longest that the model supports.
  out.config.encoder_seq_length = out.config.max_positions();
  out.config.t5.seq_length_dec = std::min(out.config.t5.seq_length_dec, out.config.max_positions());
  validate(out.config);
  return out;
}

}  // namespace stoa::model::huggingface
