// Which layers of a model are adapted, how, and what is trained: model.peft, resolved for one model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/linear_module.h"
#include "model/model_spec.h"
#include "nn/adapter_policy.h"
#include "nn/bottleneck.h"

namespace stoa::model {

struct AdaptedModule {
  LinearModule linear;
  std::int64_t rank = 0;
  double alpha = 0, scale = 0;
  bool inputs = false;  // of IA3: its inputs have the factors
};

class AdapterPlan final : public nn::AdapterPolicy {
 public:
  // ConfigError: a target that the model does not have (the nearest is named), a pattern without effect,
  // a matrix that cannot be adapted.
  explicit AdapterPlan(const ModelSpec& base);

  const PeftConfig& config() const { return config_; }
  const huggingface::Family& family() const { return *family_; }
  const std::vector<AdaptedModule>& modules() const { return modules_; }
  bool adapts(const std::string& piece) const { return module_of_.contains(piece); }
  // Whether the embedding or the head has a branch. Where they are tied, merging unties them.
  bool adapts_tokens() const;
  // Whether the embedding is trained in full, and is the head of `base`, too.
  bool saves_tied_embedding(const ModelSpec& base) const;
  // Tensors of the model itself that are trained, by canonical name.
  bool trains_base(const std::string& name) const;
  // ParamSpec::trained of a parameter. ConfigError: only some of what is held in one tensor is trained.
  bool trains(const nn::ParamSpec& spec) const;

  std::vector<nn::LowRankBranch> branches(const std::vector<std::string>& pieces) const override;
  // ConfigError: inputs are scaled of only some of what is held in one matrix.
  std::vector<nn::Rescaling> rescalings(const std::vector<std::string>& pieces) const override;
  std::int64_t virtual_tokens() const override { return config_.virtual_count(); }
  std::optional<nn::PromptOptions> prompt() const override;
  std::optional<nn::PrefixOptions> prefix() const override;
  // The bottleneck of a branch of a layer; none: it has none. `block`: the layer's name ("layers.0"); layers
  // of an encoder-decoder count from the first of its encoder.
  struct Branch {
    std::int64_t layer = 0;
    std::string block;
    bool attention = false;
  };
  std::optional<nn::BottleneckOptions> bottleneck(const Branch& branch,
                                                  const parallel::TensorPlace& place) const;
  const std::vector<std::int64_t>& token_rows() const override { return token_rows_; }
  bool head_rows() const override { return config_.trainable_token_head; }
  quant::PackedKind base_kind() const;

 private:
  // ConfigError: a kind of model in which virtual tokens have no place.
  void check_virtual_tokens(const ModelSpec& base) const;
  // ConfigError: a model whose base cannot be held in fewer bits.
  void check_quantized(const ModelSpec& base) const;
  // ConfigError: a kind of model in which bottlenecks have no place.
  void check_bottlenecks(const ModelSpec& base) const;
  void choose_modules(const ModelSpec& base);
  void choose_rescaled(const ModelSpec& base);
  void choose_trained(const ModelSpec& base);
  // The adapted ones among the modules that a layer of these pieces is made of, in their order.
  std::vector<const AdaptedModule*> modules_of(const std::vector<std::string>& pieces) const;
  void choose_token_rows(const ModelSpec& base);
  const LoraConfig& lora() const { return config_.lora; }

  PeftConfig config_;
  const huggingface::Family* family_;
  std::vector<AdaptedModule> modules_;
  std::map<std::string, std::size_t> module_of_;  // by piece
  std::map<std::string, bool> trained_;           // canonical tensors of the model that are trained
  std::vector<std::int64_t> token_rows_;
  std::int64_t hidden_ = 0;  // width of the model
};

// Null without model.peft.
std::shared_ptr<const AdapterPlan> plan_adapters(const ModelSpec& base);

}  // namespace stoa::model
