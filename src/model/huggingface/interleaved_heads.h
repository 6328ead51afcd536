// Arrangements of q and k whose rotary pairs stand side by side in files, (x[2i], x[2i+1]), and half of the
// rotated columns apart here, (x[i], x[i + r/2]). Scores do not see an order of columns that q and k share,
// so that one rotary kernel serves both forms.
#pragma once

#include "model/huggingface/name_map.h"

namespace stoa::model::huggingface {

// One part: the projection of q or of k, head by head, of which the first rotary_size() rows rotate.
std::vector<RowRun> interleaved_heads(const ModelConfig& config, const std::vector<CanonicalTensor>& parts);

}  // namespace stoa::model::huggingface
