#include "run/prune.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "model/huggingface/config_json.h"

namespace stoa::run {
namespace {

namespace hf = model::huggingface;
using Indices = std::vector<std::int64_t>;

Indices first_numbers(std::int64_t count) {
  Indices out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// The `count` indices of the largest values, ascending; of equal ones the first.
Indices largest(const std::vector<double>& values, std::int64_t count) {
  Indices order = first_numbers(static_cast<std::int64_t>(values.size()));
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

std::string in_layer(std::int64_t layer, const char* name) {
  return fmt::format("layers.{}.{}", layer, name);
}

const std::vector<float>& inputs_of(const Calibration& importance, const std::string& matrix) {
  const auto found = importance.matrices.find(matrix);
  require<ConfigError>(
      found != importance.matrices.end(),
      "the importance of the inputs of '{}' was not measured: this model cannot be pruned so", matrix);
  return found->second;
}

void require_size(std::optional<std::int64_t> wanted, std::int64_t has, const char* what) {
  require<ConfigError>(!wanted || (*wanted >= 1 && *wanted <= has), "{} {}: the model has {}", what,
                       wanted.value_or(0), has);
}

std::int64_t heads_of_group(const model::ModelConfig& c) { return c.num_attention_heads / c.query_groups(); }

void require_prunable(const model::ModelSpec& spec, const PrunedSizes& sizes) {
  const model::ModelConfig& c = spec.config;
  require<ConfigError>(c.kind == model::ModelKind::kGpt, "pruning is for decoders (kind gpt)");
  require_size(sizes.layers, c.num_layers, "--layers");
  require_size(sizes.ffn, c.ffn_size(), "--ffn");
  require_size(sizes.heads, c.num_attention_heads, "--heads");
  require_size(sizes.hidden, c.hidden_size, "--hidden");
  for (std::size_t i = 0; i < sizes.kept_layers.size(); ++i) {
    const std::int64_t layer = sizes.kept_layers[i];
    require<ConfigError>(layer >= 0 && layer < c.num_layers && (i == 0 || layer > sizes.kept_layers[i - 1]),
                         "--keep-layers names layer {}: expected rising numbers from 0 to {}", layer,
                         c.num_layers - 1);
  }
  const bool fewer_layers = sizes.layers.value_or(c.num_layers) < c.num_layers || !sizes.kept_layers.empty();
  require<ConfigError>(!fewer_layers || (c.no_rope_layers.empty() && c.window_layers.empty() &&
                                         !c.window_size && !c.linear.any() && !c.moe.num_moe_experts),
                       "layers of this model differ by their numbers (windows, experts, linear attention): "
                       "none can be left out");
  require<ConfigError>(!sizes.ffn || !c.moe.num_moe_experts, "--ffn: neurons of experts are not pruned");
  require<ConfigError>(
      (!sizes.heads && !sizes.hidden) || (!c.latent.multi_latent_attention && !c.linear.any()),
      "--heads and --hidden: latent and linear attention are not pruned");
  const std::int64_t together = heads_of_group(c);
  require<ConfigError>(!sizes.heads || *sizes.heads % together == 0,
                       "--heads {}: {} heads share keys and values; expected a multiple",
                       sizes.heads.value_or(0), together);
}

std::vector<double> group_importance(const model::ModelConfig& c, const std::vector<float>& columns) {
  const std::int64_t groups = c.query_groups(), width = std::ssize(columns) / groups;
  std::vector<double> out(static_cast<std::size_t>(groups));
  for (std::size_t i = 0; i < columns.size(); ++i) out[i / static_cast<std::size_t>(width)] += columns[i];
  return out;
}

// What the layers read of each channel, each layer's share alike.
std::vector<double> channel_importance(const model::ModelConfig& c, const Calibration& importance) {
  std::vector<double> out(static_cast<std::size_t>(c.hidden_size));
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer)
    for (const char* matrix : {"attention.q.weight", "mlp.up.weight"}) {
      const auto found = importance.matrices.find(in_layer(layer, matrix));
      if (found == importance.matrices.end()) continue;
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += found->second[i];
    }
  return out;
}

// Which indices of an axis are kept; none: all.
struct Cut {
  const Indices* kept = nullptr;
  std::int64_t width = 1;  // consecutive elements that an index stands for
};

}  // namespace

KeptParts choose_parts(const model::ModelSpec& spec, const PrunedSizes& sizes,
                       const Calibration& importance) {
  require_prunable(spec, sizes);
  const model::ModelConfig& c = spec.config;
  KeptParts out;
  out.layers = sizes.kept_layers.empty() ? first_numbers(c.num_layers) : sizes.kept_layers;
  if (sizes.layers && *sizes.layers < c.num_layers) {
    require<ConfigError>(
        std::ssize(importance.layers) == c.num_layers,
        "--layers: the importance of layers is not known, since they begin with no norm of the "
        "stream; name those to keep (--keep-layers)");
    out.layers = largest(importance.layers, *sizes.layers);
  }
  out.hidden =
      sizes.hidden ? largest(channel_importance(c, importance), *sizes.hidden) : first_numbers(c.hidden_size);
  const std::int64_t together = heads_of_group(c);
  for (const std::int64_t layer : out.layers) {
    const auto most = [&](const char* matrix, std::int64_t count, bool groups) {
      const std::vector<float>& inputs = inputs_of(importance, in_layer(layer, matrix));
      return largest(groups ? group_importance(c, inputs) : std::vector<double>(inputs.begin(), inputs.end()),
                     count);
    };
    out.ffn.push_back(sizes.ffn ? most("mlp.down.weight", *sizes.ffn, false) : first_numbers(c.ffn_size()));
    out.groups.push_back(sizes.heads ? most("attention.out.weight", *sizes.heads / together, true)
                                     : first_numbers(c.query_groups()));
  }
  return out;
}

namespace {

model::ModelSpec pruned_spec(const model::ModelSpec& spec, const KeptParts& parts) {
  model::ModelConfig c = spec.config;
  const std::int64_t together = heads_of_group(c), head = c.head_size();
  c.num_layers = std::ssize(parts.layers);
  if (!c.moe.num_moe_experts) c.ffn_hidden_size = std::ssize(parts.ffn.front());
  c.num_query_groups = std::ssize(parts.groups.front());
  c.num_attention_heads = *c.num_query_groups * together;
  c.kv_channels = head;
  c.hidden_size = std::ssize(parts.hidden);
  return model::resolve_model(c, spec.vocabulary);
}

// Finds the part of the larger model's tensors that a tensor of the smaller one is.
class Cutter {
 public:
  Cutter(const model::ModelConfig& from, const KeptParts& parts) : from_(from), parts_(parts) {}

