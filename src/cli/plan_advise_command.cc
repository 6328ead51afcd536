// `stoa plan advise`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/plan_predict_command.h"
#include "cli/plan_subject.h"
#include "cli/print.h"
#include "plan/error_band.h"
#include "plan/money.h"
#include "plan/page.h"
#include "plan/search_report.h"
#include "plan/search_space.h"
#include "train/layout_plan.h"
#include "watch/chart.h"

namespace stoa::cli {
namespace {

struct AdviseArguments {
  PlanSubjectArguments subject;
  std::optional<std::int64_t> gpus, beside_gpus;
  std::string beside, output, target = "stoa";
  std::vector<double> times{2, 4};
  std::optional<double> price, beside_price, checkpoint_minutes, failures;
  bool json = false;
};

// Replaces the cluster's price and failure rate by those given on the command line.
void amend(plan::Economy& economy, const std::optional<double>& price, const AdviseArguments& a) {
  if (price) economy.price_per_device_hour = price;
  if (a.failures) economy.failures_per_device_year = *a.failures;
}

// The layout of the configuration, in the form of a search result.
plan::Found as_found(PlanSubject& s, plan::SearchTarget bytes) {
  const auto& o = s.training.options;
  plan::Found found;
  found.workload = s.workload;
  found.point = {o.layout, o.micro_batch, o.microbatches, o.model.config.recompute};
  found.time = plan::predict_time(s.workload, s.cluster, s.constants->constants);
  found.seconds = found.time.sum();
  found.memory = plan::fullest_device(bytes, *s.memory_model, s.workload, found.point);
  return found;
}

// Size of a checkpoint: master weights and moments, 12 bytes per parameter, and the model's weights, 2 bytes
// per parameter.
double checkpoint_bytes(const PlanSubject& s) { return 14 * parameters_of(s); }

plan::SearchRequest request_of(const PlanSubject& s, std::int64_t devices, plan::SearchTarget bytes) {
  plan::SearchRequest request;
  request.workload = s.workload;
  request.devices = devices;
  request.memory = s.memory;
  request.top = 1;
  request.front_within = 1;
  request.batch_tolerance = 0.05;
  request.target = bytes == plan::SearchTarget::kStoa ? plan::usual_target(s.cluster) : bytes;
  request.bytes = bytes;
  request.workload.software.overlap_gradients = true;
  request.workload.software.overlap_parameters = request.target != plan::SearchTarget::kStoa;
  return request;
}

// The subject on the number of devices asked for, or, where the configured layout or batch does not divide
// them, on the nearest smaller number that it does; `note` says so and proposes.
std::unique_ptr<PlanSubject> load_subject(const AdviseArguments& a, Console& console, std::string& note) {
  std::string why;
  try {
    return load_plan_subject(a.subject, console, a.gpus);
  } catch (const ConfigError& error) {
    if (!a.gpus) throw;
    why = error.what();  // the keys concerned, and on the lines below the rules
    if (const auto rule = why.find_first_not_of("\n -", why.find('\n'));
        rule != std::string::npos && rule > 0)
      why = why.substr(rule, why.find('\n', rule) - rule);
  }
  Console silent(Console::Level::kQuiet);
  const auto loads = [&](std::int64_t devices) -> std::unique_ptr<PlanSubject> {
    try {
      return load_plan_subject(a.subject, silent, devices);
    } catch (const ConfigError&) {
      return nullptr;
    }
  };
  std::unique_ptr<PlanSubject> below;
  std::int64_t less = *a.gpus - 1, more = *a.gpus + 1;
  for (; less > 0 && !(below = loads(less)); --less) {
  }
  require<ConfigError>(below != nullptr, "{}", why);
  for (; more <= 2 * *a.gpus && !loads(more); ++more) {
  }
  note = fmt::format(
      "{} devices do not suit the configured layout and batch ({}); {} of them do{}: what follows is for {}",
      *a.gpus, why, less, more <= 2 * *a.gpus ? fmt::format(", and so do {}", more) : "", less);
  return below;
}

// The answers, as text, as JSON and as a page.
class Advice {
 public:
  Advice(const AdviseArguments& a, PlanSubject& s, Console& console, const std::string& note)
      : a_(a),
        s_(s),
        console_(console),
        bytes_(whose_bytes_of(s, choice<plan::SearchTarget>(a.target, "--target"))),
        now_(as_found(s, bytes_)),
        request_(request_of(s, s.workload.devices(), bytes_)) {
    steps_ = static_cast<double>(s.config.trainer.max_steps.value_or(0));
    neighbours_ = plan::neighbours(*s.memory_model, request_, s.cluster, s.constants->constants, now_);
    page_.title =
        fmt::format("Advice: {} on {} x {}", s.config.name, s.workload.devices(), s.cluster.device.name);
    if (!note.empty()) {
      text_ += "note: " + note + "\n\n";
      json_["note"] = note;
      page_.assumptions.push_back(note);
    }
    propose(note);
  }

