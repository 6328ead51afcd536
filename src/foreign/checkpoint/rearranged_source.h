// The tensors of a model as another family of files names and arranges them: views, no copies.
#pragma once

#include <memory>

#include "ckpt/tensor_source.h"
#include "model/huggingface/family.h"

namespace stoa::foreign {

// `source` holds tensors of `spec` in the form of `from`, or some of them; the result has those of `to` whose
// parts are all there. With stoa_family() they are the canonical tensors. Null: a tensor of either form is
// stored minus 1, which a view cannot show, or one of `to` transposed, which would be slow.
std::unique_ptr<ckpt::TensorSource> rearranged(std::shared_ptr<const ckpt::TensorSource> source,
                                               const model::ModelSpec& spec,
                                               const model::huggingface::Family& from,
                                               const model::huggingface::Family& to);

// All of `first`, and what `rest` has besides.
std::unique_ptr<ckpt::TensorSource> united(std::shared_ptr<const ckpt::TensorSource> first,
                                           std::shared_ptr<const ckpt::TensorSource> rest);

}  // namespace stoa::foreign
