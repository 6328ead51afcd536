#include "infer/read_weights.h"

#include <cmath>
#include <map>
#include <vector>

#include "nn/low_rank.h"
#include "nn/token_rows.h"

namespace stoa::infer {

namespace {

template <class Files>
void read_files(Machine& machine, const Files& files, const HeldParameters& rank,
                const std::function<TensorView(nn::ParamId)>& memory) {
  std::map<int, std::vector<std::byte>> staging;
  const bool on_host = machine.device->kind() == DeviceKind::kHost;
  files.read(
      rank,
      [&](nn::ParamId id) {
        const TensorView tensor = memory(id);
        if (on_host) return tensor;
        auto& bytes = staging[id.index];
        bytes.resize(tensor.bytes());
        return TensorView(bytes.data(), tensor.dtype, tensor.shape);
      },
      [&](nn::ParamId id) {
        if (on_host) return;
        const auto bytes = staging.extract(id.index);
        machine.device->copy_from_host(memory(id).data, bytes.mapped().data(), bytes.mapped().size(),
                                       *machine.stream);
        machine.stream->synchronize();
      });
}

// The norms of the rows of a canonical matrix.
std::vector<float> row_norms(const ModelFiles& files, const std::string& matrix, std::int64_t rows) {
  const std::vector<float> weights = files.floats(matrix);
  std::vector<float> out;
  const std::size_t columns = weights.size() / static_cast<std::size_t>(rows);
  for (auto row = weights.begin(); row != weights.end(); row += static_cast<std::ptrdiff_t>(columns)) {
    double squares = 0;
    for (std::size_t c = 0; c < columns; ++c) squares += static_cast<double>(row[c]) * row[c];
    out.push_back(static_cast<float>(std::sqrt(squares)));
  }
  return out;
}

// Rows of a canonical matrix.
std::vector<float> rows_of(const ModelFiles& files, const std::string& matrix,
                           const std::vector<std::int64_t>& tokens, std::int64_t columns) {
  const std::vector<float> all = files.floats(matrix);
  std::vector<float> out;
  for (const std::int64_t token : tokens) {
    const auto row = all.begin() + token * columns;
    out.insert(out.end(), row, row + columns);
  }
  return out;
}

struct StartValues {
  const ModelFiles& files;
  const std::vector<std::int64_t>& tokens;

  void read(const HeldParameters& rank, const std::function<TensorView(nn::ParamId)>& target,
            const std::function<void(nn::ParamId)>& filled) const {
    constexpr std::string_view kEnd = nn::LowRank::kMagnitude;
    std::map<std::string, std::vector<float>> values;
    for (const ShardSpec& part : rank.parts)
      for (const ShardPiece& piece : part.pieces)
        if (piece.name.ends_with(kEnd)) {
          const std::string layer = piece.name.substr(0, piece.name.size() - kEnd.size());
          values[piece.name] = row_norms(files, layer + ".weight", piece.global[0]);
        } else if (piece.name == nn::TokenRows::kEmbedding || piece.name == nn::TokenRows::kHead) {
          const bool head = piece.name == nn::TokenRows::kHead;
          values[piece.name] =
              rows_of(files, head ? "head.weight" : "embedding.tokens.weight", tokens, piece.global[1]);
        }
    fill_held(values, rank, target, filled);
  }
};

}  // namespace

void read_start_values(Machine& machine, const ModelFiles& files, const model::AdapterPlan& plan,
                       const HeldParameters& rank, const std::function<TensorView(nn::ParamId)>& memory) {
  read_files(machine, StartValues{files, plan.token_rows()}, rank, memory);
}

void read_weights(Machine& machine, const ModelFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory) {
  read_files(machine, files, rank, memory);
}

void read_weights(Machine& machine, const AdapterFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory) {
  read_files(machine, files, rank, memory);
}

}  // namespace stoa::infer
