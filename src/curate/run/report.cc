#include "curate/run/report.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "base/console.h"
#include "base/error.h"
#include "base/escape.h"
#include "curate/io/json_document.h"
#include "curate/run/excerpt.h"
#include "curate/run/measures.h"
#include "curate/run/page_style.h"
#include "curate/run/report_charts.h"
#include "curate/run/shard_lines.h"
#include "curate/text/character.h"
#include "curate/text/space_words.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kSamplesPerRule = 3, kBorderlinePerRule = 2, kMostClusters = 5, kCopiesPerCluster = 2,
                      kExcerptBytes = 700, kBeforeSpan = 150, kLongestSpan = 400;

// What a reader should look at first: of a rule about repetition the first line, else sequence of words, that
// comes again; of one about a phrase the phrase. Empty: nothing in particular.
std::string_view telling_span(std::string_view rule, std::string_view text) {
  for (const std::string_view phrase : {std::string_view("lorem ipsum"), std::string_view("javascript")})
    if (std::string key(phrase.substr(0, phrase.find(' '))); rule.find(key) != rule.npos) {
      std::string lower;
      append_lower(text, lower);
      const std::size_t at = lower.find(phrase);
      return at == lower.npos || lower.size() != text.size() ? std::string_view()
                                                             : text.substr(at, phrase.size());
    }
  if (rule.find("curly") != rule.npos)
    if (const std::size_t at = text.find('{'); at != text.npos) return text.substr(at, 1);
  if (rule.find("dup") == rule.npos && rule.find("gram") == rule.npos && rule.find("repeat") == rule.npos)
    return {};
  std::unordered_map<std::string_view, int> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (!strip(line).empty() && lines[line]++ == 1) return whole_characters(line, 0, kLongestSpan);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto words = split_at_white_space(text);
  for (const std::size_t n : {std::size_t{5}, std::size_t{2}}) {
    const NgramCounts ngrams(words, n);
    if (ngrams.most() < 2) continue;
    const std::size_t first = ngrams.most_frequent();
    const char* const begin = words[first].text.data();
    const std::string_view last = words[first + n - 1].text;
    return whole_characters(text, static_cast<std::size_t>(begin - text.data()),
                            std::min(static_cast<std::size_t>(last.data() + last.size() - text.data()),
                                     static_cast<std::size_t>(begin - text.data()) + kLongestSpan));
  }
  return {};
}

struct Sample {
  std::uint64_t order = 0;  // by a hash of the id: as good as random, and always the same
  std::string id, text;
};

// Keeps the first `most` by their order.
void keep_first(std::vector<Sample>& samples, Sample sample, std::size_t most) {
  const auto place = std::upper_bound(samples.begin(), samples.end(), sample,
                                      [](const Sample& a, const Sample& b) { return a.order < b.order; });
  if (place == samples.end() && samples.size() == most) return;
  samples.insert(place, std::move(sample));
  if (samples.size() > most) samples.pop_back();
}

struct Removed {
  std::vector<Sample> random, borderline;
};
struct Copies {
  std::int64_t number = -1;
  std::vector<Sample> documents;
};
struct Samples {
  std::map<std::string, Removed> removed;  // by reason
  std::map<std::uint64_t, Copies> copies;  // near-duplicates, by the hash of their cluster
};

// How far a measured document is from the limit of the rule that drops it, by id.
std::map<std::string, double> distances(const std::vector<MeasuredDocument>& measured) {
  std::map<std::string, double> out;
  for (const MeasuredDocument& document : measured)
    if (const Verdict::Value* first = document.first_failure(); first && first->limit != 0)
      out[document.id] = std::abs(first->value - first->limit) / std::abs(first->limit);
  return out;
}

