// A model opened for use: found, compared with its checksums and read up to its weights, once, whatever its
// kind. From it ranks are loaded: load_paged_decoder, load_for_losses and load_for_pairs (infer/engine),
// load_encoder (infer/encoder_rank).
#pragma once

#include <memory>
#include <optional>

#include "infer/adapter_files.h"
#include "infer/loaded_chunk.h"
#include "infer/model_files.h"
#include "token/tokenizer.h"

namespace stoa::infer {

// What becomes of matrices that are in blocks of a quantised format in their files.
enum class QuantisedWeights : std::uint8_t {
  kDecoded,  // numbers of the model's type
  kStored    // they stay as they are, where there are products with them (ops/quantised_linear.h)
};

class OpenModel {
 public:
  // `path`: a Hugging Face directory, an adapter of one, a checkpoint, a run, or a training checkpoint
  // of another program. `dtype`: of weights and
  // computation; none: as stored. `make_machine` is called when weights are to be read. `adapter`: of the
  // model at `path`; an adapter's directory, a checkpoint or a run. Errors are those of
  // ckpt::find_checkpoint, ModelFiles and AdapterFiles.
  OpenModel(const fs::path& path, std::optional<DType> dtype, MakeMachine make_machine,
            const std::optional<fs::path>& adapter = std::nullopt,
            QuantisedWeights weights = QuantisedWeights::kDecoded);

  const fs::path& directory() const { return directory_; }  // with config.json; of an adapter its base's
  const std::optional<fs::path>& adapter_directory() const { return adapter_directory_; }
  // The directory that says how answers are generated (generation_config.json): the adapter's, if it does.
  const fs::path& generation_directory() const;
  const model::ModelSpec& model() const { return model_; }
  model::ModelKind kind() const { return model_.config.kind; }
  // ConfigError: another kind.
  void require_kind(model::ModelKind wanted) const;
  const model::huggingface::SpecialTokens& special() const { return special_; }
  nn::Precision precision() const { return {type_, type_}; }
  // Whether the machine computes in host memory.
  bool on_host() { return machine().device->kind() == DeviceKind::kHost; }
  // Read when first asked for: the adapter's, with its chat template, if it has one. DataError: it has more
  // ids than the model.
  const token::Tokenizer& tokenizer();

  // A further adapter of this model, found as the constructor finds one.
  AdapterFiles open_adapter(const fs::path& path) const;
  QuantisedWeights weights() const { return weights_; }
  // Decodes all weights: an adapter of this model needs their numbers.
  void decode_weights() { weights_ = QuantisedWeights::kDecoded; }
  // Writes the adapter's own parameters.
  void read_adapter(const AdapterFiles& files, optim::ParameterStore& own);

  // A Rank of `options` with the weights; the model outlives it. Once: the files are closed then.
  template <class Rank, class Options>
  std::unique_ptr<Rank> load(Options options) {
    options.model.stored = stored_types();
    bool shared = false;
    if constexpr (requires { options.share; }) shared = options.share.ranks() > 1;
    auto rank = make_rank<Rank>(machine(), options);
    read_weights(rank->chunk().parameters(), shared);
    return rank;
  }
  // Bytes that load() would allocate: what the rank declares, and its scratch memory. Before it.
  template <class Rank, class Options>
  std::size_t measure(Options options) {
    options.model.stored = stored_types();
    return rank_bytes<Rank>(machine(), options);
  }

  // Types of matrices that ranks hold as they are; null: none. Before load().
  std::shared_ptr<const nn::StoredTypes> stored_types();

 private:
  OpenModel(const ckpt::FoundCheckpoint& found, std::optional<DType> dtype, MakeMachine make_machine,
            QuantisedWeights weights);
  Machine& machine();
  // `shared`: with other ranks.
  void read_weights(optim::ParameterStore& parameters, bool shared);

  fs::path directory_;
  std::optional<fs::path> adapter_directory_;
  std::optional<ModelFiles> files_;      // until the weights were read
  std::optional<AdapterFiles> adapter_;  // likewise
  model::ModelSpec model_;
  std::string model_type_;  // of config.json
  model::huggingface::SpecialTokens special_;
  DType type_;
  QuantisedWeights weights_;
  std::optional<token::Tokenizer> tokenizer_;
  MakeMachine make_machine_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace stoa::infer
