#include "ckpt/training_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "ckpt/crc32.h"

namespace stoa::ckpt {
namespace {

using Json = nlohmann::json;
constexpr std::uintmax_t kMaxManifestBytes = 64'000'000;

Json to_json(const Manifest& manifest) {
  const TrainingState& t = manifest.training;
  Json metrics = Json::object();
  for (const auto& [name, value] : t.metrics)
    if (std::isfinite(value)) metrics[name] = value;
  Json files = Json::array();
  bool sums = false;
  for (const auto& file : manifest.files) {
    sums = sums || file.crc;
    files.push_back(
        {{"path", file.path}, {"bytes", file.bytes}, {file.crc ? "crc32" : "xxh3", file.checksum_text()}});
  }
  Json json = {{"format", sums ? Manifest::kFormat : 1},
               {"sequence", manifest.sequence},
               {"files", std::move(files)},
               {"training",
                {{"step", t.step},
                 {"samples", t.samples},
                 {"tokens", t.tokens},
                 {"data_cursor", t.data_cursor},
                 {"seed", t.seed},
                 {"loss_scale", t.loss_scale},
                 {"config_hash", t.config_hash},
                 {"tokenizer_fingerprint", t.tokenizer_fingerprint},
                 {"layout", t.layout},
                 {"metrics", std::move(metrics)},
                 {"counters", t.counters}}}};
  // Not in checkpoints of before: their checksums must come out the same.
  if (!t.data_parts.empty()) json["training"]["data_parts"] = t.data_parts;
  if (!t.settings.empty()) json["training"]["settings"] = t.settings;
  if (t.adam)
    json["training"]["adam"] = {
        {"beta1", t.adam->beta1}, {"beta2", t.adam->beta2}, {"epsilon", t.adam->epsilon}};
  return json;
}

std::string own_checksum(const Json& json) { return checksum_text(checksum(std::string_view(json.dump()))); }

bool stays_inside(const fs::path& path) {
  return path.is_relative() && !path.empty() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

std::uint64_t parse_checksum(const std::string& text, std::size_t digits) {
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  require<DataError>(
      text.size() == digits && result.ptr == text.data() + text.size() && result.ec == std::errc(),
      "'{}' is not a checksum", text);
  return value;
}

Manifest from_json(const Json& json) {
  Manifest manifest;
  manifest.sequence = json.at("sequence").get<std::int64_t>();
  for (const Json& file : json.at("files")) {
    FileRecord record{file.at("path").get<std::string>(), file.at("bytes").get<std::uint64_t>(), 0,
                      file.contains("crc32")};
    record.checksum = record.crc ? parse_checksum(file.at("crc32").get<std::string>(), 8)
                                 : parse_checksum(file.at("xxh3").get<std::string>(), 16);
    require<DataError>(stays_inside(record.path), "it names the file '{}'", record.path);
    manifest.files.push_back(std::move(record));
  }
  const Json& training = json.at("training");
  TrainingState& t = manifest.training;
  training.at("step").get_to(t.step);
  training.at("samples").get_to(t.samples);
  training.at("tokens").get_to(t.tokens);
  training.at("data_cursor").get_to(t.data_cursor);
  training.at("seed").get_to(t.seed);
  training.at("loss_scale").get_to(t.loss_scale);
  training.at("config_hash").get_to(t.config_hash);
  training.at("tokenizer_fingerprint").get_to(t.tokenizer_fingerprint);
  training.at("layout").get_to(t.layout);
  training.at("metrics").get_to(t.metrics);
  training.at("counters").get_to(t.counters);
  if (training.contains("data_parts")) training.at("data_parts").get_to(t.data_parts);
  if (training.contains("settings")) training.at("settings").get_to(t.settings);
  if (training.contains("adam")) {
    const Json& adam = training.at("adam");
    t.adam = {adam.at("beta1").get<double>(), adam.at("beta2").get<double>(),
              adam.at("epsilon").get<double>()};
  }
  return manifest;
}

}  // namespace

std::string FileRecord::checksum_text() const {
  return crc ? crc32_text(static_cast<std::uint32_t>(checksum)) : stoa::checksum_text(checksum);
}

std::string manifest_text(const Manifest& manifest) {
  Json json = to_json(manifest);
  for (const double x : manifest.training.loss_scale)
    require<InternalError>(std::isfinite(x), "the state of the loss scale holds {}", x);
  json["checksum"] = own_checksum(json);
  return json.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text, std::string_view source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  require<DataError>(json.is_object() && json.contains("format") && json["format"].is_number_integer(),
                     "'{}' is not a manifest of a checkpoint", source);
  require<DataError>(json["format"] <= Manifest::kFormat && json["format"] >= 1,
                     "'{}' has format {}; this program reads formats 1 to {}", source, json["format"].dump(),
                     Manifest::kFormat);
  try {
    const Manifest manifest = from_json(json);
    const std::string found = own_checksum(to_json(manifest)),
                      written = json.at("checksum").get<std::string>();
    require<DataError>(found == written, "its checksum is {}, not {}", found, written);
    return manifest;
  } catch (const Json::exception& e) {
    fail<DataError>("'{}' is damaged: {}", source, e.what());
  } catch (const DataError& e) {
    fail<DataError>("'{}' is damaged: {}", source, e.what());
  }
}

fs::path manifest_path(const fs::path& checkpoint) { return checkpoint / "state" / "manifest.json"; }

Manifest read_manifest(const fs::path& checkpoint) {
  const fs::path path = manifest_path(checkpoint);
  std::error_code error;
  const auto size = fs::file_size(path, error);
  require<IoError>(!error, "cannot read '{}': {}", path.string(), error.message());
  require<DataError>(size <= kMaxManifestBytes, "'{}' is too large for a manifest", path.string());
  return parse_manifest(read_text(path), path.string());
}

std::string master_name(std::string_view parameter) { return fmt::format("master/{}", parameter); }
std::string adam_m_name(std::string_view parameter) { return fmt::format("adam.m/{}", parameter); }
std::string adam_v_name(std::string_view parameter) { return fmt::format("adam.v/{}", parameter); }

}  // namespace stoa::ckpt
