// What loading a model for use takes, whatever its kind.
#pragma once

#include <memory>

#include "cli/model_argument.h"
#include "infer/loaded_chunk.h"

namespace stoa::cli {

// Type of weights and computation. ConfigError: --dtype names none of floating point.
inline nn::Precision precision_of(const ModelArguments& arguments, const infer::ModelFiles& files) {
  const DType type = arguments.dtype.empty() ? files.stored_type() : dtype_from_name(arguments.dtype);
  require<ConfigError>(is_float(type), "--dtype {}: expected fp32, bf16 or fp16", arguments.dtype);
  return {type, type};
}

// DataError: more ids than the model has.
inline token::Tokenizer load_tokenizer(const fs::path& directory, const model::Gpt& model) {
  token::Tokenizer tokenizer = token::Tokenizer::load(directory);
  require<DataError>(tokenizer.vocab_size() <= model.vocabulary,
                     "{}: the tokenizer has {} ids, the model's vocabulary {}: they do not belong together",
                     directory.string(), tokenizer.vocab_size(), model.vocabulary);
  return tokenizer;
}

// A Rank of `options` whose weights are still to be written.
template <class Rank, class Options>
std::unique_ptr<Rank> make_rank(infer::Machine& machine, const Options& options) {
  infer::Machine meta = infer::make_meta_machine(machine);
  return std::make_unique<Rank>(machine, options, run::measure_scratch<Rank>(meta, options));
}

// The same with the weights of `files`.
template <class Rank, class Options>
std::unique_ptr<Rank> load_rank(infer::Machine& machine, const Options& options,
                                const infer::ModelFiles& files) {
  auto rank = make_rank<Rank>(machine, options);
  optim::ParameterStore& parameters = rank->chunk().parameters();
  files.read(parameters.specs(), [&](nn::ParamId id) { return parameters.get(id); });
  return rank;
}

}  // namespace stoa::cli
