#include "infer/held_matrices.h"

#include <map>

#include "formats/gguf/gguf_file.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::infer {
namespace {

namespace hf = model::huggingface;

// Where the rows of a canonical matrix are in the file.
struct FileRows {
  const gguf::Tensor* tensor = nullptr;
  std::vector<std::int64_t> rows;  // of the tensor, by row of the matrix
};

std::map<std::string, FileRows> rows_in_file(const gguf::File& file, const std::vector<hf::Tensor>& tensors) {
  std::map<std::string, FileRows> out;
  for (const hf::Tensor& tensor : tensors) {
    const gguf::Tensor* stored = file.find(tensor.name);
    if (!stored || tensor.shape.rank() != 2 || tensor.transposed || tensor.experts != 1 || tensor.zero_centered ||
        stored->format->numbers == 1)
      continue;
    for (const hf::RowRun& run : tensor.runs) {
      const model::CanonicalTensor& part = tensor.parts[run.part];
      FileRows& rows = out[part.name];
      rows.tensor = stored;
      rows.rows.resize(static_cast<std::size_t>(part.shape[0]), -1);
      for (std::int64_t i = 0; i < run.rows; ++i)
        rows.rows[static_cast<std::size_t>(run.row + i)] = run.file_row + i * run.file_step;
    }
  }
  return out;
}

// The rows of a parameter in memory order; none: not all of them are quantised rows of the file.
std::vector<ops::QuantisedRow> rows_of(const ShardSpec& shard, const std::map<std::string, FileRows>& found) {
  std::int64_t count = 0;
  for (const ShardPiece& piece : shard.pieces) count = std::max(count, piece.memory_row + piece.count);
  std::vector<ops::QuantisedRow> out(static_cast<std::size_t>(count));
  for (const ShardPiece& piece : shard.pieces) {
    const auto rows = found.find(piece.name);
    if (rows == found.end() || piece.global.rank() != 2) return {};
    const gguf::Tensor& tensor = *rows->second.tensor;
    for (std::int64_t i = 0; i < piece.count; ++i) {
      const std::int64_t row = rows->second.rows[static_cast<std::size_t>(piece.begin + i)];
      if (row < 0) return {};
      out[static_cast<std::size_t>(piece.memory_row + i)] = {
          tensor.format, tensor.bytes.data() + row * tensor.format->row_bytes(tensor.columns())};
    }
  }
  for (const ops::QuantisedRow& row : out)
    if (!row.format) return {};
  return out;
}

}  // namespace

std::vector<bool> hold_matrices(ops::QuantisedMemory& memory, const std::filesystem::path& path,
                                const model::ModelSpec& model, const hf::Family& family,
                                optim::ParameterStore& parameters) {
  const gguf::File file(path);
  const auto found = rows_in_file(file, hf::tensors(model, family));
  const auto& specs = parameters.specs();
  std::vector<bool> out(specs.size());
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const ShardSpec& shard = specs[p].shard;
    if (shard.local.rank() != 2 || shard.flat) continue;
    const auto rows = rows_of(shard, found);
    out[p] = !rows.empty() && memory.hold(parameters.get({static_cast<int>(p)}), rows);
  }
  return out;
}

}  // namespace stoa::infer
