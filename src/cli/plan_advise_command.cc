// `stoa plan advise`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/number_checks.h"
#include "cli/plan_predict_command.h"
#include "cli/plan_subject.h"
#include "cli/print.h"
#include "plan/money.h"
#include "plan/search_report.h"
#include "train/layout_plan.h"

namespace stoa::cli {
namespace {

struct AdviseArguments {
  PlanSubjectArguments subject;
  std::optional<std::int64_t> gpus;
  std::string beside;
  std::vector<double> times{2, 4};
  std::optional<double> price, checkpoint_minutes, failures;
  bool json = false;
};

// Replaces the cluster's prices and failure rates by those given on the command line.
void amend(plan::Economy& economy, const AdviseArguments& a) {
  if (a.price) economy.price_per_device_hour = a.price;
  if (a.failures) economy.failures_per_device_year = *a.failures;
}

// The layout of the configuration, in the form of a search result.
plan::Found as_found(PlanSubject& s) {
  const auto& o = s.training.options;
  plan::Found found;
  found.workload = s.workload;
  found.point = {o.layout, o.micro_batch, o.microbatches, o.model.config.recompute};
  found.time = plan::predict_time(s.workload, s.cluster, s.constants->constants);
  found.seconds = found.time.sum();
  found.memory = s.memory_model->worst(found.point);
  return found;
}

// Size of a checkpoint: master weights and moments, 12 bytes per parameter, and the model's weights, 2 bytes
// per parameter.
double checkpoint_bytes(const PlanSubject& s) {
  return 14 * static_cast<double>(model::parameter_count(s.training.options.model));
}

plan::SearchRequest request_of(const PlanSubject& s, std::int64_t devices) {
  plan::SearchRequest request;
  request.workload = s.workload;
  request.devices = devices;
  request.memory = s.memory;
  request.top = 1;
  request.front_within = 1;
  request.batch_tolerance = 0.05;
  return request;
}

class Advice {
 public:
  Advice(const AdviseArguments& a, PlanSubject& s, Console& console)
      : a_(a), s_(s), console_(console), now_(as_found(s)), request_(request_of(s, s.workload.devices())) {
    steps_ = static_cast<double>(s.config.trainer.max_steps.value_or(0));
    neighbours_ = plan::neighbours(*s.memory_model, request_, s.cluster, s.constants->constants, now_);
  }

  void fit() {
    const double bytes = static_cast<double>(now_.memory.total), free = s_.memory - bytes;
    json_["fits"] = {
        {"fits", free >= 0}, {"memory_bytes", bytes}, {"limit_bytes", s_.memory}, {"free_bytes", free}};
    text_ += fmt::format("Does it fit?  {}: {:.1f} GB of {:.1f} GB per device ({}), {:.1f} GB {}\n",
                         free >= 0 ? "Yes" : "No", bytes / 1e9, s_.memory / 1e9, s_.cluster.device.name,
                         std::abs(free) / 1e9, free >= 0 ? "free" : "too much");
    if (free >= 0) return;
    const plan::Neighbour* cheapest = nullptr;
    for (const plan::Neighbour& n : neighbours_)
      if (n.fits && (!cheapest || n.seconds < cheapest->seconds)) cheapest = &n;
    if (cheapest) {
      text_ += fmt::format(
          "  the cheapest single change: {} ({:.1f} GB, {:.3f} s per step; {:.3f} s if it fitted without the "
          "change)\n",
          cheapest->change, cheapest->bytes / 1e9, cheapest->seconds, now_.seconds);
      json_["fits"]["change"] = cheapest->change;
      json_["fits"]["change_bytes"] = cheapest->bytes;
      json_["fits"]["change_seconds"] = cheapest->seconds;
      return;
    }
    const plan::SearchResult found = search(request_);
    if (!found.best.empty()) {
      text_ += fmt::format(
          "  no single change makes it fit; the fastest layout that does: {} ({:.1f} GB, {:.3f} s)\n",
          plan::describe(found.best.front()), static_cast<double>(found.best.front().memory.total) / 1e9,
          found.best.front().seconds);
      json_["fits"]["change"] = plan::describe(found.best.front());
      return;
    }
    text_ += "  no layout of these devices fits\n";
    for (std::int64_t devices = request_.devices * 2; devices <= request_.devices * 64; devices *= 2) {
      const plan::SearchResult more = search(request_of(s_, devices));
      if (more.best.empty()) continue;
      text_ += fmt::format("  on {} devices it would: {}\n", devices, plan::describe(more.best.front()));
      json_["fits"]["devices"] = devices;
      return;
    }
  }

