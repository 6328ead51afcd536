#include "curate/run/decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "curate/run/journal.h"
#include "curate/run/run.h"
#include "curate/run/shard_lines.h"
#include "curate/run/tags.h"

namespace stoa::curate {
namespace {

using Json = nlohmann::ordered_json;
using Sense = Verdict::Sense;
constexpr std::size_t kWhatIfSteps = 12;

const char* sign_of(Sense sense) {
  return sense == Sense::kAtMost ? "<=" : sense == Sense::kAtLeast ? ">=" : "";
}

fs::path shard_file(const fs::path& root, const char* folder, std::int64_t shard) {
  return root / fmt::format("{}/{:05}.jsonl", folder, shard);
}

// A finished tagging run.
class TaggedRun {
 public:
  explicit TaggedRun(fs::path root) : root_(std::move(root)) {
    std::error_code error;
    require<ConfigError>(fs::exists(root_ / "manifest.json", error),
                         "'{}' holds no finished run of `stoa data tag`", root_.string());
    try {
      manifest_ = Json::parse(read_text(root_ / "manifest.json"));
      flow_ = flow_from_json(manifest_.at("flow"));
      require<ConfigError>(manifest_.value("tags", false),
                           "'{}' is the output of `stoa data run`; expected one of `stoa data tag`",
                           root_.string());
      for (const Json& file : manifest_.at("files")) {
        const std::string name = file.at("name");
        const std::size_t slash = name.find('/');
        require<DataError>(slash != name.npos, "'{}/manifest.json' names a file '{}'", root_.string(), name);
        shards_ = std::max<std::int64_t>(shards_, std::stoll(name.substr(slash + 1)) + 1);
      }
    } catch (const nlohmann::json::exception& e) {
      fail<DataError>("'{}/manifest.json' is damaged: {}", root_.string(), e.what());
    } catch (const std::logic_error& e) {
      fail<DataError>("'{}/manifest.json' is damaged: {}", root_.string(), e.what());
    }
  }
  std::int64_t shards() const { return shards_; }
  const Flow& flow() const { return flow_; }
  const Json& manifest() const { return manifest_; }
  fs::path file(const char* folder, std::int64_t shard) const { return shard_file(root_, folder, shard); }

  // Calls visit(TaggedDocument) for every document of a shard.
  template <class F>
  void each(std::int64_t shard, F&& visit) {
    ShardLines lines(file(kTagsFolder, shard));
    while (!lines.at_end()) {
      const std::string_view line = lines.next();
      visit(reader_.read(line.substr(0, line.size() - 1), lines.readable()));
    }
  }

 private:
  const fs::path root_;
  Json manifest_;
  Flow flow_;
  std::int64_t shards_ = 0;
  TagReader reader_;
};

// Limits that are not those of the tags, and what the tags know of rules.
class Limits {
 public:
  explicit Limits(const std::vector<std::string>& changes) {
    for (const std::string& change : changes) add(change);
  }

  // The side that `name` ("stage/rule", "stage/rule<=") means among those that were measured.
  static RuleSide side_named(std::string name, const std::map<RuleSide, RuleReport>& measured) {
    Sense sense = Sense::kNever;
    if (name.ends_with("<=") || name.ends_with(">=")) {
      sense = name.ends_with("<=") ? Sense::kAtMost : Sense::kAtLeast;
      name.resize(name.size() - 2);
    }
    std::vector<RuleSide> found;
    std::vector<std::string> names;
    for (const auto& [side, report] : measured) {
      names.push_back(side.rule);
      if (side.rule == name && (sense == Sense::kNever || sense == side.sense)) found.push_back(side);
    }
    require<ConfigError>(!found.empty(), "no rule '{}{}' was measured{}", name, sign_of(sense),
                         did_you_mean(name, names));
    require<ConfigError>(found.size() == 1, "the rule '{0}' has two limits; name one: '{0}<=' or '{0}>='",
                         name);
    return found.front();
  }

  void resolve(const std::map<RuleSide, RuleReport>& measured) {
    for (const auto& [name, value] : named_) {
      const RuleSide side = side_named(name, measured);
      require<ConfigError>(side.sense != Sense::kNever || value == 0,
                           "the rule '{}' has no limit; it can only be switched off", side.rule);
      changed_[side] = value;
    }
  }

  double limit(const RuleSide& side, double tagged) const {
    const auto found = changed_.find(side);
    return found == changed_.end() ? tagged : found->second;
  }
  bool is_off(const RuleSide& side) const {
    const auto found = changed_.find(side);
    return found != changed_.end() && found->second == 0;
  }
  Json to_json() const {
    Json json = Json::object();
    for (const auto& [side, value] : changed_) json[side.text()] = value;
    return json;
  }

