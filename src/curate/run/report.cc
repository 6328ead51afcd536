#include "curate/run/report.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/console.h"
#include "base/error.h"
#include "curate/io/json_document.h"
#include "curate/run/shard_lines.h"
#include "curate/text/character.h"
#include "curate/text/space_words.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kSamplesPerRule = 3, kExcerptBytes = 700, kBeforeSpan = 150, kLongestSpan = 400;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

// Part of a text, cut between characters.
std::string_view whole_characters(std::string_view text, std::size_t begin, std::size_t end) {
  const auto inside = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  end = std::min(end, text.size());
  while (begin > 0 && inside(begin)) --begin;
  while (end > begin && inside(end)) --end;
  return text.substr(begin, end - begin);
}

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

// The member "reason" of a line that this program wrote.
std::string reason_of(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  return json.is_object() ? json.value("reason", std::string()) : std::string();
}

struct Sample {
  std::uint64_t order = 0;  // by a hash of the id: as good as random, and always the same
  std::string id, text;
};

// The samples of every reason in dropped/.
std::map<std::string, std::vector<Sample>> collect_samples(const fs::path& output, const Journal& journal) {
  std::map<std::string, std::vector<Sample>> samples;
  JsonDocuments json("text", "id");
  Document document;
  for (std::int64_t s = 0; s < std::ssize(journal.shards()); ++s) {
    ShardLines lines(output / fmt::format("dropped/{:05}.jsonl", s));
    while (!lines.at_end()) {
      const std::string_view line = lines.next();
      json.read(line.substr(0, line.size() - 1), lines.readable(), document);
      const std::string reason = reason_of(line);
      Sample sample{XXH3_64bits(document.id.data(), document.id.size()), document.id, {}};
      auto& own = samples[reason];
      const auto place = std::upper_bound(own.begin(), own.end(), sample,
                                          [](const Sample& a, const Sample& b) { return a.order < b.order; });
      if (place == own.end() && own.size() == kSamplesPerRule) continue;
      sample.text = document.text;
      own.insert(place, std::move(sample));
      if (own.size() > kSamplesPerRule) own.pop_back();
    }
  }
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
  std::string html = fmt::format("<p><b>{}</b> ({} bytes)", escaped(sample.id), text.size());
  if (const std::string others = other_reasons(pipeline, sample, reason); !others.empty())
    html += " would also fail " + escaped(others);
  return html + fmt::format("</p>\n<pre>{}{}{}{}{}</pre>\n", begin > 0 ? "… " : "", escaped(before),
                            span.empty() ? "" : "<mark>" + escaped(span) + "</mark>", escaped(after),
                            at + span.size() + kExcerptBytes < text.size() ? " …" : "");
}

std::string flow_row(const std::string& name, const Amount& amount, const Amount& all) {
  const double share =
      all.documents > 0 ? 100.0 * static_cast<double>(amount.documents) / static_cast<double>(all.documents)
                        : 0;
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f} %</td><td><div "
      "style=\"width:{:.2f}%\"></div></td></tr>\n",
      escaped(name), amount.documents, format_bytes(static_cast<double>(amount.bytes)), share, share);
}

}  // namespace

void write_report(const fs::path& output, const Pipeline& pipeline, const Json& subject,
                  const Journal& journal, const Flow& flow) {
  std::string html =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Data "
      "run</title><style>body{font:15px/1.4 sans-serif;max-width:70em;margin:2em auto}"
      "table{border-collapse:collapse;width:100%}td,th{padding:.2em "
      ".6em;text-align:right}td:first-child,th:first-child{text-align:left}"
      "td:last-child{width:30%}td "
      "div{background:#58a;height:.8em}pre{white-space:pre-wrap;background:#f4f4f4;padding:.6em}mark{"
      "background:#fd6}</style>\n"
      "<h1>Data run</h1>\n<table><tr><th></th><th>documents</th><th>text</th><th>of "
      "read</th><th></th></tr>\n";
  html += flow_row("read", flow.read, flow.read) + flow_row("quarantined", flow.quarantined, flow.read);
  for (const auto& [rule, amount] : flow.dropped) html += flow_row("dropped by " + rule, amount, flow.read);
  if (flow.cut.documents > 0) html += flow_row("cut out of", flow.cut, flow.read);
  html +=
      flow_row("kept", flow.kept, flow.read) +
      "</table>\n<p>A document is counted at the first rule that dropped it; <code>stoa data tag</code> and "
      "<code>stoa data decide</code> count every rule that fails it.</p>\n<h2>Samples of what was "
      "removed</h2>\n";
  for (const auto& [reason, samples] : collect_samples(output, journal)) {
    html += "<h3>" + escaped(reason) + "</h3>\n";
    for (const Sample& sample : samples) html += sample_html(pipeline, reason, sample);
  }
  html += "<h2>Pipeline</h2>\n<pre>" + escaped(pipeline.resolved) + "</pre></html>\n";
  write_text(output / "report.html", html);

  std::string sheet = fmt::format(
      "# Datasheet\n\n{} documents, {} of text, kept of {} documents, {}.\n\n## Sources\n\n| file | bytes "
      "|\n|---|---|\n",
      flow.kept.documents, format_bytes(static_cast<double>(flow.kept.bytes)), flow.read.documents,
      format_bytes(static_cast<double>(flow.read.bytes)));
  for (const Json& input : subject.at("inputs"))
    sheet += fmt::format("| {} | {} |\n", input.at("path").get<std::string>(),
                         input.at("bytes").get<std::int64_t>());
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