  void cost(const PlanSubject& s, double seconds, std::int64_t devices, const char* key) {
    const plan::Cluster& cluster = s.cluster;
    nlohmann::ordered_json entry{{"cluster", cluster.name}, {"step_seconds", seconds}, {"devices", devices}};
    text_ +=
        fmt::format("  {}: {:.3f} s per step ({:.3f} to {:.3f} in 8 of 10 cases), {} devices\n", cluster.name,
                    seconds, seconds * s.constants->low, seconds * s.constants->high, devices);
    if (steps_ <= 0) {
      text_ += "  the length of the training is not given: set trainer.max_steps or max_tokens\n";
      json_[key].push_back(entry);
      return;
    }
    const plan::MoneyAnswer m =
        plan::money({seconds, steps_, devices, checkpoint_bytes(s_), a_.checkpoint_minutes}, cluster);
    text_ += plan::to_text(m);
    entry["step_days"] = m.step_days;
    entry["days"] = m.days;
    entry["failures"] = m.failures;
    entry["goodput"] = m.goodput;
    entry["checkpoint_minutes"] = m.checkpoint_minutes;
    entry["device_hours"] = m.device_hours;
    const auto put = [&](const char* name, const std::optional<double>& value) {
      if (value) entry[name] = *value;
    };
    put("rent", m.rent);
    put("capital", m.capital);
    put("energy_kwh", m.energy_kwh);
    put("energy_cost", m.energy_cost);
    put("total", m.total());
    json_[key].push_back(entry);
  }

  void how_long() {
    text_ += "\nHow long, and how much?\n";
    json_["cost"] = nlohmann::ordered_json::array();
    cost(s_, now_.seconds, s_.workload.devices(), "cost");
    const auto nearest = nearest_published(s_.workload, s_.cluster, s_.calibration);
    for (const auto& run : nearest) text_ += "  near it: " + run + "\n";
    json_["nearest_published"] = nearest;
    if (a_.beside.empty()) return;
    PlanSubjectArguments other = a_.subject;
    other.cluster = a_.beside;
    other.memory_gb.reset();
    const auto beside = load_plan_subject(other, console_, a_.gpus);
    amend(beside->cluster.economy, a_);
    plan::SearchRequest request = request_of(*beside, s_.workload.devices());
    const plan::SearchResult found =
        plan::search(*beside->memory_model, request, beside->cluster, beside->constants->constants);
    if (found.best.empty()) {
      text_ += fmt::format("  {}: no layout fits\n", beside->cluster.name);
      return;
    }
    cost(*beside, found.best.front().seconds, found.best.front().workload.devices(), "cost");
    text_ += fmt::format("  (there with its best layout, {})\n", plan::describe(found.best.front()));
  }

  void what_is_slow() {
    text_ += "\nWhat is slow?\n";
    nlohmann::ordered_json parts;
    for (const auto& [name, seconds] : now_.time.parts()) {
      parts[std::string(name)] = seconds;
      if (seconds > 0.005 * now_.seconds)
        text_ += fmt::format("  {:<20}{:>9.3f} s{:>7.1f} %\n", name, seconds, 100 * seconds / now_.seconds);
    }
    // GEMMs and attention are the work itself, not overhead.
    for (const auto& [name, seconds] : now_.time.parts()) {
      if (name == "linear layers" || name == "attention") continue;
      text_ += fmt::format("  largest overhead: {} ({:.1f} %)\n", name, 100 * seconds / now_.seconds);
      json_["slow"]["largest"] = std::string(name);
      break;
    }
    json_["slow"]["parts"] = parts;
    const plan::Neighbour* best = nullptr;
    for (const plan::Neighbour& n : neighbours_)
      if (n.fits && n.seconds < now_.seconds && (!best || n.seconds < best->seconds)) best = &n;
    if (best) {
      text_ += fmt::format("  the single change that helps most: {} ({:.1f} % faster)\n", best->change,
                           100 * (1 - best->seconds / now_.seconds));
      json_["slow"]["change"] = best->change;
      json_["slow"]["change_seconds"] = best->seconds;
    } else {
      text_ += "  no single change of the layout helps\n";
    }
    const plan::SearchResult found = search(request_);
    if (found.best.empty()) return;
    const plan::Found& fastest = found.best.front();
    text_ += fmt::format("  the fastest layout: {} ({:.3f} s, {:.1f} % {})\n", plan::describe(fastest),
                         fastest.seconds, 100 * std::abs(1 - fastest.seconds / now_.seconds),
                         fastest.seconds <= now_.seconds ? "faster" : "slower");
    json_["slow"]["fastest"] = plan::describe(fastest);
    json_["slow"]["fastest_seconds"] = fastest.seconds;
  }

