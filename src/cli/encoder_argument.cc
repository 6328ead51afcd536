#include "cli/encoder_argument.h"

#include <algorithm>

#include "ckpt/find_checkpoint.h"

namespace stoa::cli {

LoadedEncoder load_encoder(const ModelArguments& arguments, std::int64_t masks) {
  const auto found = ckpt::find_checkpoint(arguments.model, ckpt::Verify::kModel);
  const run::ModelFiles files(found.model);
  const model::ModelConfig& config = files.model().config;
  require<ConfigError>(config.kind == model::ModelKind::kBert,
                       "{}: model_type {} is not an encoder; expected bert or roberta", found.model.string(),
                       files.description().family->type);
  LoadedEncoder out;
  out.directory = found.model;
  out.tokenizer = token::Tokenizer::load(found.model);
  require<DataError>(out.tokenizer->vocab_size() <= files.model().vocabulary,
                     "{}: the tokenizer has {} ids, the model's vocabulary {}: they do not belong together",
                     found.model.string(), out.tokenizer->vocab_size(), files.model().vocabulary);
  const DType type = arguments.dtype.empty() ? files.stored_type() : dtype_from_name(arguments.dtype);
  require<ConfigError>(is_float(type), "--dtype {}: expected fp32, bf16 or fp16", arguments.dtype);
  out.machine = std::make_unique<run::Machine>(make_machine(arguments.machine));
  run::EncoderOptions options;
  options.model = files.model();
  options.precision = {type, type};
  options.longest = config.max_positions();
  options.pass_tokens = std::max<std::int64_t>(options.longest, 4096);
  options.masks = masks;
  run::Machine meta = make_meta_machine(*out.machine);
  out.rank = std::make_unique<run::EncoderRank>(*out.machine, options,
                                                run::EncoderRank::measure_scratch(meta, options));
  files.read(out.rank->parameters().specs(), [&](nn::ParamId id) { return out.rank->parameters().get(id); });
  return out;
}

}  // namespace stoa::cli
