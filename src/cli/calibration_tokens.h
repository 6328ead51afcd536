// What a model makes of a text, measured before it is made smaller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/machine_factory.h"
#include "data/text_reader.h"
#include "infer/open_model.h"
#include "run/importance.h"

namespace stoa::cli {

// The first tokens of a text, begun as the model's texts begin. DataError: fewer than two.
std::vector<std::int32_t> calibration_tokens(infer::OpenModel& model, const data::TextFile& text,
                                             std::int64_t most);
// On these tokens, in fp32.
run::Calibration measured_on(const std::string& model, const MachineOptions& machine,
                             const data::TextFile& text, std::int64_t tokens);

}  // namespace stoa::cli