  // "layers.1.…" of the smaller model is "layers.3.…" of the larger.
  std::string name_of(const std::string& name) {
    constexpr std::string_view kLayers = "layers.";
    if (!name.starts_with(kLayers)) return name;
    const std::size_t end = name.find('.', kLayers.size());
    place_ = std::stoul(name.substr(kLayers.size(), end - kLayers.size()));
    return fmt::format("layers.{}{}", parts_.layers[place_], name.substr(end));
  }

  // Axis of a tensor of that name (in its layer), of size `before` where it was, and of `after`.
  Cut cut(const std::string& name, int axis, std::int64_t before, std::int64_t after) const {
    if (before == after) return {};
    const auto ends = [&](const char* end) { return name.ends_with(end); };
    const bool rows = axis == 0;
    const std::int64_t head = from_.head_size(), together = heads_of_group(from_);
    if (rows
            ? ends("mlp.up.weight") || ends("mlp.gate.weight") || ends("mlp.up.bias") || ends("mlp.gate.bias")
            : ends("mlp.down.weight"))
      return {&parts_.ffn[place_], 1};
    if (rows && (ends("attention.k.weight") || ends("attention.v.weight") || ends("attention.k.bias") ||
                 ends("attention.v.bias")))
      return {&parts_.groups[place_], head};
    if (rows ? ends("attention.q.weight") || ends("attention.q.bias") || ends("attention.gate.weight")
             : ends("attention.out.weight"))
      return {&parts_.groups[place_], head * together};
    require<ConfigError>(before == from_.hidden_size && after == std::ssize(parts_.hidden),
                         "tensor '{}' has {} and would have {}: this model cannot be pruned so", name, before,
                         after);
    return {&parts_.hidden, 1};
  }

