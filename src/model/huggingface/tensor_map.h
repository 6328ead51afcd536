// Names, shapes and order of a family's tensors in files and how they relate to canonical tensors, and loops
// that copy between the two forms.
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
  std::vector<RowRun> runs;  // rows in the file, or in its transpose if `transposed`
  bool transposed = false;
  // More than 1: the shape's first dimension. `parts` are those of expert 0, then of expert 1, …; `runs`
  // describe a single expert.
  std::int64_t experts = 1;
  std::string also;            // another name in files, or empty
  std::string module;          // the parameter in transformers' modules, if not `name`; or empty
  bool zero_centered = false;  // the file holds the values minus 1
};

// Every tensor in the files of this model, in the order of layers. A tied head is not included, nor are
// adapters.
std::vector<Tensor> tensors(const ModelSpec& spec, const Family& family);

// Copy rows between canonical tensors (dense, row-major) and the file's layout; both of type `type`.
using ReadPart = std::function<const std::byte*(const CanonicalTensor&)>;
using WritePart = std::function<std::byte*(const CanonicalTensor&)>;
void gather(const Tensor& tensor, DType type, const ReadPart& canonical, std::byte* file);
void scatter(const Tensor& tensor, DType type, const std::byte* file, const WritePart& canonical);

// A tensor found in the files.
struct FileTensor {
  std::string name;
  Shape shape;
};
struct Match {
  std::vector<std::string> names;  // every expected tensor's name in the file; "": an optional head
  // The name of a head in the files of a model that is configured as tied: transformers 5 keeps both where it
  // differs from the embedding.
  std::optional<std::string> head_beside_tied;
  std::vector<std::string> ignored;  // tensors that are not needed (NameMap::needless)
};
// Finds every tensor of `wanted`, with or without the family's prefix. DataError lists what is missing,
// unexpected or of a different shape. If the model is tied, the embedding may be stored under the head's
// name. `head_optional`: tensors of the head may be missing.
Match match(std::span<const Tensor> wanted, std::span<const FileTensor> file, const Family& family,
            const ModelConfig& config, bool head_optional = false);

}  // namespace stoa::model::huggingface