  void fit() {
    const double bytes = static_cast<double>(now_.memory.total), free = s_.memory - bytes;
    json_["fits"] = {{"fits", free >= 0},
                     {"memory_bytes", bytes},
                     {"limit_bytes", s_.memory},
                     {"free_bytes", free},
                     {"whose_bytes", plan::whose_bytes(bytes_)}};
    const std::string verdict =
        fmt::format("{}: {:.1f} GB of {:.1f} GB per device ({}), {:.1f} GB {} ({})", free >= 0 ? "Yes" : "No",
                    bytes / 1e9, s_.memory / 1e9, s_.cluster.device.name, std::abs(free) / 1e9,
                    free >= 0 ? "free" : "too much", plan::whose_bytes(bytes_));
    text_ += fmt::format("Does it fit?  {}\n", verdict);
    page_.tiles.emplace_back("fits", free >= 0 ? "yes" : "no");
    page_.tiles.emplace_back("memory per device", format_bytes(bytes));
    std::vector<std::pair<std::string, std::string>> rows{{"as configured", verdict},
                                                          {"layout", plan::describe(now_)}};
    const std::string change = free >= 0 ? "" : what_would_fit();
    if (!change.empty()) {
      text_ += "  " + change + "\n";
      rows.emplace_back("what would", change);
    }
    page_.sections.emplace_back("Does it fit?", plan::facts(rows));
  }

  void how_long() {
    text_ += "\nHow long, and how much?\n";
    json_["cost"] = nlohmann::ordered_json::array();
    const plan::SearchResult best = search(request_);
    const bool fits = static_cast<double>(now_.memory.total) <= s_.memory;
    const bool other = !best.best.empty() && plan::describe(best.best.front()) != plan::describe(now_);
    // The page's figures are those of what can run.
    double here = fits || !other
                      ? cost(s_, now_, fits ? "as configured" : "as configured, which does not fit", true)
                      : cost(s_, now_, "as configured, which does not fit", false);
    if (other && (!fits || !a_.beside.empty()))
      here = cost(s_, best.best.front(), plan::describe(best.best.front()), !fits);
    const auto nearest = nearest_published(s_.workload, s_.cluster, s_.calibration);
    for (const auto& run : nearest) text_ += "  near it: " + run + "\n";
    json_["nearest_published"] = nearest;
    if (!a_.beside.empty()) beside(here);
    std::vector<std::string> head{"cluster, layout", "s per step", "8 of 10 within, s", "days",
                                  "device-hours",    "rent",       "power, MWh",        "in all"};
    page_.sections.emplace_back("How long, and how much?", plan::table(head, money_rows_));
    for (const auto& run : nearest) page_.assumptions.push_back("measured near it: " + run);
  }

