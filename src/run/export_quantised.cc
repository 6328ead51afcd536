#include "run/export_quantised.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/fp8.h"
#include "base/nearest.h"
#include "ckpt/convert.h"
#include "formats/gguf/gguf_file.h"
#include "infer/file_tensors.h"
#include "infer/model_files.h"
#include "quant/nf4.h"
#include "token/tokenizer_texts.h"

namespace stoa::run {
namespace {

namespace hf = model::huggingface;
using ckpt::StorageType;
using Json = nlohmann::ordered_json;

struct NewBytes {
  std::string name;
  StorageType type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

template <class T>
NewBytes new_tensor(std::string name, StorageType type, std::vector<std::int64_t> shape,
                    const std::vector<T>& values) {
  NewBytes out{std::move(name), type, std::move(shape), {}};
  out.bytes.resize(values.size() * sizeof(T));
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

struct Matrix {
  std::string stem;  // "model.layers.0.mlp.up_proj"
  std::int64_t rows, columns;
  const float* values;

  float largest(std::int64_t begin, std::int64_t count) const {
    float out = 0;
    for (std::int64_t i = begin; i < begin + count; ++i) out = std::max(out, std::abs(values[i]));
    return out;
  }
};

// A scale for each output: x ~ s q. The scale is rounded to bf16 first, so that codes fit what readers
// multiply.
template <class Encode>
std::vector<NewBytes> by_output(const Matrix& m, StorageType type, float highest, const Encode& encode) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(m.rows * m.columns));
  std::vector<bf16> scales;
  for (std::int64_t r = 0; r < m.rows; ++r) {
    const bf16 scale(m.largest(r * m.columns, m.columns) / highest);
    scales.push_back(scale);
    const float inverse = static_cast<float>(scale) == 0 ? 0 : 1 / static_cast<float>(scale);
    for (std::int64_t i = r * m.columns; i < (r + 1) * m.columns; ++i)
      codes[static_cast<std::size_t>(i)] = encode(m.values[i] * inverse);
  }
  std::vector<NewBytes> out;
  out.push_back(new_tensor(m.stem + ".weight", type, {m.rows, m.columns}, codes));
  out.push_back(new_tensor(m.stem + ".weight_scale", StorageType::kBF16, {m.rows, 1}, scales));
  return out;
}

std::vector<NewBytes> encode_int8(const Matrix& m) {
  return by_output(m, StorageType::kI8, 127, [](float x) {
    return static_cast<std::uint8_t>(
        static_cast<std::int8_t>(std::clamp(std::nearbyint(x), -127.0f, 127.0f)));
  });
}

std::vector<NewBytes> encode_fp8(const Matrix& m) {
  return by_output(m, StorageType::kF8E4M3, e4m3::kLargest, [](float x) { return e4m3(x).bits; });
}

std::vector<NewBytes> encode_nf4(const Matrix& m) {
  constexpr std::int64_t kBlock = quant::kNf4Block;
  const std::int64_t count = m.rows * m.columns;
  std::vector<float> scales;
  std::vector<std::uint8_t> pairs(static_cast<std::size_t>((count + 1) / 2));
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t numbers = std::min(kBlock, count - begin);
    const float largest = m.largest(begin, numbers);
    scales.push_back(largest);
    const float inverse = largest == 0 ? 0 : 1 / largest;
    for (std::int64_t i = begin; i < begin + numbers; ++i)  // the first of a pair in the high half
      pairs[static_cast<std::size_t>(i / 2)] =
          static_cast<std::uint8_t>(pairs[static_cast<std::size_t>(i / 2)] |
                                    quant::nearest_nf4(m.values[i] * inverse) << (i % 2 == 0 ? 4 : 0));
  }
  const std::string state = Json{
      {"quant_type", "nf4"},
      {"blocksize", kBlock},
      {"dtype", "bfloat16"},
      {"shape",
       {m.rows, m.columns}}}.dump();
  const std::string weight = m.stem + ".weight";
  std::vector<NewBytes> out;
  out.push_back(
      new_tensor(weight + ".absmax", StorageType::kF32, {static_cast<std::int64_t>(scales.size())}, scales));
  out.push_back(new_tensor(weight + ".quant_map", StorageType::kF32, {16},
                           std::vector<float>(quant::nf4_values().begin(), quant::nf4_values().end())));
  out.push_back(new_tensor(weight + ".quant_state.bitsandbytes__nf4", StorageType::kU8,
                           {static_cast<std::int64_t>(state.size())},
                           std::vector<char>(state.begin(), state.end())));
  out.push_back(new_tensor(weight, StorageType::kU8, {static_cast<std::int64_t>(pairs.size()), 1}, pairs));
  return out;
}

Json compressed_tensors(const char* format, const char* type) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights",
               {{"num_bits", 8},
                {"type", type},
                {"symmetric", true},
                {"strategy", "channel"},
                {"dynamic", false}}},
              {"input_activations", nullptr}}}}},
          {"ignore", {"lm_head"}}};
}