 private:
  void add(const std::string& change) {
    const std::size_t equals = change.rfind('=');
    require<ConfigError>(equals != change.npos && equals > 0,
                         "a limit is RULE=VALUE, RULE<=VALUE or RULE>=VALUE; got '{}'", change);
    std::string name = change.substr(0, equals);
    const std::string text = change.substr(equals + 1);
    if (name.back() == '<' || name.back() == '>') name += '=';
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    require<ConfigError>(
        text == "off" || (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)),
        "the limit of '{}' is a number or `off`; got '{}'", name, text);
    named_.emplace_back(std::move(name), text == "off" ? 0 : value);
  }

  std::vector<std::pair<std::string, double>> named_;
  std::map<RuleSide, double> changed_;
};

bool fails_with(const Verdict::Value& value, const RuleSide& side, const Limits& limits) {
  if (value.sense == Sense::kNever) return !limits.is_off(side);
  return Verdict::is_beyond(value.value, value.sense, limits.limit(side, value.limit));
}

// What the tags hold: rules in the order in which they decide, with the limits of the pipeline.
struct Measured {
  std::map<RuleSide, RuleReport> by_side;
  std::vector<RuleSide> order;
};
Measured measured_rules(TaggedRun& run) {
  Measured found;
  for (std::int64_t s = 0; s < run.shards(); ++s)
    run.each(s, [&](const TaggedDocument& document) {
      std::size_t place = 0;  // after the rule of the document before
      for (const Verdict::Value& value : document.values) {
        RuleSide side{value.rule, value.sense};
        if (place < found.order.size() && found.order[place] == side) {
          ++place;
          continue;
        }
        if (const auto known = found.by_side.find(side); known == found.by_side.end()) {
          found.by_side[side].limit = value.limit;
          found.order.insert(found.order.begin() + static_cast<std::ptrdiff_t>(place), side);
        } else {
          place = static_cast<std::size_t>(std::find(found.order.begin(), found.order.end(), side) -
                                           found.order.begin());
        }
        ++place;
      }
    });
  return found;
}

struct Candidate {
  double value = 0;
  std::int64_t bytes = 0;
};

// `candidates`: documents that all other rules keep, with their value of the rule.
std::vector<WhatIf> what_if(std::vector<Candidate> candidates, const RuleSide& side, double limit,
                            Amount without) {
  std::vector<double> limits{0, limit};
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.value < b.value; });
  for (std::size_t i = 0; i < kWhatIfSteps && !candidates.empty(); ++i)
    limits.push_back(candidates[i * (candidates.size() - 1) / (kWhatIfSteps - 1)].value);
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  std::vector<WhatIf> points;
  for (const double at : limits) {
    WhatIf point{at, without, {}};
    for (const Candidate& c : candidates) {
      const bool drops = Verdict::is_beyond(c.value, side.sense, at);
      (drops ? point.dropped : point.kept).add(c.bytes);
    }
    points.push_back(point);
  }
  return points;
}

void write_decided(TaggedRun& run, const Limits& limits, const DecideOptions& options, Decision& decision,
                   Console& console, const std::stop_token& stop) {
  const Json subject{{"tagged", options.tagged.string()},
                     {"pipeline", run.manifest().at("pipeline")},
                     {"inputs", run.manifest().at("inputs")},
                     {"limits", limits.to_json()}};
  Journal journal(options.output, subject);
  Progress progress(console, "decide", static_cast<double>(run.shards()), " shards");
  for (std::int64_t s = std::ssize(journal.shards()); s < run.shards(); ++s) {
    require<Interrupted>(!stop.stop_requested(),
                         "interrupted after {} shards; the same command continues from there", s);
    ShardLines documents(run.file("kept", s)), dropped(run.file("dropped", s)),
        quarantine(run.file("quarantine", s));
    ShardRecord record;
    record.next = {s + 1, 0};
    Shard shard(options.output, s);
    run.each(s, [&](const TaggedDocument& document) {
      const std::string_view line = documents.next();
      record.flow.read.add(document.bytes);
      for (const Verdict::Value& value : document.values) {
        if (!fails_with(value, {value.rule, value.sense}, limits)) continue;
        record.flow.dropped[value.rule].add(document.bytes);
        return shard.add(Fate::kDropped, with_members(line, fmt::format("\"reason\":\"{}\"", value.rule)));
      }
      record.flow.kept.add(document.bytes);
      shard.add(Fate::kKept, line);
    });
    while (!dropped.at_end()) shard.add(Fate::kDropped, dropped.next());
    while (!quarantine.at_end()) shard.add(Fate::kQuarantined, quarantine.next());
    record.files = shard.commit();
    journal.add(std::move(record));
    progress.update(static_cast<double>(s + 1));
  }
  progress.finish();
  if (!fs::exists(options.output / "manifest.json"))
    write_manifest(options.output / "manifest.json", subject, journal, decision.flow);
}

