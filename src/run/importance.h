// How much each input of a model's matrices matters: the mean square of what the layers multiply them with on
// calibration texts. Encoders of quantised formats weigh errors by it, pruning leaves out what matters least.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "infer/open_model.h"

namespace stoa::run {

// By canonical name of the matrix; as many values as it has inputs.
using Importance = std::map<std::string, std::vector<float>>;

struct Calibration {
  Importance matrices;
  // How much each layer changes the stream: 1 minus the mean cosine of a token's vector before and behind it
  // (Men et al. 2024, block influence). None where layers do not begin with a norm of the stream.
  std::vector<double> layers;
};

// Reads `read_ids(model)` in windows that the model can read. `open` opens the model with the machine that it
// is given. ConfigError: not a decoder.
Calibration measure_importance(const std::function<infer::OpenModel(infer::MakeMachine)>& open,
                               const infer::MakeMachine& make_machine,
                               const std::function<std::vector<std::int32_t>(infer::OpenModel&)>& read_ids);

}  // namespace stoa::run
