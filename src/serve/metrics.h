// What /metrics says, under vLLM's names, so that its dashboards show it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::serve {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  // Lines of Prometheus' text format, without the type.
  std::string text(std::string_view name, std::string_view labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

// Prometheus' text format: each metric once, with the lines of all models.
class MetricsText {
 public:
  void add(const std::string& name, const char* type, const std::string& lines);
  std::string text() const;

 private:
  struct Family {
    std::string name;
    const char* type;
    std::string lines;
  };
  std::vector<Family> families_;
};

// What is measured of one request.
struct RequestTimes {
  double answer = 0, whole = 0;  // seconds: from the first token to the end, from the request
  std::int64_t prompt_tokens = 0, answer_tokens = 0, choices = 1, max_tokens = 0;
};

// What is counted of loading a model.
struct LoadCounts {
  std::string_view model;
  bool loaded = false;
  std::int64_t loads = 0, unloads = 0, failures = 0, waiting = 0;
  double bytes = 0, seconds = 0;  // of its memory, of its last load; 0: not known
};
void write_loads(const LoadCounts& counts, MetricsText& out);

class Metrics {
 public:
  void token_interval(double seconds);
  void first_token(double seconds);
  // A choice that ended: "stop", "length", "abort", "error".
  void ended(const std::string& reason);
  void request(const RequestTimes& times);
  void rejected();

  // `model`: its name; the gauges come from its engine.
  struct Gauges {
    std::int64_t running = 0, waiting = 0, prefix_queries = 0, prefix_hits = 0, preemptions = 0, blocks = 0,
                 block_tokens = 0, drafts = 0, draft_tokens = 0, accepted_tokens = 0;
    double cache_usage = 0;
    double cache_bytes = 0;
    std::string_view cache_type = "";
  };
  void write(std::string_view model, const Gauges& gauges, MetricsText& out) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> ended_;
  std::uint64_t prompt_tokens_ = 0, answer_tokens_ = 0, rejected_ = 0;
  static std::vector<double> seconds();
  static std::vector<double> tokens();
  Histogram first_token_{seconds()},
      interval_{{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5}}, whole_{seconds()},
      answer_{seconds()},
      per_token_{{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5}},
      sizes_prompt_{tokens()}, sizes_answer_{tokens()}, choices_{{1, 2, 5, 10, 20}}, limits_{tokens()};
};

}  // namespace stoa::serve
