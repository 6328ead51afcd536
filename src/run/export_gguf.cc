#include "run/export_gguf.h"

#include <algorithm>

#include "base/cores.h"
#include "base/worker_pool.h"
#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_writer.h"
#include "infer/file_tensors.h"
#include "infer/model_files.h"
#include "model/gguf/metadata.h"
#include "model/gguf/mixtures.h"
#include "token/gguf/gguf_tokenizer.h"
#include "token/tokenizer.h"

namespace stoa::run {
namespace {

namespace hf = model::huggingface;
using gguf::Value;

// The same file, through the same parts that write others.
GgufExport rewrite(const gguf::File& file, const fs::path& output, const ckpt::ExportProgress& progress) {
  require<ConfigError>(file.parts() == 1, "'{}' is split into {} files: give a --format to write it as one",
                       file.path().string(), file.parts());
  std::vector<gguf::NewTensor> tensors;
  for (const auto& tensor : file.tensors()) tensors.push_back({tensor.name, tensor.shape, tensor.format});
  gguf::Writer writer(output, file.keys(), std::move(tensors), file.first().alignment, file.first().version);
  std::uint64_t done = 0;
  for (const auto& tensor : file.tensors()) {
    writer.append(tensor.bytes);
    done += tensor.bytes.size();
    if (progress) progress(done, file.tensor_bytes());
  }
  writer.commit();
  return {file.need_text("general.architecture"),
          static_cast<std::int64_t>(file.tensors().size()),
          writer.file_bytes(),
          {}};
}

// What a tensor's rows are encoded with: one weight for each column, or none.
const std::vector<float>* importance_of(const hf::Tensor& tensor, const Importance* importance) {
  if (!importance) return nullptr;
  const auto found = importance->find(tensor.parts.front().name);
  if (found == importance->end()) return nullptr;
  return static_cast<std::int64_t>(found->second.size()) == tensor.shape.inner() ? &found->second : nullptr;
}

std::vector<std::byte> encode(const quant::BlockFormat& format, const std::vector<std::byte>& values,
                              std::int64_t columns, const std::vector<float>* weights, WorkerPool& pool) {
  const auto* numbers = reinterpret_cast<const float*>(values.data());
  const auto rows = static_cast<std::int64_t>(values.size() / sizeof(float)) / columns;
  std::vector<std::byte> out(static_cast<std::size_t>(rows * format.row_bytes(columns)));
  pool.run(rows, [&](std::int64_t row, int) {
    quant::encode_numbers(format, numbers + row * columns, columns, weights ? weights->data() : nullptr,
                          out.data() + row * format.row_bytes(columns));
  });
  return out;
}

bool has_tokenizer(const fs::path& model) {
  if (gguf::is_gguf(model)) return gguf::File(model).key("tokenizer.ggml.tokens") != nullptr;
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "spiece.model", "tekken.json", "vocab.txt", "vocab.json"})
    if (fs::exists(model / name)) return true;
  return false;
}

void add_tokenizer(const fs::path& model, const hf::ModelDescription& description, std::int64_t vocabulary,
                   gguf::Keys& keys, std::vector<std::string>& notes) {
  if (!has_tokenizer(model)) {
    notes.push_back("the model has no tokenizer, and so has the file");
    keys.emplace_back("tokenizer.ggml.model", Value::text("none"));
    return;
  }
  gguf::Keys own = token::gguf_keys(token::Tokenizer::load(model), vocabulary);
  keys.insert(keys.end(), own.begin(), own.end());
  // Further ends of a text: those of turns in a chat.
  const auto has = [&](std::string_view key) {
    return std::any_of(own.begin(), own.end(), [&](const auto& k) { return k.first == key; });
  };
  const auto& ends = description.special.eos;
  if (ends.empty()) return;
  std::optional<std::int64_t> eos;
  for (const auto& [key, value] : own)
    if (key == "tokenizer.ggml.eos_token_id") eos = value.integer();
  if (!eos)
    keys.emplace_back("tokenizer.ggml.eos_token_id", Value::u32(static_cast<std::uint32_t>(ends.front())));
  for (const std::int64_t end : ends)
    if (end != eos.value_or(ends.front()) && !has("tokenizer.ggml.eot_token_id")) {
      keys.emplace_back("tokenizer.ggml.eot_token_id", Value::u32(static_cast<std::uint32_t>(end)));
      break;
    }
}

}  // namespace

