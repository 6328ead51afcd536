#include "data/provenance.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace stoa::data {

using nlohmann::json;
using nlohmann::ordered_json;

fs::path provenance_path(const fs::path& prefix) { return prefix.string() + ".stoa.json"; }

std::string to_json(const Provenance& p) {
  ordered_json sources = ordered_json::array();
  for (const auto& s : p.sources) sources.push_back({{"name", s.name}, {"bytes", s.bytes}});
  ordered_json j;
  j["format"] = 1;
  j["tokenizer"] = {
      {"fingerprint", p.tokenizer_fingerprint}, {"vocab_size", p.vocabulary}, {"eod_id", p.eod_id}};
  j["eod_appended"] = p.eod_appended;
  j["json_key"] = p.json_key;
  j["documents"] = p.documents;
  j["sequences"] = p.sequences;
  j["tokens"] = p.tokens;
  j["sources"] = std::move(sources);
  j["checksums"] = {{"bin", p.bin_checksum}, {"idx", p.idx_checksum}};
  // A file name need not be UTF-8.
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<Provenance> load_provenance(const fs::path& prefix) {
  const fs::path path = provenance_path(prefix);
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const std::string text = read_text(path);
  try {
    const json j = json::parse(text);
    require<DataError>(j.at("format").get<std::int64_t>() == 1, "'{}' has format {}; this version knows 1",
                       path.string(), j.at("format").dump());
    Provenance p;
    const json& tokenizer = j.at("tokenizer");
    p.tokenizer_fingerprint = tokenizer.at("fingerprint").get<std::string>();
    p.vocabulary = tokenizer.at("vocab_size").get<std::int64_t>();
    p.eod_id = tokenizer.at("eod_id").get<std::int64_t>();
    p.eod_appended = j.at("eod_appended").get<bool>();
    p.json_key = j.at("json_key").get<std::string>();
    p.documents = j.at("documents").get<std::int64_t>();
    p.sequences = j.at("sequences").get<std::int64_t>();
    p.tokens = j.at("tokens").get<std::int64_t>();
    for (const json& s : j.at("sources"))
      p.sources.push_back({s.at("name").get<std::string>(), s.at("bytes").get<std::uint64_t>()});
    p.bin_checksum = j.at("checksums").at("bin").get<std::string>();
    p.idx_checksum = j.at("checksums").at("idx").get<std::string>();
    return p;
  } catch (const json::exception& e) {
    fail<DataError>(
        "'{}' is not what Stoa writes next to token files ({}); remove it to use the data without it",
        path.string(), e.what());
  }
}

}  // namespace stoa::data
