// Copies weights between a model directory in Hugging Face's format and a rank's memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ckpt/find_checkpoint.h"
#include "ckpt/grown_rows.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/tensor_source.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/tensor_map.h"
#include "nn/module.h"

namespace stoa::infer {

// What a rank holds of a model.
struct HeldParameters {
  std::vector<ShardSpec> parts;     // by parameter
  std::vector<TensorSpec> tensors;  // of the whole model
  // What a rank with the whole model holds.
  static HeldParameters whole(const std::vector<nn::ParamSpec>& specs);
  // What one of several ranks holds of `model`, without adapters.
  static HeldParameters share(const std::vector<nn::ParamSpec>& specs, const model::ModelSpec& model);
  // What is in a model's own files.
  HeldParameters without_adapters(const std::vector<nn::ParamSpec>& specs) const;
  // What is held as numbers, not as bytes (ParamSpec::holds_bytes).
  HeldParameters without_bytes(const std::vector<nn::ParamSpec>& specs) const;
};

// A model directory, its configuration read and its tensors checked by name and shape; weights are not read
// yet.
class ModelFiles {
 public:
  // `directory` holds config.json and weights (ckpt::open_weights), or is a training checkpoint of another
  // program (foreign::open_foreign). IoError, ConfigError, DataError. Whether
  // the head of a family is its own may be told by the tensors (NameMap::head_may_untie).
  explicit ModelFiles(const fs::path& directory);
  // A training checkpoint of another program, whose weights are `tensors` under the names of
  // description.family.
  ModelFiles(const fs::path& directory, model::huggingface::ModelDescription description,
             std::shared_ptr<const ckpt::TensorSource> tensors);
  // The files of an encoder or decoder for a model of a labelled task, whatever theirs is: what they lack of
  // its head is fresh().
  ModelFiles(const fs::path& directory, const model::TaskConfig& task);

  // The model with further tokens: their rows of embedding, head and head bias are the mean of the others.
  // `tokens.first`: how many tokens the files' tokenizer has. DataError: tensors that cannot grow.
  void grow(ckpt::NewTokens tokens);

  const fs::path& directory() const { return directory_; }
  const model::huggingface::ModelDescription& description() const { return description_; }
  const model::ModelSpec& model() const { return model_; }
  // The tensors of the files, each under the first name that the family has for it. Packed ones (MXFP4) are
  // not among them.
  std::shared_ptr<const ckpt::TensorSource> tensors() const;
  // Canonical tensors that the files do not hold; read() leaves their memory as it is.
  const std::set<std::string>& fresh() const { return fresh_; }
  // Element type of most weights in the file.
  DType stored_type() const;

  // One canonical tensor, dense, as `type`. The file's tensor that holds it is read whole.
  std::vector<std::byte> canonical(const std::string& name, DType type) const;
  std::vector<float> floats(const std::string& name) const;
  // The matrices that ranks may hold in the numbers of the files (nn::ParamSpec::stored), with or without
  // those of experts; null: none.
  std::shared_ptr<const nn::StoredTypes> stored_types(bool experts) const;
  // Where the files have each canonical tensor: which of their tensors, and which of its parts.
  struct PartPlace {
    std::size_t tensor, part;
  };
  std::map<std::string, PartPlace> part_places() const;
  // The blocks of each row of a matrix of stored_types(), on the map of the file.
  std::vector<const std::byte*> stored_rows(const PartPlace& place) const;
  // Fills the memory of what a rank holds. `target(id)`: host memory for the rank's part of a parameter, any
  // floating-point type; asked for when the first tensor of the parameter is due. `filled(id)`: it is
  // complete, padding set to zero, and not used again. The tensors of a file lie together, so that few
  // parameters are between the two at a time. DataError, before anything is written, when the model has other
  // tensors or shapes.
  void read(const HeldParameters& rank, const std::function<TensorView(nn::ParamId)>& target,
            const std::function<void(nn::ParamId)>& filled) const;

 private:
  // The blocks of the tensor of the files that is wanted_[i], if its rows are those of canonical matrices.
  std::optional<ckpt::TensorSource::Blocks> blocks_of(std::size_t i) const;
  struct Opened {
    model::huggingface::ModelDescription description;
    std::shared_ptr<const ckpt::TensorSource> tensors;
  };
  static Opened open(const fs::path& directory);
  ModelFiles(const fs::path& directory, Opened opened, bool head_optional);
  // Fills wanted_, match_, fresh_ and packed_.
  void find_tensors(bool head_optional);
  // The type in which wanted_[i] is on its way into memory of type `memory`.
  DType reading_type(std::size_t i, DType memory) const;
  // All elements of a tensor of the file, as `type`: in the mapped file, or converted to `room`. DataError:
  // one of them is not finite.
  std::span<const std::byte> load_elements(const std::string& name, DType type,
                                           std::vector<std::byte>& room) const;
  void require_same_tensors(const std::map<std::string, Shape>& expected) const;

  fs::path directory_;
  model::huggingface::ModelDescription description_;
  model::ModelSpec model_;
  std::shared_ptr<const ckpt::TensorSource> tensors_;
  std::vector<model::huggingface::Tensor> wanted_;
  model::huggingface::Match match_;
  std::set<std::string> fresh_;
  // MXFP4 matrices (ckpt/mxfp4.h) by the name that the floating-point tensor has in such files.
  struct Packed {
    const ckpt::TensorEntry *blocks, *scales;
    Shape shape;  // [E, inputs, outputs], of the floating-point tensor
  };
  std::map<std::string, Packed> packed_;

  // What `blocks` and its scales hold, if the family has such tensors. DataError: they are none.
  std::optional<Packed> packed_matrices(const ckpt::TensorEntry& blocks) const;
};

// Entries and bytes of a model directory to be written: all weights as `type`.
std::vector<ckpt::TensorEntry> model_entries(const model::ModelSpec& spec,
                                             const model::huggingface::Family& family, DType type);
// `source(canonical)`: host view of a canonical tensor, any floating-point type, alive until `written` is
// called: after every tensor of the file.
void write_model(ckpt::ShardedWriter& writer, const model::ModelSpec& spec,
                 const model::huggingface::Family& family, DType type,
                 const std::function<TensorView(const std::string& canonical)>& source,
                 const std::function<void()>& written = nullptr);

}  // namespace stoa::infer
