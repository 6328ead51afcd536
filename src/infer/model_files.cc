#include "infer/model_files.h"

#include <algorithm>
#include <cstring>

#include "base/console.h"
#include "ckpt/convert.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/mxfp4.h"
#include "ckpt/quantised/quantised_source.h"
#include "ckpt/shard_io.h"
#include "ckpt/viewed_source.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "formats/gguf/gguf_file.h"
#include "infer/file_tensors.h"
#include "model/gguf/metadata.h"
#include "model/huggingface/quantization.h"
#include "model/huggingface/task_keys.h"
#include "model/linear_module.h"

namespace stoa::infer {

namespace hf = model::huggingface;

namespace {

// The file that says what a model is.
fs::path config_of(const fs::path& model) { return gguf::is_gguf(model) ? model : model / "config.json"; }

model::ModelSpec resolve(const hf::ModelDescription& description, const fs::path& directory) {
  try {
    return model::resolve_model(description.config);
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", config_of(directory).string(), error.what());
  }
}

// quantization_config of a config.json whose weights are quantised, by a method that is not its family's own.
nlohmann::json quantization_of(const fs::path& directory) {
  const auto json = nlohmann::json::parse(read_text(config_of(directory)));
  for (const char* key : {"quantization_config", "compression_config"})
    if (const auto found = json.find(key); found != json.end() && found->is_object()) return *found;
  return nlohmann::json::object();
}

hf::ModelDescription describe(const fs::path& directory) {
  if (gguf::is_gguf(directory)) return model::gguf::read_model(gguf::File(directory));
  const fs::path path = config_of(directory);
  try {
    hf::ModelDescription out = hf::read_config(read_text(path));
    require<ConfigError>(!out.quantised || ckpt::reads_quantisation(quantization_of(directory)),
                         "{} are not read; {}", out.quantised.value_or(""), hf::kMakeFloats);
    return out;
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", path.string(), error.what());
  }
}

hf::ModelDescription for_task(hf::ModelDescription out, const fs::path& directory,
                              const model::TaskConfig& task) {
  require<ConfigError>(out.config.kind != model::ModelKind::kT5,
                       "{}: model_type {} is an encoder-decoder, which has no labelled task; expected a "
                       "decoder or an encoder",
                       directory.string(), out.family->type);
  require<ConfigError>(hf::has_head(*out.family, task.type) || out.config.kind == model::ModelKind::kBert,
                       "{}: transformers has no class {}{} for family {}", directory.string(),
                       out.family->architecture, hf::task_suffix(task.type), out.family->type);
  hf::set_task(out.config, task);
  return out;
}

// Type of the values that quantised matrices stand for, by the dtype of config.json.
ckpt::StorageType value_type(const std::optional<std::string>& dtype) {
  if (dtype == "float16") return ckpt::StorageType::kF16;
  return dtype == "float32" ? ckpt::StorageType::kF32 : ckpt::StorageType::kBF16;
}

// Quantised matrices as what they stand for.
std::unique_ptr<const ckpt::TensorSource> open_tensors(const fs::path& directory,
                                                       const hf::ModelDescription& description) {
  auto stored = ckpt::open_weights(directory);
  if (!description.quantised) return stored;
  return std::make_unique<ckpt::QuantisedSource>(std::move(stored), quantization_of(directory),
                                                 value_type(description.dtype));
}

Shape shape_of(const std::vector<std::int64_t>& dims, const std::string& name) {
  require<DataError>(dims.size() <= Shape::kMaxRank,
                     "tensor '{}' has {} dimensions, at most {} are supported", name, dims.size(),
                     Shape::kMaxRank);
  Shape shape;
  switch (dims.size()) {
    case 0:
      return shape;
    case 1:
      return Shape{dims[0]};
    case 2:
      return Shape{dims[0], dims[1]};
    case 3:
      return Shape{dims[0], dims[1], dims[2]};
    default:
      return Shape{dims[0], dims[1], dims[2], dims[3]};
  }
}

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";  // ends of names of MXFP4 tensors

// Weights that layers compute with, as they are in the file.
void require_float(const ckpt::TensorEntry& tensor, const fs::path& directory) {
  const auto type = ckpt::memory_type(tensor.type);
  require<DataError>(type && is_float(*type),
                     "{}: tensor '{}' is {}, and weights are F32, BF16, F16 or F64; {}", directory.string(),
                     tensor.name, ckpt::name_of(tensor.type), hf::kMakeFloats);
}

// Weights that are infinite or not a number. A model with one of them answers nothing but "not a number",
// wherever it stands.
struct NonFinite {
  std::int64_t count = 0, first = 0;

