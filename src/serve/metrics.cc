#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoa::serve {
namespace {

// A label's value.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

void Histogram::add(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(at)];
  sum_ += value;
}

std::string Histogram::text(std::string_view name, std::string_view labels) const {
  std::string out;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                       i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf", below);
  }
  return out + fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_, below);
}

std::vector<double> Metrics::seconds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640};
}

std::vector<double> Metrics::tokens() {
  std::vector<double> out;
  for (double scale = 1; scale <= 1e5; scale *= 10)
    for (const double step : {1.0, 2.0, 5.0}) out.push_back(step * scale);
  return out;
}

void Metrics::token_interval(double seconds) {
  const std::lock_guard lock(mutex_);
  interval_.add(seconds);
}

void Metrics::first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

void Metrics::ended(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++ended_[reason];
}

void Metrics::rejected() {
  const std::lock_guard lock(mutex_);
  ++rejected_;
}

void Metrics::request(const RequestTimes& times) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += static_cast<std::uint64_t>(times.prompt_tokens);
  answer_tokens_ += static_cast<std::uint64_t>(times.answer_tokens);
  whole_.add(times.whole);
  answer_.add(times.answer);
  if (times.answer_tokens > 1) per_token_.add(times.answer / static_cast<double>(times.answer_tokens - 1));
  sizes_prompt_.add(static_cast<double>(times.prompt_tokens));
  sizes_answer_.add(static_cast<double>(times.answer_tokens));
  choices_.add(static_cast<double>(times.choices));
  limits_.add(static_cast<double>(times.max_tokens));
}

void Metrics::write(std::string_view model, const Gauges& gauges, MetricsText& out) const {
  const std::lock_guard lock(mutex_);
  const std::string labels = "model_name=" + quoted(model);
  const auto one = [&](std::string_view name, const char* type, auto value) {
    const std::string full = fmt::format("vllm:{}", name);
    out.add(full, type, fmt::format("{}{{{}}} {}\n", full, labels, value));
  };
  one("num_requests_running", "gauge", gauges.running);
  one("num_requests_waiting", "gauge", gauges.waiting);
  one("kv_cache_usage_perc", "gauge", gauges.cache_usage);
  one("prefix_cache_queries_total", "counter", gauges.prefix_queries);
  one("prefix_cache_hits_total", "counter", gauges.prefix_hits);
  one("num_preemptions_total", "counter", gauges.preemptions);
  one("spec_decode_num_drafts_total", "counter", gauges.drafts);
  one("spec_decode_num_draft_tokens_total", "counter", gauges.draft_tokens);
  one("spec_decode_num_accepted_tokens_total", "counter", gauges.accepted_tokens);
  one("prompt_tokens_total", "counter", prompt_tokens_);
  one("generation_tokens_total", "counter", answer_tokens_);
  one("admission_rejections_total", "counter", rejected_);
  out.add("vllm:cache_config_info", "gauge",
          fmt::format(
              "vllm:cache_config_info{{{},block_size=\"{}\",cache_dtype=\"{}\",num_gpu_blocks=\"{}\"}} 1\n",
              labels, gauges.block_tokens, gauges.cache_type, gauges.blocks));
  out.add("stoa:kv_cache_bytes", "gauge",
          fmt::format("stoa:kv_cache_bytes{{{}}} {:.0f}\n", labels, gauges.cache_bytes));
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    const auto found = ended_.find(reason);
    out.add("vllm:request_success_total", "counter",
            fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels, reason,
                        found == ended_.end() ? 0 : found->second));
  }
  const std::pair<std::string_view, const Histogram*> histograms[] = {
      {"time_to_first_token_seconds", &first_token_},
      {"inter_token_latency_seconds", &interval_},
      {"request_time_per_output_token_seconds", &per_token_},
      {"e2e_request_latency_seconds", &whole_},
      {"request_decode_time_seconds", &answer_},
      {"request_prompt_tokens", &sizes_prompt_},
      {"request_generation_tokens", &sizes_answer_},
      {"request_params_n", &choices_},
      {"request_params_max_tokens", &limits_}};
  for (const auto& [name, histogram] : histograms) {
    const std::string full = fmt::format("vllm:{}", name);
    out.add(full, "histogram", histogram->text(full, labels));
  }
}

void write_loads(const LoadCounts& counts, MetricsText& out) {
  const auto one = [&](std::string_view name, const char* type, auto value) {
    const std::string full = fmt::format("stoa:model_{}", name);
    out.add(full, type, fmt::format("{}{{model_name={}}} {}\n", full, quoted(counts.model), value));
  };
  one("loaded", "gauge", counts.loaded ? 1 : 0);
  one("loads_total", "counter", counts.loads);
  one("unloads_total", "counter", counts.unloads);
  one("load_failures_total", "counter", counts.failures);
  one("load_requests_waiting", "gauge", counts.waiting);
  one("load_seconds", "gauge", counts.seconds);
  one("memory_bytes", "gauge", counts.bytes);
}

void MetricsText::add(const std::string& name, const char* type, const std::string& lines) {
  const auto found = std::find_if(families_.begin(), families_.end(),
                                  [&](const Family& family) { return family.name == name; });
  if (found == families_.end())
    families_.push_back({name, type, lines});
  else
    found->lines += lines;
}

std::string MetricsText::text() const {
  std::string out;
  for (const Family& family : families_)
    out += fmt::format("# TYPE {} {}\n{}", family.name, family.type, family.lines);
  return out;
}

}  // namespace stoa::serve
