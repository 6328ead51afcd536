#include "model/huggingface/text_part.h"

#include "base/error.h"
#include "model/huggingface/json_keys.h"

namespace stoa::model::huggingface {
namespace {

bool is_needless_beside_text(std::string_view name, const ModelConfig&) {
  for (const std::string_view part :
       {"vision_tower.", "vision_model.", "multi_modal_projector.", "visual.", "mtp."})
    if (name.starts_with(part)) return true;
  return name.ends_with("rotary_emb.inv_freq");
}

}  // namespace

void read_text_part(JsonKeys& keys, ModelConfig& config, std::string_view type,
                    void (*read)(JsonKeys&, ModelConfig&)) {
  const auto* text = keys.object("text_config");
  require<ConfigError>(text != nullptr, "config.json: text_config is missing");
  JsonKeys inner(*text, "text_config.");
  ignore_common_keys(inner);
  for (const char* key :
       {"dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id", "cache_implementation"})
    inner.ignore(key);
  read(inner, config);
  if (const auto tied = keys.boolean("tie_word_embeddings"))
    config.share_embeddings_and_output_weights = *tied;
  inner.finish(type);
  for (const char* key : {"vision_config", "mm_tokens_per_image", "image_token_index", "image_token_id",
                          "video_token_id", "vision_start_token_id", "vision_end_token_id", "boi_token_index",
                          "boi_token_id", "eoi_token_index", "eoi_token_id", "language_model_only"})
    keys.ignore(key);
}

NameMap names_of_text_part(NameMap names) {
  names.other_prefixes = {"language_model.model.", "model.language_model.", "language_model."};
  names.needless = is_needless_beside_text;
  return names;
}

bool always_refused(const ModelConfig&) { return true; }

}  // namespace stoa::model::huggingface