  // `elements` are those of the tensor from `begin` on.
  void look_at(const std::byte* elements, DType type, std::int64_t begin, std::int64_t number) {
    const auto bad = ckpt::count_non_finite(elements, type, number);
    if (bad > 0 && count == 0)
      while (ckpt::count_non_finite(elements + static_cast<std::size_t>(first) * size_of(type), type, 1) == 0)
        ++first;
    if (bad > 0 && count == 0) first += begin;
    count += bad;
  }
  void require_none(const std::string& tensor, std::int64_t elements, const fs::path& directory) const {
    require<DataError>(count == 0,
                       "{}: tensor '{}': {} of its {} weights {} infinite or not a number (the first is "
                       "element {}); the training that wrote it diverged, or the file is damaged: take an "
                       "earlier checkpoint",
                       directory.string(), tensor, count, elements, count == 1 ? "is" : "are", first);
  }
};

// All elements of a tensor as `type`.
NonFinite convert_tensor(const ckpt::TensorSource& source, const ckpt::TensorEntry& stored, DType type,
                         std::byte* out) {
  constexpr std::int64_t kPiece = 1 << 20;  // elements
  NonFinite bad;
  std::vector<std::byte> scratch;
  const std::int64_t elements = stored.elements();
  for (std::int64_t begin = 0; begin < elements; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, elements - begin);
    const std::byte* piece = source.elements(stored, begin, begin + count, scratch).data();
    bad.look_at(piece, stored.dtype(), begin, count);
    ckpt::convert_elements(piece, stored.dtype(), out + static_cast<std::size_t>(begin) * size_of(type), type,
                           count);
  }
  return bad;
}

// Where a canonical tensor goes: a piece of a parameter that the rank holds.
struct Place {
  std::size_t parameter;
  std::vector<ckpt::ElementRun> runs;

  bool is_all(std::int64_t elements) const {
    return runs.size() == 1 && runs.front().file == 0 && runs.front().count == elements;
  }
};

// With ZeRO a rank may hold nothing of a parameter.
bool holds_something(const ShardSpec& shard) { return !shard.flat || shard.flat->begin < shard.flat->end; }

// The memory of parameters, from the first tensor that goes there to the last.
class OpenParameters {
 public:
  OpenParameters(std::size_t parameters, const std::function<TensorView(nn::ParamId)>& target,
                 const std::function<void(nn::ParamId)>& filled)
      : awaited_(parameters), elements_(parameters), target_(target), filled_(filled) {}

  // One more tensor will arrive(), with so many elements.
  void await(std::size_t parameter, std::int64_t elements) {
    ++awaited_[parameter];
    elements_[parameter] += elements;
  }
  void arrived(std::size_t parameter) {
    if (--awaited_[parameter] == 0) close(parameter);
  }
  // What consists of padding.
  void fill_if_complete(std::size_t parameter) {
    if (awaited_[parameter] > 0) return;
    at(parameter);
    close(parameter);
  }
  const TensorView& at(std::size_t parameter) {
    const auto [it, fresh] = open_.try_emplace(parameter);
    if (fresh) {
      it->second = target_(id_of(parameter));
      require<InternalError>(it->second && it->second.contiguous(),
                             "a parameter has no memory for its weights");
      if (elements_[parameter] < it->second.elements())  // the rest is padding
        std::memset(it->second.data, 0, it->second.bytes());
    }
    return it->second;
  }
  std::byte* element(std::size_t parameter, std::int64_t index) {
    const TensorView& memory = at(parameter);
    return static_cast<std::byte*>(memory.data) + static_cast<std::size_t>(index) * size_of(memory.dtype);
  }

 private:
  static nn::ParamId id_of(std::size_t parameter) { return {static_cast<int>(parameter)}; }
  void close(std::size_t parameter) {
    open_.erase(parameter);
    filled_(id_of(parameter));
  }

