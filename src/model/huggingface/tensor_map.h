// Names, shapes and order of a family's tensors in files, and how they are made of canonical tensors: pure
// data, and loops that move bytes between the two forms.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/huggingface/family.h"

namespace stoa::model::huggingface {

struct Tensor {
  std::string name;
  Shape shape;  // in the file
  std::vector<CanonicalTensor> parts;
  std::vector<RowRun> runs;  // of the file, of its transpose where it is transposed
  bool transposed = false;
  // More than 1: the shape's first dimension. The parts are those of expert 0, then of expert 1; `runs` are
  // of one expert.
  std::int64_t experts = 1;
  std::string also;            // another name in files, or empty
  bool zero_centered = false;  // the file holds the values minus 1
};

// Every tensor that a file of this model holds, in the order of layers. A tied head is not among them.
std::vector<Tensor> tensors(const Gpt& gpt, const Family& family);

// Moves rows between canonical tensors (dense, row-major) and the file's layout; both of `type`.
using ReadPart = std::function<const std::byte*(const CanonicalTensor&)>;
using WritePart = std::function<std::byte*(const CanonicalTensor&)>;
void gather(const Tensor& tensor, DType type, const ReadPart& canonical, std::byte* file);
void scatter(const Tensor& tensor, DType type, const std::byte* file, const WritePart& canonical);

// What a file offers.
struct FileTensor {
  std::string name;
  Shape shape;
};
struct Match {
  std::vector<std::string> names;  // file's name of every wanted tensor; "": the head's, which may be missing
  // The model is tied, and the file holds a head beside the embedding: where the two differ, transformers 5
  // keeps both.
  std::optional<std::string> head_beside_tied;
  std::vector<std::string> ignored;  // tensors that nobody needs (NameMap::needless)
};
// Finds every wanted tensor, with or without the family's prefix. DataError lists what is missing, unexpected
// or of another shape. Where the model is tied, the embedding may be given under the head's name.
// `head_optional`: what the files lack of the head is not missing.
Match match(std::span<const Tensor> wanted, std::span<const FileTensor> file, const Family& family,
            const ModelConfig& config, bool head_optional = false);

}  // namespace stoa::model::huggingface
