#include "infer/merge_adapter.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/file.h"
#include "ckpt/adapter_directory.h"
#include "ckpt/convert.h"
#include "model/adapter_plan.h"
#include "model/chunk.h"
#include "nn/low_rank.h"
#include "nn/low_rank_rows.h"
#include "nn/rescaled.h"
#include "nn/token_rows.h"

namespace stoa::infer {

namespace hf = model::huggingface;

namespace {

// w [rows, columns] += scale b [rows, rank] a [rank, columns], in fp32.
void add_product(std::vector<float>& w, const float* b, const float* a, std::int64_t rank,
                 std::int64_t columns, double scale, WorkerPool& pool) {
  const std::int64_t rows = static_cast<std::int64_t>(w.size()) / columns;
  pool.run(rows, [&](std::int64_t row, int) {
    float* const out = w.data() + row * columns;
    std::vector<float> sum(static_cast<std::size_t>(columns), 0.0f);
    for (std::int64_t k = 0; k < rank; ++k) {
      const auto factor = static_cast<float>(scale * static_cast<double>(b[row * rank + k]));
      const float* const from = a + k * columns;
      for (std::int64_t c = 0; c < columns; ++c) sum[static_cast<std::size_t>(c)] += factor * from[c];
    }
    for (std::int64_t c = 0; c < columns; ++c) out[c] += sum[static_cast<std::size_t>(c)];
  });
}

// Brings every row of w to its magnitude.
void scale_rows(std::vector<float>& w, const std::vector<float>& magnitudes) {
  const std::size_t columns = w.size() / magnitudes.size();
  for (std::size_t row = 0; row < magnitudes.size(); ++row) {
    float* const out = w.data() + row * columns;
    double squares = 0;
    for (std::size_t c = 0; c < columns; ++c) squares += static_cast<double>(out[c]) * out[c];
    const double factor = squares > 0 ? magnitudes[row] / std::sqrt(squares) : 0;
    for (std::size_t c = 0; c < columns; ++c) out[c] = static_cast<float>(factor * out[c]);
  }
}

// IA3: multiplies rows (or elements of a bias) or columns by their factors.
void rescale(std::vector<float>& w, const std::vector<float>& factors, bool by_columns) {
  const std::size_t width = by_columns ? factors.size() : w.size() / factors.size();
  for (std::size_t i = 0; i < w.size(); ++i) w[i] *= factors[by_columns ? i % width : i / width];
}

// Row i of `rows` takes the place of row tokens[i] of w.
void replace_rows(std::vector<float>& w, const std::vector<float>& rows,
                  const std::vector<std::int64_t>& tokens) {
  const auto columns = static_cast<std::ptrdiff_t>(rows.size() / tokens.size());
  auto from = rows.begin();
  for (const std::int64_t token : tokens) {
    std::copy(from, from + columns, w.begin() + token * columns);
    from += columns;
  }
}

// Adds up what single tensors gained and lost.
class Losses {
 public:
  void add(const std::string& name, const std::vector<float>& before, const std::vector<float>& merged,
           const std::vector<float>& rounded) {
    double added = 0, lost = 0, base = 0;
    bool same = true;
    for (std::size_t i = 0; i < merged.size(); ++i) {
      const double gain = static_cast<double>(merged[i]) - before[i],
                   loss = static_cast<double>(rounded[i]) - merged[i];
      added += gain * gain, lost += loss * loss, base += static_cast<double>(before[i]) * before[i];
      same = same && rounded[i] == before[i];
    }
    if (added == 0) return;
    ++report_.changed;
    if (same) ++report_.vanished;
    added_ += added, lost_ += lost, base_ += base;
    if (const double share = std::sqrt(lost / added); share > report_.worst_lost || report_.worst.empty())
      report_.worst_lost = share, report_.worst = name;
  }
  MergeReport report(ckpt::ExportResult files) {
    report_.files = files;
    if (added_ > 0) report_.lost = std::sqrt(lost_ / added_);
    if (base_ > 0) report_.added = std::sqrt(added_ / base_);
    return report_;
  }

