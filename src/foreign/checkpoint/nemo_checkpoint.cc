#include "foreign/checkpoint/nemo_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/tar_files.h"
#include "ckpt/torch/distributed_checkpoint.h"
#include "ckpt/torch/torch_tree.h"
#include "config/interpolation.h"
#include "config/reader.h"
#include "config/yaml.h"
#include "foreign/checkpoint/megatron_checkpoint.h"
#include "foreign/checkpoint/megatron_model.h"
#include "foreign/checkpoint/rank_files.h"
#include "foreign/nemo/translation.h"
#include "foreign/nemo2/recipe.h"

namespace stoa::foreign {
namespace {

using ckpt::FileSet, config::Node;

constexpr std::string_view kWeightsFile = "model_weights.ckpt", kWeightsFolder = "model_weights";

// Number of digits at `text`, which are removed; -1: there are none.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return number;
}

// "mp_rank_01", "mp_rank_01_002" or "tp_rank_01_pp_rank_002": tensor rank and stage.
struct Ranks {
  bool found = false;
  std::int64_t tensor = 0, stage = 0;
};
Ranks ranks_of(std::string_view folder) {
  for (const auto& [before, between] :
       {std::pair<std::string_view, std::string_view>("mp_rank_", "_"), {"tp_rank_", "_pp_rank_"}}) {
    if (!folder.starts_with(before)) continue;
    folder.remove_prefix(before.size());
    const std::int64_t tensor = take_number(folder);
    if (tensor < 0) return {};
    if (folder.empty()) return {true, tensor, 0};
    if (!folder.starts_with(between)) return {};
    folder.remove_prefix(between.size());
    const std::int64_t stage = take_number(folder);
    return {stage >= 0 && folder.empty(), tensor, stage};
  }
  return {};
}

// The parts of a model in files of torch.save.
std::vector<RankFile> rank_files(const std::shared_ptr<const FileSet>& files) {
  std::vector<RankFile> out;
  for (const std::string& name : files->names()) {
    const auto slash = name.find('/');
    Ranks ranks{name == kWeightsFile, 0, 0};
    if (slash != name.npos && name.substr(slash + 1) == kWeightsFile)
      ranks = ranks_of(std::string_view(name).substr(0, slash));
    if (!ranks.found) continue;
    // The tree reads the bytes of the set of files, which lives as long.
    struct Held {
      Held(std::shared_ptr<const FileSet> all, const std::string& name)
          : files(std::move(all)), tree(files->at(name), (files->path() / name).string()) {}
      std::shared_ptr<const FileSet> files;
      ckpt::torch::TorchTree tree;
    };
    const auto held = std::make_shared<const Held>(files, name);
    const std::shared_ptr<const ckpt::torch::TorchTree> tree(held, &held->tree);
    RankFile file{tree, {}, {""}, ranks.tensor, ranks.stage, 0};
    for (const ckpt::TensorEntry* entry : tree->in_order()) file.names.push_back(entry->name);
    out.push_back(std::move(file));
  }
  return out;
}

std::optional<std::int64_t> embedding_rows(const ckpt::TensorSource& source) {
  for (const ckpt::TensorEntry* entry : source.entries())
    if (entry->name.ends_with("embedding.word_embeddings.weight") && entry->shape.size() == 2 &&
        entry->name.find("optimizer") == entry->name.npos)
      return entry->shape[0];
  return std::nullopt;
}

}  // namespace

model::ModelConfig model_of_nemo1(const std::string& text, const std::string& source,
                                  std::optional<std::int64_t> vocabulary) {
  Node root = Node::map();
  root.entries.emplace_back("model", config::parse_yaml(text, source));
  try {
    // A reference to what lies outside of the model, such as the trainer's precision, says nothing of it.
    const Node tree = root;
    Node expanded = Node::map(), model = Node::map();
    for (const auto& [key, value] : tree.entries.front().second.entries) {
      try {
        config::Interpolator interpolator(tree);
        model.entries.emplace_back(key, interpolator.expand(value, "model." + key));
      } catch (const ConfigError&) {
        continue;
      }
    }
    expanded.entries.emplace_back("model", std::move(model));
    root = std::move(expanded);
    NemoTranslation translation(root, Purpose::kPlan);
    translation.run();
    require<ConfigError>(translation.problems.empty(), "{}", fmt::join(translation.problems, "; "));
    if (vocabulary) root.make_path("model.vocab_size") = Node::plain(std::to_string(*vocabulary));
    // The fused kernel of bias and GELU computes the tanh form.
    const auto is = [&](const char* key, const char* value) {
      const Node* node = root.find_path(std::string("model.") + key);
      return node && node->is_scalar() && node->scalar == value;
    };
    const bool gelu = !root.find_path("model.activation") || is("activation", "gelu");
    if (gelu && !is("bias_activation_fusion", "false") && !is("bias_activation_fusion", "False") &&
        !is("bias_gelu_fusion", "false") && !is("bias", "false"))
      root.make_path("model.activation") = Node::plain("gelu_tanh");
    return model_of_tree(root, source);
  } catch (const Error& error) {
    fail<DataError>("'{}' describes a model that Stoa does not have: {}", source, error.what());
  }
}

