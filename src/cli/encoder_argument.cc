#include "cli/encoder_argument.h"

#include <algorithm>

#include "ckpt/find_checkpoint.h"
#include "cli/load_rank.h"

namespace stoa::cli {

LoadedEncoder load_encoder(const ModelArguments& arguments, const EncoderUse& use) {
  const auto found = ckpt::find_checkpoint(arguments.model, ckpt::Verify::kModel);
  const infer::ModelFiles files(found.model);
  const model::ModelConfig& config = files.model().config;
  require<ConfigError>(config.kind == model::ModelKind::kBert,
                       "{}: model_type {} is not an encoder; expected bert or roberta", found.model.string(),
                       files.description().family->type);
  LoadedEncoder out;
  out.directory = found.model;
  out.tokenizer = load_tokenizer(found.model, files.model());
  out.machine = std::make_unique<infer::Machine>(make_machine(arguments.machine));
  infer::EncoderOptions options;
  options.model = files.model();
  options.precision = precision_of(arguments, files);
  options.longest = config.max_positions();
  options.pass_tokens = std::max<std::int64_t>(options.longest, 4096);
  options.masks = use.masks;
  options.answers = use.answers ? options.pass_tokens : 0;
  out.rank = load_rank<infer::EncoderRank>(*out.machine, options, files);
  return out;
}

token::TokenId LoadedEncoder::mask_id() const {
  const auto mask = tokenizer->mask_id();
  require<ConfigError>(
      mask.has_value(),
      "{}: the tokenizer has no mask token; name one in its tokenizer_config.json (mask_token)",
      directory.string());
  return *mask;
}

}  // namespace stoa::cli