  std::vector<std::size_t> awaited_;
  std::vector<std::int64_t> elements_;
  std::map<std::size_t, TensorView> open_;
  const std::function<TensorView(nn::ParamId)>& target_;
  const std::function<void(nn::ParamId)>& filled_;
};

}  // namespace

HeldParameters HeldParameters::whole(const std::vector<nn::ParamSpec>& specs) {
  HeldParameters out;
  for (const nn::ParamSpec& spec : specs) {
    out.parts.push_back(spec.shard);
    for (const ShardPiece& piece : spec.shard.pieces)
      out.tensors.push_back({piece.name, DType::kF32, piece.global});
  }
  return out;
}

HeldParameters HeldParameters::share(const std::vector<nn::ParamSpec>& specs, const model::ModelSpec& model) {
  HeldParameters out;
  for (const nn::ParamSpec& spec : specs) out.parts.push_back(spec.shard);
  for (const auto& tensor : model::canonical_tensors(model::base_of(model)))
    out.tensors.push_back({tensor.name, DType::kF32, tensor.shape});
  return out;
}

HeldParameters HeldParameters::without_adapters(const std::vector<nn::ParamSpec>& specs) const {
  HeldParameters out = *this;
  std::set<std::string> names;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (!specs[p].adapter) continue;
    out.parts[p].flat = FlatRange{};
    for (const ShardPiece& piece : specs[p].shard.pieces) names.insert(piece.name);
  }
  std::erase_if(out.tensors, [&](const TensorSpec& tensor) { return names.contains(tensor.name); });
  return out;
}

HeldParameters HeldParameters::without_bytes(const std::vector<nn::ParamSpec>& specs) const {
  HeldParameters out = *this;
  for (std::size_t p = 0; p < specs.size(); ++p)
    if (specs[p].holds_bytes()) out.parts[p].flat = FlatRange{};
  return out;
}

ModelFiles::Opened ModelFiles::open(const fs::path& directory) {
  if (ckpt::holds_foreign_weights(directory)) {
    foreign::ForeignCheckpoint checkpoint = foreign::open_foreign(directory);
    return {std::move(checkpoint.description), std::move(checkpoint.weights)};
  }
  hf::ModelDescription description = describe(directory);
  std::shared_ptr<const ckpt::TensorSource> tensors = open_tensors(directory, description);
  return {std::move(description), std::move(tensors)};
}

ModelFiles::ModelFiles(const fs::path& directory) : ModelFiles(directory, open(directory), false) {}

ModelFiles::ModelFiles(const fs::path& directory, hf::ModelDescription description,
                       std::shared_ptr<const ckpt::TensorSource> tensors)
    : ModelFiles(directory, {std::move(description), std::move(tensors)}, false) {}

ModelFiles::ModelFiles(const fs::path& directory, const model::TaskConfig& task)
    : ModelFiles(
          directory,
          [&]() -> Opened {
            Opened opened = open(directory);
            opened.description = for_task(std::move(opened.description), directory, task);
            return opened;
          }(),
          true) {}

ModelFiles::ModelFiles(const fs::path& directory, Opened opened, bool head_optional)
    : directory_(directory),
      description_(std::move(opened.description)),
      model_(resolve(description_, directory)),
      tensors_(std::move(opened.tensors)) {
  find_tensors(head_optional);
  if (match_.head_beside_tied) {
    // Where the two differ, transformers 5 keeps both; a tied model holds one.
    const auto& head = tensors_->entry(*match_.head_beside_tied);
    const auto tokens = std::find_if(wanted_.begin(), wanted_.end(), [](const hf::Tensor& tensor) {
      return tensor.parts.front().name == "embedding.tokens.weight";
    });
    const auto& embedding = tensors_->entry(match_.names[static_cast<std::size_t>(tokens - wanted_.begin())]);
    const bool same = ckpt::same_elements(*tensors_, head, *tensors_, embedding);
    const auto may_untie = description_.family->names().head_may_untie;
    require<DataError>(
        same || (may_untie && may_untie(model_.config)),
        "{}: the model ties head and embedding, but '{}' and '{}' differ: set tie_word_embeddings to false",
        directory_.string(), *match_.head_beside_tied, embedding.name);
    if (!same) {
      description_.config.share_embeddings_and_output_weights = false;
      model_ = resolve(description_, directory);
      find_tensors(head_optional);
    }
  }
  for (const auto& name : match_.names)
    if (!packed_.contains(name)) require_float(tensors_->entry(name), directory_);
}