  void what_is_slow() {
    text_ += "\nWhat is slow?\n";
    nlohmann::ordered_json parts;
    std::vector<std::pair<std::string, double>> shares;
    for (const auto& [name, seconds] : now_.time.parts()) {
      parts[std::string(name)] = seconds;
      shares.emplace_back(name, seconds);
      if (seconds > 0.005 * now_.seconds)
        text_ += fmt::format("  {:<20}{:>9.3f} s{:>7.1f} %\n", name, seconds, 100 * seconds / now_.seconds);
    }
    page_.sections.emplace_back("What is slow?", plan::bars(shares, now_.seconds, "s"));
    // GEMMs and attention are the work itself, not overhead.
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto& [name, seconds] : now_.time.parts()) {
      if (name == "linear layers" || name == "attention") continue;
      text_ += fmt::format("  largest overhead: {} ({:.1f} %)\n", name, 100 * seconds / now_.seconds);
      rows.emplace_back("largest overhead", fmt::format("{} ({:.1f} %)", name, 100 * seconds / now_.seconds));
      json_["slow"]["largest"] = std::string(name);
      break;
    }
    json_["slow"]["parts"] = parts;
    const plan::Neighbour* best = nullptr;
    for (const plan::Neighbour& n : neighbours_)
      if (n.fits && n.seconds < now_.seconds && (!best || n.seconds < best->seconds)) best = &n;
    if (best) {
      const std::string words =
          fmt::format("{} ({:.1f} % faster)", best->change, 100 * (1 - best->seconds / now_.seconds));
      text_ += "  the single change that helps most: " + words + "\n";
      rows.emplace_back("the single change that helps most", words);
      json_["slow"]["change"] = best->change;
      json_["slow"]["change_seconds"] = best->seconds;
    } else {
      text_ += "  no single change of the layout helps\n";
    }
    const plan::SearchResult found = search(request_);
    if (!found.best.empty()) {
      const plan::Found& fastest = found.best.front();
      const std::string words =
          fmt::format("{} ({:.3f} s, {:.1f} % {})", plan::describe(fastest), fastest.seconds,
                      100 * std::abs(1 - fastest.seconds / now_.seconds),
                      fastest.seconds <= now_.seconds ? "faster" : "slower");
      text_ += "  the fastest layout that fits: " + words + "\n";
      rows.emplace_back("the fastest layout that fits", words);
      json_["slow"]["fastest"] = plan::describe(fastest);
      json_["slow"]["fastest_seconds"] = fastest.seconds;
    }
    page_.sections.emplace_back("What would help?", plan::facts(rows));
  }

  void more() {
    text_ += "\nWhat would more devices give? (the best layout of each, the same global batch)\n";
    json_["more"] = nlohmann::ordered_json::array();
    double base = 0;
    std::vector<double> times{1};
    times.insert(times.end(), a_.times.begin(), a_.times.end());
    std::vector<std::vector<std::string>> rows;
    watch::ChartSeries found_rate{.name = "best layout", .style = "c1", .points = {}, .dots = true},
        ideal{.name = "in proportion", .style = "c2 faint", .points = {}, .dots = false};
    for (const double k : times) {
      const auto devices =
          std::max<std::int64_t>(1, std::llround(k * static_cast<double>(s_.workload.devices())));
      const auto nothing = [&](const std::string& why) {
        text_ += fmt::format("  {:>4g} x = {:>6} devices: {}\n", k, devices, why);
      };
      if (s_.cluster.nodes && devices > *s_.cluster.nodes * s_.cluster.links.devices_per_node) {
        nothing("the cluster has fewer");
        continue;
      }
      if (devices > s_.cluster.links.devices_per_node && !s_.cluster.links.network_bandwidth_gbs) {
        nothing("no network joins several of these machines");
        continue;
      }
      const plan::SearchResult found = search(request_of(s_, devices, bytes_));
      if (found.best.empty()) {
        nothing("no layout fits and divides the batch");
        continue;
      }
      const plan::Found& f = found.best.front();
      const double rate = f.tokens_per_second();
      if (base == 0) base = rate / static_cast<double>(devices);
      const double share = rate / static_cast<double>(devices) / base;
      nlohmann::ordered_json entry{{"devices", devices},
                                   {"seconds", f.seconds},
                                   {"tokens_per_second", rate},
                                   {"efficiency", share},
                                   {"layout", plan::describe(f)}};
      text_ += fmt::format("  {:>4g} x = {:>6} devices: {:.3f} s, {} tokens/s, {:.0f} % of proportion", k,
                           devices, f.seconds, format_count(rate), 100 * share);
      rows.push_back({fmt::format("{} devices: {}", devices, plan::describe(f)),
                      fmt::format("{:.3f}", f.seconds), format_count(rate),
                      fmt::format("{:.0f} %", 100 * share), "", ""});
      found_rate.points.push_back({static_cast<double>(devices), rate});
      ideal.points.push_back({static_cast<double>(devices), base * static_cast<double>(devices)});
      if (steps_ > 0) {
        const plan::MoneyAnswer m = money_of(s_, f);
        text_ += fmt::format(", {:.2f} days", m.days);
        entry["days"] = m.days;
        rows.back()[4] = fmt::format("{:.2f}", m.days);
        if (const auto total = m.total()) {
          text_ += fmt::format(", {:.0f}", *total);
          entry["total"] = *total;
          rows.back()[5] = fmt::format("{:.0f}", *total);
        }
      }
      text_ += "   " + plan::describe(f) + "\n";
      json_["more"].push_back(entry);
    }
    watch::Chart chart;
    chart.title = "Tokens per second by number of devices";
    chart.unit = "tokens/s";
    chart.x_axis = "devices";
    chart.from_zero = true;
    chart.series = {std::move(found_rate), std::move(ideal)};
    page_.sections.emplace_back("What would more devices give?", watch::draw_chart(chart));
    page_.sections.emplace_back(
        "The best layout of each",
        plan::table({"devices, layout", "s per step", "tokens/s", "of proportion", "days", "cost"}, rows));
  }