struct Format {
  std::string_view name;
  std::vector<NewBytes> (*encode)(const Matrix&);
  Json (*config)();
};
constexpr std::array kFormats{
    Format{"int8", encode_int8, [] { return compressed_tensors("int-quantized", "int"); }},
    Format{"fp8", encode_fp8, [] { return compressed_tensors("float-quantized", "float"); }},
    Format{"nf4", encode_nf4, [] {
             return Json{{"quant_method", "bitsandbytes"},
                         {"load_in_4bit", true},
                         {"load_in_8bit", false},
                         {"bnb_4bit_quant_type", "nf4"},
                         {"bnb_4bit_compute_dtype", "bfloat16"},
                         {"bnb_4bit_use_double_quant", false},
                         {"bnb_4bit_quant_storage", "uint8"},
                         {"llm_int8_skip_modules", {"lm_head"}}};
           }}};

const Format& format_named(const std::string& name) {
  for (const Format& format : kFormats)
    if (format.name == name) return format;
  const auto names = quantised_formats();
  fail<ConfigError>("'{}' is no format of quantised Hugging Face directories{}; known: {}", name,
                    did_you_mean(name, names), fmt::join(names, ", "));
}

// Matrices of linear layers: not what ids look up, not the head.
bool is_linear(const hf::Tensor& tensor) {
  const std::string& part = tensor.parts.front().name;
  return tensor.shape.rank() == 2 && tensor.name.ends_with(".weight") && part.starts_with("layers.") &&
         part.find("norm") == part.npos && part.find(".router") == part.npos;
}

}  // namespace

std::vector<std::string> quantised_formats() {
  std::vector<std::string> out;
  for (const Format& format : kFormats) out.emplace_back(format.name);
  return out;
}

ckpt::ExportResult export_quantised(const ckpt::FoundCheckpoint& from, const std::string& name,
                                    const std::filesystem::path& output,
                                    const ckpt::ExportProgress& progress) {
  const Format& format = format_named(name);
  const infer::ModelFiles files(from.model);
  const model::ModelSpec& spec = files.model();
  const hf::Family& family = hf::choose_family(spec.config);
  const std::vector<hf::Tensor> tensors = hf::tensors(spec, family);
  require<ConfigError>(std::none_of(tensors.begin(), tensors.end(),
                                    [](const hf::Tensor& t) { return is_linear(t) && t.transposed; }) &&
                           std::any_of(tensors.begin(), tensors.end(), is_linear),
                       "layers of {} are not stored as plain matrices: choose a GGUF format", family.type);
  Json config = Json::parse(hf::write_config(spec, family, DType::kBF16, files.description().special));
  config["quantization_config"] = format.config();
  ckpt::ExportContent content{config.dump(2) + "\n", {}, nullptr};
  const auto encoded = [&](const hf::Tensor& tensor) {
    std::vector<std::vector<std::byte>> alive;
    alive.reserve(tensor.parts.size());
    const auto values = infer::gather_tensor(tensor, DType::kF32, [&](const std::string& part) {
      auto& bytes = alive.emplace_back(files.canonical(part, DType::kF32));
      return TensorView(bytes.data(), DType::kF32, {static_cast<std::int64_t>(bytes.size() / sizeof(float))});
    });
    const auto* numbers = reinterpret_cast<const float*>(values.data());
    if (is_linear(tensor))
      return format.encode({tensor.name.substr(0, tensor.name.size() - std::strlen(".weight")),
                            tensor.shape[0], tensor.shape[1], numbers});
    NewBytes plain{tensor.name, StorageType::kBF16, {}, std::vector<std::byte>(values.size() / 2)};
    for (int i = 0; i < tensor.shape.rank(); ++i) plain.shape.push_back(tensor.shape[i]);
    ckpt::convert_elements(values.data(), DType::kF32, plain.bytes.data(), DType::kBF16,
                           tensor.shape.elements());
    std::vector<NewBytes> out;
    out.push_back(std::move(plain));
    return out;
  };
  // The layout needs sizes alone, but an encoder is the one place that knows them.
  std::uint64_t total = 0, done = 0;
  for (const hf::Tensor& tensor : tensors)
    for (const NewBytes& part : encoded(tensor)) {
      content.tensors.push_back({part.name, part.type, part.shape});
      total += part.bytes.size();
    }
  content.write = [&](ckpt::ShardedWriter& writer) {
    for (const hf::Tensor& tensor : tensors)
      for (const NewBytes& part : encoded(tensor)) {
        writer.write_bytes(part.name, part.bytes);
        done += part.bytes.size();
        if (progress) progress(std::min(done, total), total);
      }
  };
  if (gguf::is_gguf(from.model))
    for (auto& text : token::tokenizer_texts(token::Tokenizer::load(from.model)))
      content.texts.push_back({std::move(text.name), std::move(text.text)});
  return ckpt::export_content(from.model, content, output, ckpt::kDefaultShardBytes, progress);
}

}  // namespace stoa::run