// Documents that were removed, some of every reason, and near-duplicates with what stayed in their place.
Samples collect_samples(const fs::path& output, const Journal& journal,
                        const std::vector<MeasuredDocument>& measured) {
  Samples samples;
  const std::map<std::string, double> distance = distances(measured);
  JsonDocuments json("text", "id");
  Document document;
  const auto each = [&](const char* folder, auto&& visit) {
    for (std::int64_t s = 0; s < std::ssize(journal.shards()); ++s) {
      ShardLines lines(output / fmt::format("{}/{:05}.jsonl", folder, s));
      while (!lines.at_end()) {
        const std::string_view line = lines.next();
        visit(line, [&] {
          json.read(line.substr(0, line.size() - 1), lines.readable(), document);
          return Sample{XXH3_64bits(document.id.data(), document.id.size()), document.id, document.text};
        });
      }
    }
  };
  each("dropped", [&](std::string_view line, auto&& read) {
    const Sample sample = read();
    const auto members = nlohmann::json::parse(line, nullptr, false);
    const std::string reason = members.is_object() ? members.value("reason", std::string()) : std::string();
    Removed& own = samples.removed[reason];
    keep_first(own.random, sample, kSamplesPerRule);
    if (const auto found = distance.find(sample.id); found != distance.end()) {
      Sample near = sample;
      near.order = static_cast<std::uint64_t>(std::min(found->second, 1e6) * 1e9);
      keep_first(own.borderline, std::move(near), kBorderlinePerRule);
    }
    if (!members.is_object() || !members.contains("duplicate_cluster")) return;
    const auto number = members["duplicate_cluster"].get<std::int64_t>();
    const std::uint64_t order = XXH3_64bits(&number, sizeof(number));
    if (samples.copies.size() == kMostClusters && !samples.copies.contains(order)) {
      if (order > samples.copies.rbegin()->first) return;
      samples.copies.erase(std::prev(samples.copies.end()));
    }
    Copies& copies = samples.copies[order];
    copies.number = number;
    keep_first(copies.documents, sample, kCopiesPerCluster);
  });
  if (samples.copies.empty()) return samples;
  each("kept", [&](std::string_view line, auto&& read) {
    const std::size_t at = line.rfind("\"duplicate_cluster\":");
    if (at == line.npos) return;
    const std::int64_t number = std::atoll(line.data() + at + 20);
    const auto found = samples.copies.find(XXH3_64bits(&number, sizeof(number)));
    if (found != samples.copies.end() && found->second.number == number)
      found->second.documents.insert(found->second.documents.begin(), read());
  });
  return samples;
}

// The other rules of the pipeline that fail a text, by name.
std::string other_reasons(const Pipeline& pipeline, const Sample& sample, const std::string& reason) {
  std::string others;
  Document document{sample.id, sample.text, "", ""};
  Features features;
  features.reset(document.text);
  for (const NamedStage& stage : pipeline.stages) {
    Verdict verdict(Verdict::Mode::kMeasure);
    try {
      stage.stage->apply(document, features, verdict);
    } catch (const Error&) {
      break;  // a text that the run never took that far
    }
    for (const Verdict::Value& value : verdict.values()) {
      const std::string rule = stage.name + "/" + value.rule;
      if (value.fails && rule != reason && others.find(rule) == others.npos)
        others += (others.empty() ? "" : ", ") + rule;
    }
  }
  return others;
}

std::string sample_html(const Pipeline& pipeline, const std::string& reason, const Sample& sample) {
  const std::string_view text = sample.text, span = telling_span(reason, text);
  const std::size_t at = span.empty() ? 0 : static_cast<std::size_t>(span.data() - text.data());
  const std::size_t begin = at > kBeforeSpan ? at - kBeforeSpan : 0;
  const std::string_view before = whole_characters(text, begin, at);
  const std::string_view after = whole_characters(text, at + span.size(), at + span.size() + kExcerptBytes);
  std::string html = fmt::format("<p><b>{}</b> ({} bytes)", escape_html_characters(sample.id), text.size());
  if (const std::string others = other_reasons(pipeline, sample, reason); !others.empty())
    html += " would also fail " + escape_html_characters(others);
  return html + fmt::format("</p>\n<pre>{}{}{}{}{}</pre>\n", begin > 0 ? "… " : "",
                            escape_html_characters(before),
                            span.empty() ? "" : "<mark>" + escape_html_characters(span) + "</mark>",
                            escape_html_characters(after),
                            at + span.size() + kExcerptBytes < text.size() ? " …" : "");
}

// Near-duplicates next to each other, what the two first share at their beginning and end in grey.
std::string copies_html(const Copies& copies) {
  std::string html = fmt::format("<h3>Cluster {}</h3>\n<div class=\"copies\">", copies.number);
  std::size_t head = 0;
  if (copies.documents.size() > 1) {
    const std::string_view a = copies.documents[0].text, b = copies.documents[1].text;
    head = static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  }
  for (const Sample& sample : copies.documents) {
    const std::string_view text = sample.text;
    const std::size_t begin = head > kBeforeSpan && head < text.size() ? head - kBeforeSpan : 0;
    html += fmt::format(
        "<div><p><b>{}</b> ({} bytes)</p><pre>{}<i>{}</i>{}{}</pre></div>", escape_html_characters(sample.id),
        text.size(), begin > 0 ? "… " : "",
        escape_html_characters(whole_characters(text, begin, std::min(head, begin + kExcerptBytes))),
        escape_html_characters(whole_characters(text, std::max(head, begin), begin + kExcerptBytes)),
        begin + kExcerptBytes < text.size() ? " …" : "");
  }
  return html + "</div>\n";
}