  void show(bool json) const { json ? print_json_line(json_) : print(text_); }

  std::string page() {
    const auto& o = s_.training.options;
    page_.sections.emplace_back(
        "Model",
        plan::facts({{"name", s_.config.name},
                     {"parameters", format_count(parameters_of(s_))},
                     {"shape", fmt::format("{} layers, hidden {}, {} heads, {} tokens a sample",
                                           o.model.config.num_layers, o.model.config.hidden_size,
                                           o.model.config.num_attention_heads, s_.workload.model.sequence)},
                     {"batch", fmt::format("{} samples, {} tokens a step", s_.workload.global_batch,
                                           format_count(s_.workload.tokens()))},
                     {"layout", plan::describe(now_)}}));
    const plan::Economy& e = s_.cluster.economy;
    page_.assumptions.push_back("times: " + s_.calibration_text);
    const plan::ErrorBand band = plan::error_band(s_.workload, s_.cluster, s_.calibration);
    page_.assumptions.push_back(
        fmt::format("8 of 10 measurements are expected within {:.2f} to {:.2f} of the times{}", band.low,
                    band.high, band.why.empty() ? "" : ": " + band.why));
    page_.assumptions.push_back(fmt::format("{:g} failures per device and year, {:g} minutes to start again",
                                            e.failures_per_device_year, e.restart_minutes));
    if (!e.price_per_device_hour)
      page_.assumptions.emplace_back(
          "no price is known: give --price, or price_per_device_hour in the cluster's file");
    page_.command = command_line();
    page_.footer = s_.cluster.source;
    return plan::to_html(page_);
  }

 private:
  plan::SearchResult search(const plan::SearchRequest& request) {
    return plan::search(*s_.memory_model, request, s_.cluster, s_.constants->constants);
  }

  // For a number of devices that the configured layout does not divide: what does, on all of them.
  void propose(const std::string& note) {
    if (note.empty()) return;
    const plan::SearchResult found = search(request_of(s_, *a_.gpus, bytes_));
    const std::string words =
        found.best.empty() ? fmt::format("no layout of all {} fits and divides the batch", *a_.gpus)
                           : fmt::format("on all {}: {} ({:.3f} s, global batch {})", *a_.gpus,
                                         plan::describe(found.best.front()), found.best.front().seconds,
                                         found.best.front().workload.global_batch);
    text_ += words + "\n\n";
    json_["proposal"] = words;
    page_.assumptions.push_back(words);
  }

  // Where the configuration does not fit.
  std::string what_would_fit() {
    const plan::Neighbour* cheapest = nullptr;
    for (const plan::Neighbour& n : neighbours_)
      if (n.fits && (!cheapest || n.seconds < cheapest->seconds)) cheapest = &n;
    if (cheapest) {
      json_["fits"]["change"] = cheapest->change;
      json_["fits"]["change_bytes"] = cheapest->bytes;
      json_["fits"]["change_seconds"] = cheapest->seconds;
      return fmt::format(
          "the cheapest single change: {} ({:.1f} GB, {:.3f} s per step; {:.3f} s if it fitted without the "
          "change)",
          cheapest->change, cheapest->bytes / 1e9, cheapest->seconds, now_.seconds);
    }
    const plan::SearchResult found = search(request_);
    if (!found.best.empty()) {
      json_["fits"]["change"] = plan::describe(found.best.front());
      return fmt::format(
          "no single change makes it fit; the fastest layout that does: {} ({:.1f} GB, {:.3f} s)",
          plan::describe(found.best.front()), static_cast<double>(found.best.front().memory.total) / 1e9,
          found.best.front().seconds);
    }
    for (std::int64_t devices = request_.devices * 2; devices <= request_.devices * 64; devices *= 2) {
      if (devices > s_.cluster.links.devices_per_node && !s_.cluster.links.network_bandwidth_gbs) break;
      const plan::SearchResult more = search(request_of(s_, devices, bytes_));
      if (more.best.empty()) continue;
      json_["fits"]["devices"] = devices;
      return fmt::format("no layout of these devices fits; on {} devices it would: {}", devices,
                         plan::describe(more.best.front()));
    }
    return "no layout of these devices fits: take a smaller model, or devices with more memory";
  }

