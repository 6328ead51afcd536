// The metadata of a GGUF file in the form in which an architecture reads and writes it: an object with the
// keys of the architecture without its name ("block_count"), the vocabulary's size, values of the tensors
// that scale rotary frequencies, and "holds.…": whether the file has an output matrix and biases.
#pragma once

#include "formats/gguf/gguf_file.h"
#include "model/gguf/architecture.h"

namespace stoa::model::gguf {

// The model that the file holds: the architecture as family, its configuration, its special tokens.
// ConfigError, DataError name the file.
huggingface::ModelDescription read_model(const ::stoa::gguf::File& file);

// The keys of a file of the model under the architecture's name: general.architecture and those of the
// architecture. Tensors of rotary factors are in `factors`, by name.
struct Written {
  ::stoa::gguf::Keys keys;
  std::vector<std::pair<std::string, std::vector<double>>> factors;
};
Written write_model(const ModelSpec& spec, const Family& architecture);

}  // namespace stoa::model::gguf