 private:
  const model::ModelConfig& from_;
  const KeptParts& parts_;
  std::size_t place_ = 0;  // of the layer last named
};

// Rows and columns of a matrix, or elements of a vector.
std::vector<float> take(const std::vector<float>& from, const Shape& shape, const Cut& rows,
                        const Cut& columns) {
  const std::int64_t width = shape.rank() > 1 ? shape.elements() / shape[0] : 1;
  std::vector<float> out;
  const auto each = [](const Cut& cut, std::int64_t count, const auto& use) {
    if (!cut.kept) {
      use(0, count);
      return;
    }
    for (const std::int64_t index : *cut.kept) use(index * cut.width, cut.width);
  };
  each(rows, shape[0], [&](std::int64_t row, std::int64_t count) {
    for (std::int64_t r = row; r < row + count; ++r)
      each(columns, width, [&](std::int64_t column, std::int64_t many) {
        const auto begin = from.begin() + r * width + column;
        out.insert(out.end(), begin, begin + many);
      });
  });
  return out;
}

}  // namespace

ckpt::ExportResult write_pruned(const infer::ModelFiles& files, const KeptParts& parts, DType type,
                                const std::filesystem::path& output, const ckpt::ExportProgress& progress) {
  const model::ModelSpec& from = files.model();
  const model::ModelSpec spec = pruned_spec(from, parts);
  const hf::Family& family = hf::family_for(files.description().family->type, spec.config);
  std::map<std::string, Shape> before, after;
  for (const auto& tensor : model::canonical_tensors(from)) before.emplace(tensor.name, tensor.shape);
  for (const auto& tensor : model::canonical_tensors(spec)) after.emplace(tensor.name, tensor.shape);
  Cutter cutter(from.config, parts);
  std::map<std::string, std::vector<float>> alive;
  const auto source = [&](const std::string& name) {
    const std::string old = cutter.name_of(name);
    const Shape &was = before.at(old), &is = after.at(name);
    const bool matrix = was.rank() > 1;
    auto& values = alive[name];
    values = take(files.floats(old), was, cutter.cut(name, 0, was[0], is[0]),
                  matrix ? cutter.cut(name, 1, was[1], is[1]) : Cut{});
    require<InternalError>(std::ssize(values) == is.elements(), "'{}' is cut to {} of {}", name,
                           values.size(), is.elements());
    return TensorView(values.data(), DType::kF32, {std::ssize(values)});
  };
  const std::vector<ckpt::TensorEntry> entries = infer::model_entries(spec, family, type);
  std::uint64_t total = 0, done = 0;
  for (const auto& entry : entries) total += entry.bytes();
  ckpt::ExportContent content{hf::write_config(spec, family, type, files.description().special), entries,
                              [&](ckpt::ShardedWriter& writer) {
                                auto next = entries.begin();
                                infer::write_model(writer, spec, family, type, source, [&] {
                                  alive.clear();
                                  done += (next++)->bytes();
                                  if (progress) progress(done, total);
                                });
                              }};
  return ckpt::export_content(files.directory(), content, output, ckpt::kDefaultShardBytes, progress);
}

}  // namespace stoa::run