 private:
  MergeReport report_;
  double added_ = 0, lost_ = 0, base_ = 0;
};

// Where a config.json says how weights are quantised.
constexpr const char* kQuantisations[] = {"quantization_config", "compression_config"};

bool has_quantised_files(const fs::path& model) {
  const auto json = nlohmann::json::parse(read_text(model / "config.json"));
  return std::any_of(std::begin(kQuantisations), std::end(kQuantisations),
                     [&](const char* key) { return json.contains(key) && json[key].is_object(); });
}

// config.json of the model, with as many tokens as it has now. An adapter of a labelled task gives a language
// model another head.
std::string config_of(const ModelFiles& base, const model::ModelSpec& merged, DType type) {
  const hf::ModelDescription& stored = base.description();
  if (!base.fresh().empty()) return hf::write_config(merged, *stored.family, type, stored.special);
  auto json = nlohmann::ordered_json::parse(ckpt::config_with_type(base.directory() / "config.json", type));
  auto& text = json.contains("vocab_size") || !json.contains("text_config") ? json : json["text_config"];
  text["vocab_size"] = merged.vocabulary;
  for (const char* key : kQuantisations) json.erase(key);  // the merged weights are plain numbers
  if (base.model().config.ties_head() && !merged.config.ties_head())
    json["tie_word_embeddings"] = text["tie_word_embeddings"] = false;
  return json.dump(2) + "\n";
}

// The matrices that were packed while the adapter was trained, by canonical name.
class PackedBase {
 public:
  // `format`: of ckpt::AdapterBase.
  PackedBase(const model::ModelSpec& adapted, const std::string& format) {
    model::ModelConfig config = adapted.config;
    config.peft.quantize_base = model::base_format(format);
    if (config.peft.quantize_base == model::BaseFormat::kNone) return;
    const auto chunk = model::whole_chunk(model::resolve_model(config, adapted.vocabulary));
    for (const nn::ParamSpec& spec : chunk.params().specs())
      for (const ShardPiece& piece : spec.shard.pieces)
        if (spec.is_packed()) kinds_[piece.name] = {spec.packed, piece.global[1]};
  }

  // Replaces the numbers of a matrix by those that it had in training.
  void replace(const std::string& name, std::vector<float>& numbers) const {
    const auto found = kinds_.find(name);
    if (found == kinds_.end()) return;
    quant::pass_through(found->second.first, numbers, found->second.second);
  }

