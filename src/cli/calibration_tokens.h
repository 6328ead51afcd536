// Texts on which a model is measured before it is made smaller.
#pragma once

#include <cstdint>
#include <vector>

#include "data/text_reader.h"
#include "infer/open_model.h"

namespace stoa::cli {

// The first tokens of a text, begun as the model's texts begin. DataError: fewer than two.
std::vector<std::int32_t> calibration_tokens(infer::OpenModel& model, const data::TextFile& text,
                                             std::int64_t most);

}  // namespace stoa::cli
