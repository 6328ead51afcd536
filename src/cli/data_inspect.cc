#include "cli/data_inspect.h"

#include <algorithm>
#include <bit>

#include "base/console.h"
#include "base/error.h"
#include "base/escape.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::int64_t> document_lengths(const data::IndexedDataset& data) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t d = 0; d < data.documents(); ++d) {
    std::int64_t n = 0;
    for (std::int64_t s = data.document_start(d); s < data.document_start(d + 1); ++s) n += data.length(s);
    lengths.push_back(n);
  }
  return lengths;
}

Json summary_of(std::vector<std::int64_t> lengths) {
  if (lengths.empty()) return Json::object();
  std::sort(lengths.begin(), lengths.end());
  const auto at = [&](double share) {
    return lengths[std::min(lengths.size() - 1,
                            static_cast<std::size_t>(share * static_cast<double>(lengths.size())))];
  };
  double sum = 0;
  std::vector<std::int64_t> bins;  // bin b: lengths below 2^b, not below 2^(b-1)
  for (const std::int64_t n : lengths) {
    sum += static_cast<double>(n);
    const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(n)));
    if (bins.size() <= bin) bins.resize(bin + 1);
    ++bins[bin];
  }
  Json histogram = Json::array();
  for (std::size_t b = 0; b < bins.size(); ++b) {
    if (bins[b] == 0) continue;
    const std::int64_t from = b == 0 ? 0 : std::int64_t{1} << (b - 1),
                       to = b == 0 ? 0 : (std::int64_t{1} << b) - 1;
    histogram.push_back({{"from", from}, {"to", to}, {"documents", bins[b]}});
  }
  return {
      {"min", lengths.front()}, {"median", at(0.5)},     {"mean", sum / static_cast<double>(lengths.size())},
      {"p90", at(0.9)},         {"max", lengths.back()}, {"histogram", std::move(histogram)}};
}

std::vector<std::int32_t> first_tokens(const data::IndexedDataset& data, std::int64_t document,
                                       std::int64_t most) {
  std::vector<std::int32_t> ids;
  for (std::int64_t s = data.document_start(document); s < data.document_start(document + 1); ++s) {
    const auto had = ids.size();
    const auto more = std::min<std::int64_t>(data.length(s), most - static_cast<std::int64_t>(had));
    ids.resize(had + static_cast<std::size_t>(more));
    data.read(s, 0, std::span(ids).subspan(had));
  }
  return ids;
}

}  // namespace

Json inspect_data(const data::IndexedDataset& data, const std::optional<token::Tokenizer>& tokenizer,
                  const InspectOptions& options) {
  Json report;
  report["prefix"] = data.prefix().string();
  report["dtype"] = data::token_dtype_name(data.dtype());
  report["documents"] = data.documents();
  report["sequences"] = data.sequences();
  report["tokens"] = data.tokens();
  report["bin_bytes"] = data.bin_bytes().size();
  report["idx_bytes"] = data.idx_bytes().size();
  report["lengths"] = summary_of(document_lengths(data));
  const auto& p = data.provenance();
  if (p) {
    report["tokenizer"] = {
        {"fingerprint", p->tokenizer_fingerprint}, {"vocab_size", p->vocabulary}, {"eod_id", p->eod_id}};
    report["eod_appended"] = p->eod_appended;
    Json sources = Json::array();
    for (const auto& s : p->sources) sources.push_back({{"name", s.name}, {"bytes", s.bytes}});
    report["sources"] = std::move(sources);
  } else {
    report["tokenizer"] = nullptr;
  }
  if (tokenizer && p) report["tokenizer_matches"] = tokenizer->fingerprint() == p->tokenizer_fingerprint;
  if (options.verify) {
    report["checksums"] = data.verify_checksums() ? "good" : "none recorded";
    const std::int64_t vocabulary = tokenizer ? tokenizer->vocab_size() : p ? p->vocabulary : 0;
    if (vocabulary > 0) data.require_ids_below(vocabulary);
    report["ids"] =
        vocabulary > 0 ? fmt::format("all below {}", vocabulary) : std::string("vocabulary unknown");
  }
  Json documents = Json::array();
  for (std::int64_t d = 0; d < std::min(options.documents, data.documents()); ++d) {
    const auto ids = first_tokens(data, d, options.tokens);
    Json document{{"document", d}, {"ids", ids}};
    const bool known = std::all_of(ids.begin(), ids.end(), [&](auto id) {
      return tokenizer && id >= 0 && id < tokenizer->vocab_size();
    });
    if (tokenizer && known) document["text"] = tokenizer->decode(ids);
    documents.push_back(std::move(document));
  }
  report["first_documents"] = std::move(documents);
  return report;
}

std::string describe_inspection(const Json& r) {
  const auto count = [](const Json& n) { return n.get<std::int64_t>(); };
  std::string out =
      fmt::format("{}: {} documents, {} sequences, {} tokens ({}), {}\n", r["prefix"].get<std::string>(),
                  count(r["documents"]), count(r["sequences"]), count(r["tokens"]),
                  r["dtype"].get<std::string>(), format_bytes(r["bin_bytes"].get<double>()));
  if (r["tokenizer"].is_null()) {
    out += "tokenizer: unknown (no .stoa.json next to the files)\n";
  } else {
    const Json& t = r["tokenizer"];
    out += fmt::format("tokenizer: fingerprint {}, {} entries, end of document {}{}\n",
                       t["fingerprint"].get<std::string>(), count(t["vocab_size"]), count(t["eod_id"]),
                       r["eod_appended"].get<bool>() ? "" : " (not appended)");
    for (const Json& s : r["sources"])
      out += fmt::format("source: {} ({})\n", s["name"].get<std::string>(),
                         format_bytes(s["bytes"].get<double>()));
  }
  if (r.contains("tokenizer_matches"))
    out += r["tokenizer_matches"].get<bool>() ? "the data was prepared with the given tokenizer\n"
                                              : "the data was NOT prepared with the given tokenizer\n";
  if (r.contains("checksums"))
    out += fmt::format("checksums: {}; ids: {}\n", r["checksums"].get<std::string>(),
                       r["ids"].get<std::string>());
  if (const Json& l = r["lengths"]; !l.empty()) {
    out += fmt::format("tokens per document: min {}, median {}, mean {:.1f}, 90 % below {}, max {}\n",
                       count(l["min"]), count(l["median"]), l["mean"].get<double>(), count(l["p90"]),
                       count(l["max"]));
    std::int64_t most = 1;
    for (const Json& bin : l["histogram"]) most = std::max(most, count(bin["documents"]));
    for (const Json& bin : l["histogram"]) {
      const auto width = static_cast<std::size_t>((count(bin["documents"]) * 40 + most - 1) / most);
      out += fmt::format("  {:>10} - {:<10} {:>10}  {}\n", count(bin["from"]), count(bin["to"]),
                         count(bin["documents"]), std::string(width, '#'));
    }
  }
  for (const Json& d : r["first_documents"]) {
    out += fmt::format("document {}: ", count(d["document"]));
    if (d.contains("text")) {
      out += escape_controls(d["text"].get<std::string>()) + "\n";
    } else {
      for (const Json& id : d["ids"]) out += fmt::format("{} ", count(id));
      out += "\n";
    }
  }
  return out;
}

}  // namespace stoa::cli