  // The training in steps of a layout whose batch may be slightly another one.
  plan::MoneyAnswer money_of(const PlanSubject& s, const plan::Found& f) const {
    const double steps = steps_ * s_.workload.tokens() / f.workload.tokens();
    return plan::money({f.seconds, steps, f.workload.devices(), checkpoint_bytes(s_), a_.checkpoint_minutes},
                       s.cluster);
  }

  // Seconds per token, for comparisons. `headline`: the page begins with its days and cost.
  double cost(const PlanSubject& s, const plan::Found& f, const std::string& what, bool headline) {
    const plan::Cluster& cluster = s.cluster;
    const plan::ErrorBand band = plan::error_band(f.workload, cluster, s.calibration);
    nlohmann::ordered_json entry{{"cluster", cluster.name},
                                 {"layout", plan::describe(f)},
                                 {"step_seconds", f.seconds},
                                 {"devices", f.workload.devices()}};
    const std::string range = fmt::format("{:.3f} to {:.3f}", f.seconds * band.low, f.seconds * band.high);
    text_ += fmt::format("  {}, {}: {:.3f} s per step ({} in 8 of 10 cases), {} devices\n", cluster.name,
                         what, f.seconds, range, f.workload.devices());
    money_rows_.push_back({fmt::format("{} x {}, {}", f.workload.devices(), cluster.name, what),
                           fmt::format("{:.3f}", f.seconds), range, "", "", "", "", ""});
    const double per_token = f.seconds / f.workload.tokens();
    if (steps_ <= 0) {
      text_ += "  the length of the training is not given: set trainer.max_steps or max_tokens\n";
      json_["cost"].push_back(entry);
      return per_token;
    }
    const plan::MoneyAnswer m = money_of(s, f);
    text_ += plan::to_text(m);
    entry["step_days"] = m.step_days;
    entry["days"] = m.days;
    entry["failures"] = m.failures;
    entry["goodput"] = m.goodput;
    entry["checkpoint_minutes"] = m.checkpoint_minutes;
    entry["device_hours"] = m.device_hours;
    auto& row = money_rows_.back();
    row[3] = fmt::format("{:.2f}", m.days);
    row[4] = fmt::format("{:.0f}", m.device_hours);
    const auto put = [&](const char* name, const std::optional<double>& value, std::size_t cell,
                         double unit) {
      if (!value) return;
      entry[name] = *value;
      if (cell > 0) row[cell] = fmt::format("{:.0f}", *value / unit);
    };
    put("rent", m.rent, 5, 1);
    put("capital", m.capital, 0, 1);
    put("energy_kwh", m.energy_kwh, 6, 1000);
    put("energy_cost", m.energy_cost, 0, 1);
    put("total", m.total(), 7, 1);
    if (cluster.economy.price_per_device_hour) entry["price"] = *cluster.economy.price_per_device_hour;
    if (headline) {
      page_.tiles.emplace_back("days", fmt::format("{:.1f}", m.days));
      if (const auto total = m.total()) page_.tiles.emplace_back("cost", format_count(*total));
    }
    totals_.push_back(m.total());
    json_["cost"].push_back(entry);
    return per_token;
  }

