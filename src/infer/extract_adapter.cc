#include "infer/extract_adapter.h"

#include <algorithm>
#include <cmath>

#include "ckpt/adapter_directory.h"
#include "ckpt/export_model.h"
#include "infer/adapter_files.h"
#include "infer/truncated_svd.h"
#include "model/huggingface/adapter_config.h"

namespace stoa::infer {

namespace hf = model::huggingface;

namespace {

using Values = std::map<std::string, std::vector<float>>;  // by canonical name

// tuned - base of a canonical tensor; empty: equal.
std::vector<float> difference(const ModelFiles& tuned, const ModelFiles& base, const std::string& name) {
  std::vector<float> out = tuned.floats(name);
  const std::vector<float> other = base.floats(name);
  bool same = true;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] -= other[i], same = same && out[i] == 0;
  if (same) out.clear();
  return out;
}

void require_same_shape(const ModelFiles& tuned, const ModelFiles& base) {
  std::map<std::string, Shape> shapes;
  for (const auto& tensor : model::canonical_tensors(base.model())) shapes.emplace(tensor.name, tensor.shape);
  const auto others = model::canonical_tensors(tuned.model());
  bool same = others.size() == shapes.size();
  for (const auto& tensor : others) {
    const auto found = shapes.find(tensor.name);
    same = same && found != shapes.end() && found->second == tensor.shape;
  }
  require<ConfigError>(same, "'{}' and '{}' are models of different shapes: an adapter is of one shape",
                       tuned.directory().string(), base.directory().string());
}

// Splits the rows of B among the pieces of a module.
void add_values(const model::LinearModule& module, std::int64_t rank, LowRankProduct product,
                Values& values) {
  auto row = product.left.begin();
  for (const auto& piece : module.pieces) {
    values[piece.name + ".lora_B.weight"].assign(row, row + piece.outputs * rank);
    row += piece.outputs * rank;
  }
  values[module.name + ".lora_A.weight"] = std::move(product.right);
}

}  // namespace

ExtractReport extract_adapter(const ModelFiles& tuned, const ModelFiles& base, std::int64_t rank,
                              const std::filesystem::path& output, WorkerPool& pool) {
  require_same_shape(tuned, base);
  const hf::Family& family = *base.description().family;
  ExtractReport report;
  Values values;
  std::set<std::string> paths;
  std::set<std::string> linear;  // canonical matrices
  double all = 0, kept = 0;
  for (const model::LinearModule& module : model::linear_modules(base.model(), family)) {
    std::vector<float> delta;
    for (const auto& piece : module.pieces) {
      const std::string name = piece.name + ".weight";
      linear.insert(name);
      std::vector<float> part = difference(tuned, base, name);
      part.resize(static_cast<std::size_t>(piece.outputs * module.inputs));
      delta.insert(delta.end(), part.begin(), part.end());
    }
    double squares = 0;
    for (const float x : delta) squares += static_cast<double>(x) * x;
    if (squares == 0 || module.rows.empty()) continue;
    const std::int64_t most = std::min(module.outputs(), module.inputs);
    require<ConfigError>(rank <= most, "rank {} is above that of '{}', a matrix [{}, {}]: give at most {}",
                         rank, module.path, module.outputs(), module.inputs, most);
    LowRankProduct product = truncated_svd(delta, module.outputs(), module.inputs, rank, pool);
    all += squares, kept += product.squares;
    ++report.modules;
    if (const double share = std::sqrt(std::min(1.0, product.squares / squares));
        report.worst.empty() || share < report.worst_kept)
      report.worst = module.path, report.worst_kept = share;
    paths.insert(module.path);
    add_values(module, rank, std::move(product), values);
  }
  for (const auto& tensor : model::canonical_tensors(base.model()))
    if (!linear.contains(tensor.name) && !difference(tuned, base, tensor.name).empty())
      report.others.push_back(tensor.name);
  require<ConfigError>(report.modules > 0, "the linear layers of '{}' and '{}' do not differ",
                       tuned.directory().string(), base.directory().string());
  report.kept = std::sqrt(std::min(1.0, kept / all));

  model::ModelConfig config = base.model().config;
  config.peft.peft_scheme = model::PeftScheme::kLora;
  config.peft.base_model_type = family.type;
  config.peft.lora.adapter_dim = rank;
  config.peft.lora.alpha = static_cast<double>(rank);
  config.peft.lora.target_modules.assign(paths.begin(), paths.end());
  const model::ModelSpec spec = model::resolve_model(config, base.model().vocabulary);
  const fs::path model = fs::absolute(base.directory()).lexically_normal();
  ckpt::ExportContent content{hf::write_adapter_config(spec, model.string()),
                              adapter_entries(spec, DType::kF32), [&](ckpt::ShardedWriter& writer) {
                                write_adapter(writer, spec, DType::kF32, [&](const std::string& name) {
                                  auto& own = values[name];
                                  // The experts of a layer that are one tensor and do not differ.
                                  if (own.empty())
                                    for (const auto& tensor : model::canonical_tensors(spec))
                                      if (tensor.name == name)
                                        own.resize(static_cast<std::size_t>(tensor.shape.elements()));
                                  return TensorView(own.data(), DType::kF32,
                                                    {static_cast<std::int64_t>(own.size())});
                                });
                              }};
  content.stem = ckpt::kAdapterStem;
  content.config_name = hf::kAdapterConfig;
  content.texts.push_back(
      {ckpt::kAdapterBase, ckpt::adapter_base_text({model, ckpt::tensors_checksum(model)})});
  ckpt::export_content({}, content, output);
  return report;
}

}  // namespace stoa::infer
