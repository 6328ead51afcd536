// An adapter read from a directory in PEFT's form, whoever wrote it: checked against its model by name and
// shape, then held whole in host memory, since it is small.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "infer/adapter_values.h"
#include "infer/model_files.h"

namespace stoa::infer {

class AdapterFiles {
 public:
  // `base`: the model of the adapter, of the family `model_type`. DataError: no such files, tensors that are
  // not an adapter of this model, values that are not finite; ConfigError: see read_adapter_config().
  AdapterFiles(const fs::path& directory, const model::ModelSpec& base, std::string_view model_type);
  // The same for a model that is adapted already, by the configuration of a training. ConfigError: it is
  // adapted differently.
  AdapterFiles(const fs::path& directory, const model::ModelSpec& adapted);

  // The model with this adapter.
  const model::ModelSpec& model() const { return model_; }
  const fs::path& directory() const { return directory_; }

  // Fills the memory of what a rank holds of the adapter, and of the model's tensors that belong to it; other
  // parameters are not asked for. `target` and `filled` are as in ModelFiles::read().
  void read(const HeldParameters& rank, const std::function<TensorView(nn::ParamId)>& target,
            const std::function<void(nn::ParamId)>& filled) const;
  // The values of a canonical tensor of it; null: it has none of that name.
  const std::vector<float>* find(const std::string& canonical) const;

 private:
  // Takes the values that the files hold for the tensors of model_.
  void scatter_values();
  // Drops from `files` the embedding and the head that PEFT writes with a branch of either.
  void drop_token_matrices(std::map<std::string, FileValues>& files,
                           std::vector<std::string>& problems) const;

  fs::path directory_;
  model::ModelSpec model_;
  std::map<std::string, std::vector<float>> values_;  // by canonical name
};

// What AdapterFiles::read() does with values by canonical name.
void fill_held(const std::map<std::string, std::vector<float>>& values, const HeldParameters& rank,
               const std::function<TensorView(nn::ParamId)>& target,
               const std::function<void(nn::ParamId)>& filled);

// The tensors of an adapter to be written, and their bytes. `source` is as in write_model().
std::vector<ckpt::TensorEntry> adapter_entries(const model::ModelSpec& spec, DType type);
void write_adapter(ckpt::ShardedWriter& writer, const model::ModelSpec& spec, DType type,
                   const std::function<TensorView(const std::string& canonical)>& source);

}  // namespace stoa::infer