  // The same training on another cluster, with the best layout that it has and at its own price.
  void beside(double here) {
    PlanSubjectArguments other = a_.subject;
    other.cluster = a_.beside;
    other.memory_gb.reset();
    const auto beside = load_plan_subject(other, console_);
    amend(beside->cluster.economy, a_.beside_price, a_);
    const std::int64_t devices = a_.beside_gpus.value_or(s_.workload.devices());
    const plan::SearchRequest request = request_of(*beside, devices, bytes_);
    const plan::SearchResult found =
        plan::search(*beside->memory_model, request, beside->cluster, beside->constants->constants);
    if (found.best.empty()) {
      text_ += fmt::format("  {}: no layout of {} devices fits\n", beside->cluster.name, devices);
      return;
    }
    const plan::Found& best = found.best.front();
    const double there = cost(*beside, best, plan::describe(best), false);
    std::string words = fmt::format("{} at its best is {:.2f} x as fast as {} at its best",
                                    beside->cluster.name, here / there, s_.cluster.name);
    const std::size_t n = totals_.size();
    if (n >= 2 && totals_[n - 1] && totals_[n - 2]) {
      words += fmt::format(", and costs {:.2f} x as much", *totals_[n - 1] / *totals_[n - 2]);
      json_["second_cluster"]["cost_ratio"] = *totals_[n - 1] / *totals_[n - 2];
    } else if (n >= 2) {
      words +=
          "; a price is missing: --price, --beside-price, or price_per_device_hour in the clusters' files";
    }
    json_["second_cluster"]["speed_ratio"] = here / there;
    text_ += "  " + words + "\n";
    page_.assumptions.push_back(words);
  }

  const AdviseArguments& a_;
  PlanSubject& s_;
  Console& console_;
  const plan::SearchTarget bytes_;
  const plan::Found now_;
  const plan::SearchRequest request_;
  std::vector<plan::Neighbour> neighbours_;
  std::vector<std::vector<std::string>> money_rows_;
  std::vector<std::optional<double>> totals_;  // of money_rows_, where the length of the training is known
  double steps_ = 0;
  std::string text_;
  nlohmann::ordered_json json_;
  plan::Page page_;
};

void advise(const AdviseArguments& a, Context& context) {
  std::string note;
  const auto subject = load_subject(a, context.console, note);
  amend(subject->cluster.economy, a.price, a);
  if (!subject->config.trainer.max_steps && subject->config.trainer.max_tokens)
    subject->config.trainer.max_steps = static_cast<std::int64_t>(
        static_cast<double>(*subject->config.trainer.max_tokens) / subject->workload.tokens());
  Advice advice(a, *subject, context.console, note);
  advice.fit();
  advice.how_long();
  advice.what_is_slow();
  advice.more();
  if (!a.output.empty()) {
    write_text(a.output, advice.page());
    context.console.line(fmt::format("wrote {}", a.output));
  }
  advice.show(a.json);
}

}  // namespace

void add_plan_advise_command(CLI::App& plan, Context& context) {
  auto a = std::make_shared<AdviseArguments>();
  CLI::App* command = plan.add_subcommand("advise",
                                          "Does it fit? How long, how much? What is slow? What would more "
                                          "devices give? Example: stoa plan advise gpt-5b "
                                          "--cluster dgx-a100-80gb --gpus 128 --price 2");
  a->subject.add_to(*command);
  command->add_option("--gpus,--ranks", a->gpus, "Number of devices (default: trainer.devices x num_nodes)")
      ->check(rank_count());
  command->add_option("--target", a->target,
                      "Whose bytes: stoa (counted), megatron or torchtitan (estimated)");
  command->add_option("--beside", a->beside, "Another cluster, for the same training: its best layout");
  command->add_option("--beside-price", a->beside_price, "Price of a device-hour there")
      ->check(between(0, 1e9));
  command->add_option("--beside-gpus", a->beside_gpus, "Number of devices there (default: as many)")
      ->check(rank_count());
  command->add_option("--times", a->times, "Multiples of the number of devices")
      ->delimiter(',')
      ->check(between(1e-6, 1e6));
  command->add_option("--price", a->price, "Price of a device-hour")->check(between(0, 1e9));
  command
      ->add_option("--checkpoint-minutes", a->checkpoint_minutes,
                   "Minutes between checkpoints (default: the best)")
      ->check(between(1e-3, 1e6));
  command->add_option("--failures", a->failures, "Failures per device and year")->check(between(0, 1e6));
  command->add_option("--output", a->output, "A page with the answers and what they rest on (report.html)");
  command->add_flag("--json", a->json, "One JSON object");
  counts_only_with(*command, {"--beside-price", "--beside-gpus"}, "--beside");
  command->callback([a, &context] { advise(*a, context); });
}

}  // namespace stoa::cli