  void more() {
    text_ += "\nWhat would more devices give? (the best layout of each, the same global batch)\n";
    json_["more"] = nlohmann::ordered_json::array();
    double base = 0;
    std::vector<double> times{1};
    times.insert(times.end(), a_.times.begin(), a_.times.end());
    for (const double k : times) {
      const auto devices =
          std::max<std::int64_t>(1, std::llround(k * static_cast<double>(s_.workload.devices())));
      const plan::SearchResult found = search(request_of(s_, devices));
      if (found.best.empty()) {
        text_ +=
            fmt::format("  {:>4g} x = {:>6} devices: no layout fits and divides the batch\n", k, devices);
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
      if (steps_ > 0) {
        const double tokens = steps_ * s_.workload.tokens();
        const plan::MoneyAnswer m = plan::money(
            {f.seconds, tokens / f.workload.tokens(), devices, checkpoint_bytes(s_), a_.checkpoint_minutes},
            s_.cluster);
        text_ += fmt::format(", {:.2f} days", m.days);
        entry["days"] = m.days;
        if (const auto total = m.total()) {
          text_ += fmt::format(", {:.0f}", *total);
          entry["total"] = *total;
        }
      }
      text_ += "   " + plan::describe(f) + "\n";
      json_["more"].push_back(entry);
    }
  }

  void show(bool json) const { json ? print_json_line(json_) : print(text_); }

 private:
  plan::SearchResult search(const plan::SearchRequest& request) {
    return plan::search(*s_.memory_model, request, s_.cluster, s_.constants->constants);
  }

  const AdviseArguments& a_;
  PlanSubject& s_;
  Console& console_;
  const plan::Found now_;
  const plan::SearchRequest request_;
  std::vector<plan::Neighbour> neighbours_;
  double steps_ = 0;
  std::string text_;
  nlohmann::ordered_json json_;
};

void advise(const AdviseArguments& a, Context& context) {
  const auto subject = load_plan_subject(a.subject, context.console, a.gpus);
  amend(subject->cluster.economy, a);
  if (!subject->config.trainer.max_steps && subject->config.trainer.max_tokens)
    subject->config.trainer.max_steps = static_cast<std::int64_t>(
        static_cast<double>(*subject->config.trainer.max_tokens) / subject->workload.tokens());
  Advice advice(a, *subject, context.console);
  advice.fit();
  advice.how_long();
  advice.what_is_slow();
  advice.more();
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
  command->add_option("--beside", a->beside, "Another cluster, for the same training");
  command->add_option("--times", a->times, "Multiples of the number of devices")
      ->delimiter(',')
      ->check(between(1e-6, 1e6));
  command->add_option("--price", a->price, "Price of a device-hour")->check(between(0, 1e9));
  command
      ->add_option("--checkpoint-minutes", a->checkpoint_minutes,
                   "Minutes between checkpoints (default: the best)")
      ->check(between(1e-3, 1e6));
  command->add_option("--failures", a->failures, "Failures per device and year")->check(between(0, 1e6));
  command->add_flag("--json", a->json, "One JSON object");
  command->callback([a, &context] { advise(*a, context); });
}

}  // namespace stoa::cli