std::string flow_row(const std::string& name, const Amount& amount, const Amount& all) {
  const double share =
      all.documents > 0 ? 100.0 * static_cast<double>(amount.documents) / static_cast<double>(all.documents)
                        : 0;
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f} %</td><td><div "
      "style=\"width:{:.2f}%\"></div></td></tr>\n",
      escape_html_characters(name), amount.documents, format_bytes(static_cast<double>(amount.bytes)), share,
      share);
}

}  // namespace

void write_report(const fs::path& output, const Pipeline& pipeline, const Json& subject,
                  const Journal& journal, const Flow& flow) {
  std::string html = page_head("Data run") +
                     "<h1>Data run</h1>\n<div class=\"wide\"><table class=\"flow\"><tr><th></th>"
                     "<th>documents</th><th>text</th><th>of read</th><th></th></tr>\n";
  html += flow_row("read", flow.read, flow.read) + flow_row("quarantined", flow.quarantined, flow.read);
  for (const auto& [rule, amount] : flow.dropped_in_order(stage_names(pipeline)))
    html += flow_row("dropped by " + rule, amount, flow.read);
  if (flow.cut.documents > 0) html += flow_row("cut out of", flow.cut, flow.read);
  const std::vector<MeasuredDocument> measured = read_measures(output, std::ssize(journal.shards()));
  const Samples samples = collect_samples(output, journal, measured);
  html += flow_row("kept", flow.kept, flow.read) +
          "</table></div>\n<p>A document is counted at the first rule that dropped it; <code>stoa data "
          "tag</code> and "
          "<code>stoa data decide</code> count every rule that fails it.</p>\n" +
          measures_html(measured) + "<h2>Samples of what was removed</h2>\n";
  for (const auto& [reason, removed] : samples.removed) {
    html += "<h3>" + escape_html_characters(reason) + "</h3>\n";
    for (const Sample& sample : removed.random) html += sample_html(pipeline, reason, sample);
    if (!removed.borderline.empty()) html += "<h4>Nearest to the limit</h4>\n";
    for (const Sample& sample : removed.borderline) html += sample_html(pipeline, reason, sample);
  }
  if (!samples.copies.empty()) html += "<h2>Near-duplicates, first what stayed</h2>\n";
  for (const auto& [order, copies] : samples.copies) html += copies_html(copies);
  html += "<h2>Pipeline</h2>\n<pre>" + escape_html_characters(pipeline.resolved) + "</pre></html>\n";
  write_text(output / "report.html", html);

  std::string sheet =
      fmt::format("# Datasheet\n\n{} documents, {} of text, kept of {} documents, {}.\n\n## Sources\n\n",
                  flow.kept.documents, format_bytes(static_cast<double>(flow.kept.bytes)),
                  flow.read.documents, format_bytes(static_cast<double>(flow.read.bytes)));
  const Json& inputs = subject.at("inputs");
  const bool collected = !inputs.empty() && inputs.front().contains("license");
  sheet += collected ? "| file | bytes | source | licence |\n|---|---|---|---|\n"
                     : "| file | bytes |\n|---|---|\n";
  for (const Json& input : inputs) {
    sheet += fmt::format("| {} | {} |", input.at("path").get<std::string>(),
                         input.at("bytes").get<std::int64_t>());
    if (collected)
      sheet += fmt::format(" {} | {} |", input.at("source").get<std::string>(),
                           input.at("license").get<std::string>());
    sheet += '\n';
  }
  sheet += "\n## What was removed\n\n| rule | documents | bytes of text |\n|---|---|---|\n";
  for (const auto& [rule, amount] : flow.dropped)
    sheet += fmt::format("| {} | {} | {} |\n", rule, amount.documents, amount.bytes);
  if (flow.cut.documents > 0)
    sheet += fmt::format("| cut out of documents | {} | {} |\n", flow.cut.documents, flow.cut.bytes);
  sheet +=
      "\n## Pipeline\n\n```yaml\n" + pipeline.resolved + "```\n\nChecksums of all files: `manifest.json`.\n";
  write_text(output / "DATASHEET.md", sheet);
}

}  // namespace stoa::curate