std::shared_ptr<const ckpt::TensorSource> ModelFiles::tensors() const {
  std::vector<ckpt::ViewedTensor> named;
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    if (const ckpt::TensorEntry* entry = tensors_->find_entry(match_.names[i])) {
      ckpt::ViewedTensor view{*entry, {{tensors_.get(), entry, 1, entry->elements(), 0, 0, 0, 0}}};
      view.entry.name = wanted_[i].name;
      named.push_back(std::move(view));
    }
  return std::make_shared<ckpt::ViewedSource>(
      directory_, std::move(named), std::vector<std::shared_ptr<const ckpt::TensorSource>>{tensors_});
}

void ModelFiles::grow(ckpt::NewTokens tokens) {
  const bool head_optional = !fresh_.empty();
  std::vector<std::string> matrices;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::string& name = wanted_[i].parts.front().name;
    if (name == "embedding.tokens.weight" || name == "head.weight" || name == "head.bias")
      matrices.push_back(match_.names[i]);
  }
  if (match_.head_beside_tied) matrices.push_back(*match_.head_beside_tied);
  tensors_ = std::make_shared<ckpt::GrownRows>(std::move(tensors_), matrices, tokens);
  description_.config.vocab_size = std::max(model_.vocabulary, tokens.end());
  model_ = resolve(description_, directory_);
  find_tensors(head_optional);
}