GgufExport export_gguf(const ckpt::FoundCheckpoint& from, const std::string& format, const fs::path& output,
                       const Importance* importance, const ckpt::ExportProgress& progress) {
  require<IoError>(!fs::exists(output), "'{}' exists: name a new file", output.string());
  if (format.empty()) return rewrite(gguf::File(from.model), output, progress);
  const model::gguf::Mixture& mixture = model::gguf::mixture(format);
  const infer::ModelFiles files(from.model);
  const model::ModelSpec& spec = files.model();
  require<ConfigError>(spec.config.kind == model::ModelKind::kGpt && !spec.config.task.labelled(),
                       "{}: only decoders of text are written as GGUF", from.model.string());
  const hf::Family& family = model::gguf::choose_architecture(spec);
  model::gguf::Written written = model::gguf::write_model(spec, family);

  GgufExport out;
  out.architecture = family.type;
  if (const auto window = spec.config.window_size;
      family.type == "phi3" && window && *window < spec.config.max_positions())
    out.notes.push_back(fmt::format(
        "llama.cpp leaves the window of {0} tokens out: beyond {0} tokens its answers differ", *window));
  gguf::Keys keys{{"general.architecture", Value::text(std::string(family.type))},
                  {"general.type", Value::text("model")},
                  {"general.name", Value::text(fs::absolute(from.given).lexically_normal().stem().string())},
                  {"general.file_type", Value::u32(mixture.file_type)},
                  {"general.quantization_version", Value::u32(2)}};
  std::move(written.keys.begin() + 1, written.keys.end(), std::back_inserter(keys));
  add_tokenizer(from.model, files.description(), spec.vocabulary, keys, out.notes);

  const std::vector<hf::Tensor> tensors = hf::tensors(spec, family);
  const auto& f32 = quant::format_of(quant::BlockType::kF32);
  std::vector<gguf::NewTensor> layout;
  for (const auto& [name, factors] : written.factors)
    layout.push_back({name + ".weight", {static_cast<std::int64_t>(factors.size())}, &f32});
  std::uint64_t total = 0;
  for (const auto& tensor : tensors) {
    std::vector<std::int64_t> shape;
    for (int i = 0; i < tensor.shape.rank(); ++i) shape.push_back(tensor.shape[i]);
    const auto& chosen = model::gguf::format_of(mixture, {tensor.name, shape, spec.config.num_layers,
                                                          spec.config.share_embeddings_and_output_weights});
    layout.push_back({tensor.name, shape, &chosen});
    total += layout.back().bytes();
  }
  gguf::Writer writer(output, keys, layout);
  for (const auto& [name, factors] : written.factors) {
    const std::vector<float> values(factors.begin(), factors.end());
    writer.append(std::as_bytes(std::span(values)));
  }
  WorkerPool pool(available_cores());
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const gguf::NewTensor& place = layout[written.factors.size() + i];
    std::vector<std::vector<std::byte>> alive;
    alive.reserve(tensors[i].parts.size());
    const auto values = infer::gather_tensor(tensors[i], DType::kF32, [&](const std::string& name) {
      const auto& bytes = alive.emplace_back(files.canonical(name, DType::kF32));
      return TensorView(const_cast<std::byte*>(bytes.data()), DType::kF32,
                        {static_cast<std::int64_t>(bytes.size() / sizeof(float))});
    });
    writer.append(
        encode(*place.format, values, place.shape.back(), importance_of(tensors[i], importance), pool));
    done += place.bytes();
    if (progress) progress(done, total);
  }
  writer.commit();
  out.tensors = static_cast<std::int64_t>(layout.size());
  out.bytes = writer.file_bytes();
  return out;
}

}  // namespace stoa::run
