#include <nlohmann/json.hpp>

#include "model/huggingface/config_json.h"
#include "model/huggingface/task_keys.h"

namespace stoa::model::huggingface {
namespace {

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    default:
      fail<InternalError>("weights are not written as {}", name_of(dtype));
  }
}

}  // namespace

std::string write_config(const ModelSpec& spec, const Family& family, DType dtype,
                         const SpecialTokens& special) {
  Json json;
  json["architectures"] = {std::string(family.architecture)};
  json["model_type"] = std::string(family.type);
  family.write(spec, json);
  if (spec.config.kind == ModelKind::kGpt && spec.config.task.labelled())
    write_decoder_task(spec.config, family, json);
  json["tie_word_embeddings"] = spec.config.share_embeddings_and_output_weights;
  json["initializer_range"] = spec.config.init_method_std;
  json["bos_token_id"] = special.bos ? Json(*special.bos) : Json();
  json["eos_token_id"] = special.eos.empty()       ? Json()
                         : special.eos.size() == 1 ? Json(special.eos[0])
                                                   : Json(special.eos);
  // Positions that begin after it say which it is; else the family's word counts where there is no token.
  const bool said = json.contains("pad_token_id"), fixed = said && spec.config.bert.first_position > 0;
  if (special.pad && !fixed)
    json["pad_token_id"] = *special.pad;
  else if (!said)
    json["pad_token_id"] = Json();
  if (special.decoder_start) json["decoder_start_token_id"] = *special.decoder_start;
  json["torch_dtype"] = torch_name(dtype);
  json["dtype"] = torch_name(dtype);
  json["use_cache"] = true;
  return json.dump(2) + "\n";
}

}  // namespace stoa::model::huggingface