std::string table_row(std::string_view name, const Amount& first, const Amount& any, const Amount& all) {
  const auto share = [&](const Amount& amount) {
    return all.documents > 0
               ? 100.0 * static_cast<double>(amount.documents) / static_cast<double>(all.documents)
               : 0;
  };
  return fmt::format("{:<64} {:>10} {:>10} {:>7.2f} % {:>10} {:>7.2f} %\n", name, first.documents,
                     format_bytes(static_cast<double>(first.bytes)), share(first), any.documents, share(any));
}

std::string limit_text(double limit) { return limit == 0 ? "off" : fmt::format("{}", limit); }

}  // namespace

std::string RuleSide::text() const { return rule + sign_of(sense); }

Decision decide(const DecideOptions& options, Console& console, const std::stop_token& stop) {
  TaggedRun run(options.tagged);
  Measured measured = measured_rules(run);
  Limits limits(options.limits);
  limits.resolve(measured.by_side);
  Decision decision;
  decision.flow = run.flow();  // what had no text to judge, and what is in quarantine
  decision.flow.kept = {};
  RuleSide asked;
  if (!options.what_if.empty()) {
    asked = Limits::side_named(options.what_if, measured.by_side);
    require<ConfigError>(asked.sense != Sense::kNever, "the rule '{}' has no limit", asked.rule);
  }
  std::vector<Candidate> candidates;
  Amount without;  // kept by all other rules, without a value of the rule that is asked for
  for (std::int64_t s = 0; s < run.shards(); ++s) {
    require<Interrupted>(!stop.stop_requested(), "interrupted");
    run.each(s, [&](const TaggedDocument& document) {
      bool dropped = false, otherwise = false;
      const Verdict::Value* value_asked = nullptr;
      for (const Verdict::Value& value : document.values) {
        RuleSide side{value.rule, value.sense};
        if (side == asked) value_asked = &value;
        if (!fails_with(value, side, limits)) continue;
        RuleReport& report = measured.by_side[side];
        report.any.add(document.bytes);
        otherwise = otherwise || side != asked;
        if (dropped) continue;
        dropped = true;
        report.first.add(document.bytes);
        decision.flow.dropped[value.rule].add(document.bytes);
      }
      if (!dropped) decision.flow.kept.add(document.bytes);
      if (otherwise || options.what_if.empty()) return;
      if (value_asked != nullptr)
        candidates.push_back({value_asked->value, document.bytes});
      else
        without.add(document.bytes);
    });
  }
  for (const RuleSide& side : measured.order) {
    RuleReport report = measured.by_side[side];
    report.limit = limits.limit(side, report.limit);
    decision.rules.emplace_back(side, report);
  }
  if (!options.what_if.empty())
    decision.what_if =
        what_if(std::move(candidates), asked, limits.limit(asked, measured.by_side[asked].limit), without);
  if (!options.output.empty()) write_decided(run, limits, options, decision, console, stop);
  return decision;
}

Json to_json(const Decision& decision) {
  const auto amount = [](const Amount& a) { return Json{{"documents", a.documents}, {"bytes", a.bytes}}; };
  Json rules = Json::array(), points = Json::array();
  for (const auto& [side, report] : decision.rules)
    rules.push_back({{"rule", side.rule},
                     {"keeps", side.sense == Sense::kNever ? Json() : Json(sign_of(side.sense))},
                     {"limit", report.limit},
                     {"first", amount(report.first)},
                     {"any", amount(report.any)}});
  for (const WhatIf& point : decision.what_if)
    points.push_back(
        {{"limit", point.limit}, {"kept", amount(point.kept)}, {"dropped", amount(point.dropped)}});
  Json json{{"flow", to_json(decision.flow)}, {"rules", std::move(rules)}};
  if (!decision.what_if.empty()) json["what_if"] = std::move(points);
  return json;
}

std::string decision_table(const Decision& decision) {
  const Amount& all = decision.flow.read;
  std::string text = fmt::format("{:<64} {:>10} {:>10} {:>9} {:>10} {:>9}\n", "", "first", "text", "of read",
                                 "any", "of read");
  text += table_row("read", all, all, all);
  for (const auto& [side, report] : decision.rules)
    if (report.any.documents > 0)
      text +=
          table_row(side.sense == Sense::kNever ? side.rule
                                                : fmt::format("{} {}", side.text(), limit_text(report.limit)),
                    report.first, report.any, all);
  text += table_row("kept", decision.flow.kept, decision.flow.kept, all);
  if (decision.what_if.empty()) return text;
  text += fmt::format("\n{:>24} {:>12} {:>10} {:>20}\n", "limit", "kept", "text", "dropped by it alone");
  for (const WhatIf& point : decision.what_if)
    text += fmt::format("{:>24} {:>12} {:>10} {:>20}\n", limit_text(point.limit), point.kept.documents,
                        format_bytes(static_cast<double>(point.kept.bytes)), point.dropped.documents);
  return text;
}

}  // namespace stoa::curate
