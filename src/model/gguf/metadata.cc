#include "model/gguf/metadata.h"

#include <algorithm>

#include "model/gguf/rope_factors.h"

namespace stoa::model::gguf {
namespace {

using ::stoa::gguf::File;
using ::stoa::gguf::Value;
using ::stoa::gguf::ValueType;

// A number of single precision as it was meant: 1e-05, not 9.99999974737875e-06.
double decimal(double real, const Value& value) {
  const ValueType type = value.is_array() ? value.element() : value.type();
  return type == ValueType::kF32 ? std::stod(fmt::format("{}", static_cast<float>(real))) : real;
}

nlohmann::json scalar_json(const Value& value, std::size_t i) {
  if (const auto* text = value.text_at(i)) return *text;
  if (const auto on = value.flag(i)) return *on;
  if (const auto whole = value.integer(i)) return *whole;
  if (const auto real = value.real(i)) return decimal(*real, value);
  return value.bits(i);
}

// Arrays with one value for all layers are that value.
nlohmann::json value_json(const Value& value) {
  if (!value.is_array()) return scalar_json(value, 0);
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < value.size(); ++i) list.push_back(scalar_json(value, i));
  const bool same =
      !list.empty() && std::all_of(list.begin(), list.end(), [&](const auto& x) { return x == list[0]; });
  return same ? list[0] : list;
}

void add_factors(const File& file, nlohmann::json& json) {
  for (const char* name : kRopeFactors) {
    const auto* tensor = file.find(std::string(name) + ".weight");
    if (!tensor) continue;
    require<DataError>(tensor->shape.size() == 1 && tensor->numbers() <= 1024,
                       "'{}': tensor '{}' is not a list of factors", file.path().string(), tensor->name);
    std::vector<float> values(static_cast<std::size_t>(tensor->numbers()));
    quant::decode_numbers(*tensor->format, tensor->bytes.data(), 0, tensor->numbers(), values.data());
    json[name] = values;
  }
}

huggingface::SpecialTokens special_tokens(const File& file) {
  huggingface::SpecialTokens out;
  const auto id = [&](const char* name) {
    return file.integer(std::string("tokenizer.ggml.") + name + "_token_id");
  };
  out.bos = id("bos");
  out.pad = id("padding");
  for (const char* name : {"eos", "eot", "eom"})
    if (const auto end = id(name); end && std::find(out.eos.begin(), out.eos.end(), *end) == out.eos.end())
      out.eos.push_back(*end);
  return out;
}

}  // namespace

huggingface::ModelDescription read_model(const File& file) {
  const std::string name = file.need_text("general.architecture"), prefix = name + ".";
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, value] : file.keys())
    if (key.starts_with(prefix)) json[key.substr(prefix.size())] = value_json(value);
  const auto* embedding = file.find("token_embd.weight");
  require<DataError>(embedding && embedding->shape.size() == 2,
                     "'{}' holds no model: it has no token_embd.weight", file.path().string());
  json["vocab_size"] = embedding->shape[0];
  const auto holds = [&](const char* tensor) { return file.find(tensor) != nullptr; };
  json["holds.output"] = holds("output.weight");
  json["holds.output_bias"] = holds("output.bias");
  json["holds.qkv_bias"] = holds("blk.0.attn_q.bias") || holds("blk.0.attn_qkv.bias");
  json["holds.attn_output_bias"] = holds("blk.0.attn_output.bias");
  json["holds.ffn_bias"] = holds("blk.0.ffn_up.bias");
  add_factors(file, json);
  huggingface::ModelDescription out;
  out.family = &architecture(name);
  out.config = read_architecture(*out.family, json, file.path().string());
  out.special = special_tokens(file);
  return out;
}

Written write_model(const ModelSpec& spec, const Family& family) {
  Written out;
  const std::string name(family.type);
  out.keys.emplace_back("general.architecture", Value::text(name));
  const Json written = write_architecture(family, spec);
  for (const auto& [key, value] : written.items()) {
    if (key.starts_with("holds.")) continue;
    if (std::find(std::begin(kRopeFactors), std::end(kRopeFactors), key) != std::end(kRopeFactors)) {
      out.factors.emplace_back(key, value.get<std::vector<double>>());
      continue;
    }
    const std::string full = name + "." + key;
    if (value.is_boolean())
      out.keys.emplace_back(full, Value::boolean(value.get<bool>()));
    else if (value.is_number_integer())
      out.keys.emplace_back(full, Value::u32(value.get<std::uint32_t>()));
    else if (value.is_number())
      out.keys.emplace_back(full, Value::f32(value.get<float>()));
    else
      out.keys.emplace_back(full, Value::text(value.get<std::string>()));
  }
  return out;
}

}  // namespace stoa::model::gguf