 private:
  std::map<std::string, std::pair<quant::PackedKind, std::int64_t>> kinds_;
};

// The model that is written. A branch of the embedding or of the head changes one of two tied matrices.
model::ModelSpec merged_model(const ModelFiles& base, const model::AdapterPlan& plan) {
  model::ModelSpec out = base.model();
  if (!plan.adapts_tokens() || !out.config.ties_head()) return out;
  require<ConfigError>(
      out.config.kind == model::ModelKind::kGpt,
      "the branch of the embedding cannot be merged: '{}' has the same matrix as its head, and "
      "{} models cannot hold two; use the adapter with --adapter",
      base.directory().string(), base.description().family->type);
  out.config.share_embeddings_and_output_weights = false;
  return out;
}

// The tokenizer and the tokens that end answers, where an adapter has its own.
std::vector<ckpt::SmallFile> own_files_of(const fs::path& adapter) {
  static const std::set<std::string> kNames{
      "tokenizer.json", "tokenizer_config.json",   "tokenizer.model",   "vocab.json",
      "merges.txt",     "special_tokens_map.json", "added_tokens.json", "generation_config.json"};
  std::vector<ckpt::SmallFile> out;
  for (const std::string& name : ckpt::small_file_names(adapter))
    if (kNames.contains(name) || ckpt::is_chat_template(name))
      out.push_back({name, read_text(adapter / name)});
  return out;
}

}  // namespace

MergeReport merge_adapter(const ModelFiles& base, const AdapterFiles& adapter, DType type,
                          const std::filesystem::path& output, std::uint64_t max_shard_bytes,
                          WorkerPool& pool, const ckpt::ExportProgress& progress) {
  const model::AdapterPlan& plan = *adapter.model().adapters;
  require<ConfigError>(
      fs::is_directory(base.directory()),
      "'{}' is one file: write it as a directory first (stoa checkpoint export), and merge into that",
      base.directory().string());
  require<ConfigError>(plan.virtual_tokens() == 0,
                       "an adapter of virtual tokens adds no values to weights: use it with --adapter");
  require<ConfigError>(
      !plan.config().is_bottleneck(),
      "bottlenecks are layers of their own, with a function in them: they cannot be merged into "
      "weights; use the adapter with --adapter");
  const hf::Family& family = *base.description().family;
  // By piece: its module.
  std::map<std::string, const model::AdaptedModule*> modules;
  for (const model::AdaptedModule& module : plan.modules())
    for (const auto& piece : module.linear.pieces) modules[piece.name] = &module;

  const auto recorded = ckpt::read_adapter_base(adapter.directory());
  const std::string quantized = recorded ? recorded->quantized : "none";
  const PackedBase packed(adapter.model(), quantized);
  const model::ModelSpec written = merged_model(base, plan);
  const bool untied = base.model().config.ties_head() && !written.config.ties_head();

  Losses losses;
  std::map<std::string, std::vector<float>> tensors;  // alive until the tensor of the file is written
  const auto merged = [&](const std::string& name) {
    auto& values = tensors[name];
    const std::vector<float>* const replaced = adapter.find(name);
    if (!base.fresh().contains(name))
      values = base.floats(untied && name == "head.weight" ? "embedding.tokens.weight" : name);
    packed.replace(name, values);
    const std::vector<float> before = replaced && values.empty() ? *replaced : values;
    if (replaced) values = *replaced;
    for (const auto& [matrix, rows] : {std::pair("embedding.tokens.weight", nn::TokenRows::kEmbedding),
                                       std::pair("head.weight", nn::TokenRows::kHead)})
      if (const std::vector<float>* own = adapter.find(rows); own && name == matrix)
        replace_rows(values, *own, plan.token_rows());
    const std::string piece = name.substr(0, name.rfind('.'));
    const auto module = modules.find(piece);
    const bool matrix = name.ends_with(".weight");
    if (module != modules.end() && plan.config().is_ia3()) {
      const model::AdaptedModule& m = *module->second;
      // Factors of inputs are those of the whole module.
      if (matrix || !m.inputs)
        rescale(values, *adapter.find((m.inputs ? m.linear.name : piece) + nn::Rescaled::kSuffix), m.inputs);
    } else if (module != modules.end() && matrix) {
      const model::AdaptedModule& m = *module->second;
      // Those of an embedding are held transposed: W^T += B A.
      const bool rows = m.linear.kind == model::ModuleKind::kEmbedding;
      add_product(values, adapter.find(piece + (rows ? nn::LowRankRows::kA : ".lora_B.weight"))->data(),
                  adapter.find(m.linear.name + (rows ? nn::LowRankRows::kB : ".lora_A.weight"))->data(),
                  m.rank, m.linear.inputs, m.scale, pool);
      if (const auto* magnitudes = adapter.find(piece + nn::LowRank::kMagnitude))
        scale_rows(values, *magnitudes);
    }
    std::vector<float> rounded(values.size());
    std::vector<std::byte> stored(values.size() * size_of(type));
    const auto count = static_cast<std::int64_t>(values.size());
    ckpt::convert_elements(reinterpret_cast<const std::byte*>(values.data()), DType::kF32, stored.data(),
                           type, count);
    ckpt::convert_elements(stored.data(), type, reinterpret_cast<std::byte*>(rounded.data()), DType::kF32,
                           count);
    require<DataError>(ckpt::count_non_finite(stored.data(), type, count) == 0,
                       "merged weights of '{}' are beyond the range of {}: give --dtype fp32 or bf16", name,
                       name_of(type));
    losses.add(name, before, values, rounded);
    return TensorView(values.data(), DType::kF32, {count});
  };
  std::vector<ckpt::TensorEntry> entries = model_entries(written, family, type);
  std::uint64_t total = 0, done = 0;
  for (const auto& entry : entries) total += entry.bytes();
  ckpt::ExportContent content{config_of(base, written, type), entries, [&](ckpt::ShardedWriter& writer) {
                                auto next = entries.begin();
                                write_model(writer, written, family, type, merged, [&] {
                                  tensors.clear();
                                  done += (next++)->bytes();
                                  if (progress) progress(done, total);
                                });
                              }};
  content.texts = own_files_of(adapter.directory());
  MergeReport report =
      losses.report(ckpt::export_content(base.directory(), content, output, max_shard_bytes, progress));
  report.quantized = quantized;
  report.from_quantised_files = has_quantised_files(base.directory());
  return report;
}

}  // namespace stoa::infer