model::ModelConfig model_of_nemo2(const std::string& text, const std::string& source,
                                  std::optional<std::int64_t> vocabulary) {
  Nemo2Config read;
  try {
    Node root = Node::map();
    root.entries.emplace_back("model", config::parse_yaml(text, source));
    std::vector<std::string> changes;
    read = read_nemo2(std::move(root), changes, Purpose::kPlan);
  } catch (const Error& error) {
    fail<DataError>("'{}' describes a model that Stoa does not have: {}", source, error.what());
  }
  if (vocabulary) read.overrides.push_back(fmt::format("model.vocab_size={}", *vocabulary));
  return model_of_overrides(read.overrides, source);
}

namespace {

ForeignCheckpoint open_nemo1(const std::shared_ptr<const FileSet>& files, const ForeignOptions& options) {
  ForeignCheckpoint out;
  const fs::path path = files->path();
  const std::string source = (path / ckpt::kNemoConfig).string();
  std::vector<RankFile> ranks = rank_files(files);
  std::shared_ptr<const ckpt::TensorSource> distributed;
  if (ranks.empty()) {
    for (const char* other : {"/.zmetadata", "/metadata.json"})
      if (files->has(std::string(kWeightsFolder) + other) &&
          !files->has(std::string(kWeightsFolder) + "/.metadata"))
        fail<DataError>(
            "'{}': its weights are in the format zarr, which is not read: convert it with NeMo "
            "(dist_ckpt_format "
            "torch_dist)",
            path.string());
    require<DataError>(files->has(std::string(kWeightsFolder) + "/.metadata"),
                       "'{}' holds neither {} nor {}/.metadata; it holds {}", path.string(), kWeightsFile,
                       kWeightsFolder, fmt::join(files->names(), ", "));
    distributed = std::make_shared<ckpt::torch::DistributedCheckpoint>(
        std::make_shared<ckpt::FilesBelow>(files, std::string(kWeightsFolder)));
  }
  std::optional<std::int64_t> vocabulary = options.vocabulary;
  if (!vocabulary) {
    std::int64_t rows = 0;
    for (const RankFile& file : ranks)
      if (file.stage == 0) rows += embedding_rows(*file.tensors).value_or(0);
    vocabulary = distributed ? embedding_rows(*distributed) : std::optional(rows);
    out.notes.push_back(padding_is_kept(vocabulary.value_or(0)));
  }
  const model::ModelConfig config = model_of_nemo1(files->text(ckpt::kNemoConfig), source, vocabulary);
  require<DataError>(config.kind == model::ModelKind::kGpt,
                     "'{}': of NeMo 1, decoders (MegatronGPTModel) are read; this is another kind of model",
                     source);
  out.kind = "NeMo 1";
  assemble(
      out, path, config,
      distributed ? torch_dist_sources(distributed, config.kind) : rank_file_sources(ranks, config.kind));
  out.why_no_state = "NeMo 1 saves models without it";
  return out;
}

// The folder below context/ that has a tokenizer.
std::optional<fs::path> tokenizer_of(const fs::path& context) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(context, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == "tokenizer.json" || name == "tokenizer.model" || name == "vocab.json")
      return it->path().parent_path();
  }
  return std::nullopt;
}

ForeignCheckpoint open_nemo2(const fs::path& directory, const ForeignOptions& options) {
  const auto files = std::make_shared<ckpt::FolderFiles>(directory);
  const std::string name = fmt::format("{}/model.yaml", ckpt::kNemoContext);
  require<DataError>(files->has(name), "'{}' holds no {}: what the model is cannot be read from it",
                     directory.string(), name);
  const std::string source = (directory / name).string();
  const auto weights = std::make_shared<ckpt::torch::DistributedCheckpoint>(
      std::make_shared<ckpt::FilesBelow>(files, "weights"));
  ForeignCheckpoint out;
  out.kind = "NeMo 2";
  std::optional<std::int64_t> vocabulary = options.vocabulary;
  if (!vocabulary) {
    vocabulary = embedding_rows(*weights);
    out.notes.push_back(padding_is_kept(vocabulary.value_or(0)));
  }
  const model::ModelConfig config = model_of_nemo2(files->text(name), source, vocabulary);
  assemble(out, directory, config, torch_dist_sources(weights, config.kind));
  if (files->has("weights/common.pt")) {
    const ckpt::torch::TorchFile common(files->at("weights/common.pt"),
                                        (directory / "weights/common.pt").string());
    read_counters(out, common);
  }
  if (!out.state) out.why_no_state = "it holds none that is whole for every layout";
  out.small_files = tokenizer_of(directory / ckpt::kNemoContext);
  return out;
}

}  // namespace

fs::path tokenizer_directory(const fs::path& model) {
  return tokenizer_of(model / ckpt::kNemoContext).value_or(model);
}

ForeignCheckpoint open_nemo(const fs::path& path, const ForeignOptions& options) {
  if (fs::is_directory(path / ckpt::kNemoContext)) return open_nemo2(path, options);
  if (fs::is_directory(path)) return open_nemo1(std::make_shared<ckpt::FolderFiles>(path), options);
  return open_nemo1(std::make_shared<ckpt::TarFiles>(path), options);
}

}  // namespace stoa::foreign
