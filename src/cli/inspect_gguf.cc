#include "cli/inspect_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "cli/print.h"
#include "formats/gguf/gguf_file.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

// Long texts and arrays by their sizes.
Json json_of(const gguf::Value& value) {
  if (value.is_array() || (value.text_at() && value.text_at()->size() > 200)) return value.shown();
  if (const auto* text = value.text_at()) return *text;
  if (const auto on = value.flag()) return *on;
  if (const auto whole = value.integer()) return *whole;
  return value.real() ? Json(*value.real()) : Json(value.bits());
}

}  // namespace

void inspect_gguf(const std::filesystem::path& path, bool json) {
  const gguf::File file(path);
  if (json) {
    Json keys = Json::object(), tensors = Json::array();
    for (const auto& [key, value] : file.keys()) keys[key] = json_of(value);
    for (const auto& tensor : file.tensors())
      tensors.push_back({{"name", tensor.name},
                         {"dtype", tensor.format->name},
                         {"shape", tensor.shape},
                         {"bytes", tensor.bytes.size()}});
    return print_json(Json{{"path", path.string()},
                           {"kind", "GGUF model"},
                           {"version", file.first().version},
                           {"files", file.parts()},
                           {"keys", std::move(keys)},
                           {"model", std::move(tensors)}});
  }
  std::string out = fmt::format("{} (GGUF model, version {})\n\n", path.string(), file.first().version);
  std::size_t width = 4;
  for (const auto& [key, value] : file.keys()) width = std::max(width, key.size());
  for (const auto& [key, value] : file.keys())
    out += fmt::format("  {:<{}}  {:<5}  {}\n", key, width, gguf::name_of(value.type()), value.shown());
  std::int64_t numbers = 0;
  std::map<std::string_view, int> formats;
  width = 4;
  for (const auto& tensor : file.tensors()) {
    numbers += tensor.numbers();
    ++formats[tensor.format->name];
    width = std::max(width, tensor.name.size());
  }
  std::string kinds;
  for (const auto& [name, count] : formats)
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, name);
  out += fmt::format("\n{} tensors ({}), {} numbers, {} in {} files\n", file.tensors().size(), kinds,
                     format_count(static_cast<double>(numbers)),
                     format_bytes(static_cast<double>(file.tensor_bytes())), file.parts());
  for (const auto& tensor : file.tensors()) {
    std::string shape;
    for (const auto size : tensor.shape) shape += fmt::format("{}{}", shape.empty() ? "[" : ", ", size);
    out += fmt::format("  {:<{}}  {:<7}  {:>18}  {:>10}\n", tensor.name, width, tensor.format->name,
                       shape + "]", format_bytes(static_cast<double>(tensor.bytes.size())));
  }
  print(out);
}

}  // namespace stoa::cli