void ModelFiles::find_tensors(bool head_optional) {
  fresh_.clear();
  wanted_ = hf::tensors(model_, *description_.family);
  std::vector<hf::FileTensor> offered;
  packed_.clear();
  for (const auto* tensor : tensors_->entries())
    if (auto packed = packed_matrices(*tensor)) {
      const std::string& name = tensor->name;
      packed_.emplace(name.substr(0, name.size() - kBlocks.size()), *packed);
    }
  for (const auto& [name, packed] : packed_) offered.push_back({name, packed.shape});
  for (const auto* tensor : tensors_->entries()) {
    const std::string& name = tensor->name;
    const bool known =
        (name.ends_with(kBlocks) && packed_.contains(name.substr(0, name.size() - kBlocks.size()))) ||
        (name.ends_with(kScales) && packed_.contains(name.substr(0, name.size() - kScales.size())));
    if (!known) offered.push_back({name, shape_of(tensor->shape, name)});
  }
  hf::refuse_quantised(offered);
  match_ = hf::match(wanted_, offered, *description_.family, model_.config, head_optional);
  for (std::size_t i = wanted_.size(); i-- > 0;) {
    if (!match_.names[i].empty()) continue;
    for (const auto& part : wanted_[i].parts) fresh_.insert(part.name);
    wanted_.erase(wanted_.begin() + static_cast<std::ptrdiff_t>(i));
    match_.names.erase(match_.names.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::optional<ModelFiles::Packed> ModelFiles::packed_matrices(const ckpt::TensorEntry& blocks) const {
  const std::string& name = blocks.name;
  if (description_.family->quantised != "mxfp4" || !name.ends_with(kBlocks)) return std::nullopt;
  const auto* scales =
      tensors_->find_entry(name.substr(0, name.size() - kBlocks.size()) + std::string(kScales));
  const auto& shape = blocks.shape;
  const auto bytes_each = [](const ckpt::TensorEntry& tensor) {
    return tensor.type == ckpt::StorageType::kU8 || tensor.type == ckpt::StorageType::kF8E8M0;
  };
  require<DataError>(
      scales && shape.size() == 4 && shape[3] == ckpt::kMxfp4Bytes && bytes_each(blocks) &&
          bytes_each(*scales) && scales->shape == std::vector<std::int64_t>(shape.begin(), shape.begin() + 3),
      "{}: tensor '{}' {} {} is not MXFP4: expected U8 [experts, rows, blocks, {}] with '…{}' "
      "U8 [experts, rows, blocks]",
      directory_.string(), name, ckpt::name_of(blocks.type), blocks.shape_text(), ckpt::kMxfp4Bytes, kScales);
  return Packed{&blocks, scales, Shape{shape[0], shape[2] * ckpt::kMxfp4Block, shape[1]}};
}

std::span<const std::byte> ModelFiles::load_elements(const std::string& name, DType type,
                                                     std::vector<std::byte>& room) const {
  const auto finite = [&](std::span<const std::byte> values, std::int64_t elements) {
    NonFinite bad;
    bad.look_at(values.data(), type, 0, elements);
    bad.require_none(name, elements, directory_);
    return values;
  };
  if (const auto packed = packed_.find(name); packed != packed_.end()) {
    const auto& [blocks, scales, shape] = packed->second;
    room.resize(static_cast<std::size_t>(shape.elements()) * size_of(type));
    std::vector<std::byte> block_bytes, scale_bytes;
    ckpt::decode_mxfp4_transposed(tensors_->all_elements(*blocks, block_bytes),
                                  tensors_->all_elements(*scales, scale_bytes), shape[0], shape[2], shape[1],
                                  type, room.data());
    return finite(room, shape.elements());
  }
  const ckpt::TensorEntry& stored = tensors_->entry(name);
  require_float(stored, directory_);
  const std::int64_t elements = stored.elements();
  if (stored.dtype() == type) {
    // Elements that are decoded are converted by pieces below: that takes less memory.
    std::vector<std::byte> decoded;
    tensors_->elements(stored, 0, std::min<std::int64_t>(1, elements), decoded);
    if (decoded.empty()) return finite(tensors_->all_elements(stored, room), elements);
  }
  room.resize(static_cast<std::size_t>(elements) * size_of(type));
  convert_tensor(*tensors_, stored, type, room.data()).require_none(name, elements, directory_);
  return room;
}

DType ModelFiles::stored_type() const { return tensors_->entry(match_.names.front()).dtype(); }

void ModelFiles::require_same_tensors(const std::map<std::string, Shape>& expected) const {
  std::string problems;
  std::map<std::string, Shape> offered;
  for (const hf::Tensor& tensor : wanted_)
    for (const auto& part : tensor.parts) offered.emplace(part.name, part.shape);
  for (const auto& [name, shape] : expected) {
    const auto other = offered.find(name);
    if (fresh_.contains(name)) continue;
    if (other == offered.end())
      problems += fmt::format("\n  missing: {} {}", name, shape.text());
    else if (other->second != shape)
      problems +=
          fmt::format("\n  {}: {} in the files, {} expected", name, other->second.text(), shape.text());
  }
  for (const auto& [name, shape] : offered)
    if (!expected.contains(name)) problems += fmt::format("\n  unexpected: {} {}", name, shape.text());
  require<DataError>(problems.empty(), "'{}' is a model of a different shape:{}", directory_.string(),
                     problems);
}

std::vector<std::byte> ModelFiles::canonical(const std::string& name, DType type) const {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const hf::Tensor& tensor = wanted_[i];
    const auto wanted = [&](const model::CanonicalTensor& part) { return part.name == name; };
    if (std::none_of(tensor.parts.begin(), tensor.parts.end(), wanted)) continue;
    std::vector<std::byte> file, others, out;
    const std::span<const std::byte> elements = load_elements(match_.names[i], type, file);
    hf::scatter(tensor, type, elements.data(), [&](const model::CanonicalTensor& part) {
      const auto bytes = static_cast<std::size_t>(part.shape.elements()) * size_of(type);
      if (wanted(part)) return out.resize(bytes), out.data();
      others.resize(elements.size());  // a discarded part; the largest one fits
      return others.data();
    });
    return out;
  }
  fail<InternalError>("'{}' has no tensor '{}'", directory_.string(), name);
}

std::vector<float> ModelFiles::floats(const std::string& name) const {
  const std::vector<std::byte> bytes = canonical(name, DType::kF32);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Values are converted once, from the type in the file to that in memory; those that are to be added to, and
// those of fp64, in a wide type.
DType ModelFiles::reading_type(std::size_t tensor, DType memory) const {
  const std::string& name = match_.names[tensor];
  if (!packed_.contains(name) && tensors_->entry(name).type == ckpt::StorageType::kF64) return DType::kF64;
  return wanted_[tensor].zero_centered && size_of(memory) < size_of(DType::kF32) ? DType::kF32 : memory;
}

void ModelFiles::read(const HeldParameters& rank, const std::function<TensorView(nn::ParamId)>& target,
                      const std::function<void(nn::ParamId)>& filled) const {
  std::map<std::string, Shape> expected;
  for (const TensorSpec& spec : rank.tensors) expected.emplace(spec.name, spec.shape);
  require_same_tensors(expected);
  OpenParameters open(rank.parts.size(), target, filled);
  std::multimap<std::string, Place> places;
  for (std::size_t p = 0; p < rank.parts.size(); ++p) {
    const ShardSpec& shard = rank.parts[p];
    if (!holds_something(shard) || (!shard.pieces.empty() && fresh_.contains(shard.pieces.front().name)))
      continue;
    for (const ShardPiece& piece : shard.pieces) {
      Place place{p, {}};
      ckpt::for_each_run(piece, shard.local, shard.local.inner(), shard.flat,
                         [&](const ckpt::ElementRun& run) { place.runs.push_back(run); });
      if (place.runs.empty()) continue;
      std::int64_t elements = 0;
      for (const ckpt::ElementRun& run : place.runs) elements += run.count;
      open.await(p, elements);
      places.emplace(piece.name, std::move(place));
    }
    open.fill_if_complete(p);
  }
  std::vector<std::byte> room;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const hf::Tensor& tensor = wanted_[i];
    std::vector<const Place*> here;
    for (const auto& part : tensor.parts)
      for (auto [it, last] = places.equal_range(part.name); it != last; ++it) here.push_back(&it->second);
    if (here.empty()) continue;
    DType memory = open.at(here.front()->parameter).dtype;
    for (const Place* place : here)
      if (open.at(place->parameter).dtype != memory) memory = DType::kF32;
    const DType type = reading_type(i, memory);
    const std::span<const std::byte> values = load_elements(match_.names[i], type, room);
    std::map<std::string, std::vector<std::byte>> apart;
    hf::scatter(tensor, type, values.data(), [&](const model::CanonicalTensor& part) {
      const auto [first, last] = places.equal_range(part.name);
      const std::int64_t elements = part.shape.elements();
      if (first != last && std::next(first) == last)
        if (const Place& only = first->second; only.is_all(elements) && open.at(only.parameter).dtype == type)
          return open.element(only.parameter, only.runs.front().memory);
      auto& bytes = apart[part.name];
      bytes.resize(static_cast<std::size_t>(elements) * size_of(type));
      return bytes.data();
    });
    for (const auto& [name, bytes] : apart)
      for (auto [it, last] = places.equal_range(name); it != last; ++it)
        for (const ckpt::ElementRun& run : it->second.runs) {
          const std::size_t p = it->second.parameter;
          ckpt::convert_elements(bytes.data() + static_cast<std::size_t>(run.file) * size_of(type), type,
                                 open.element(p, run.memory), open.at(p).dtype, run.count);
        }
    for (const Place* place : here) open.arrived(place->parameter);
  }
}

std::vector<ckpt::TensorEntry> model_entries(const model::ModelSpec& spec, const hf::Family& family,
                                             DType type) {
  std::vector<ckpt::TensorEntry> entries;
  for (const auto& tensor : hf::tensors(spec, family))
    entries.push_back(ckpt::entry_of({tensor.name, type, tensor.shape}));
  return entries;
}

void write_model(ckpt::ShardedWriter& writer, const model::ModelSpec& spec, const hf::Family& family,
                 DType type, const std::function<TensorView(const std::string&)>& source,
                 const std::function<void()>& written) {
  for (const auto& tensor : hf::tensors(spec, family)) {
    // Zero-centred weights are near 1 in memory: subtracting 1 in a wider type keeps their digits.
    const DType through = tensor.zero_centered && size_of(type) < size_of(DType::kF32) ? DType::kF32 : type;
    std::vector<std::byte> file = gather_tensor(tensor, through, source);
    if (through != type) {
      const std::vector<std::byte> wide = std::move(file);
      const std::int64_t count = tensor.shape.elements();
      file.resize(static_cast<std::size_t>(count) * size_of(type));
      ckpt::convert_elements(wide.data(), through, file.data(), type, count);
    }
    writer.write_bytes(tensor.name, file);
    if (written) written();
  }
}

}  // namespace stoa::infer
