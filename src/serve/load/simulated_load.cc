#include "serve/load/simulated_load.h"

#include <charconv>
#include <map>
#include <string_view>

#include "infer/engine/scheduler.h"

namespace stoa::serve {

std::vector<RequestLength> read_lengths(const std::string& text, const std::string& name) {
  std::vector<RequestLength> out;
  std::int64_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    RequestLength length;
    const char* const end = line.data() + line.size();
    const auto first = std::from_chars(line.data(), end, length.input);
    const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
    const auto second = comma ? std::from_chars(first.ptr + 1, end, length.output) : first;
    require<DataError>(
        comma && second.ec == std::errc() && second.ptr == end && length.input >= 1 && length.output >= 1,
        "{}:{}: '{}': expected INPUT,OUTPUT, the tokens of a prompt and of its answer", name, number,
        line.substr(0, 60));
    out.push_back(length);
  }
  require<DataError>(!out.empty(), "{}: no line INPUT,OUTPUT in it", name);
  return out;
}

std::vector<SentRequest> simulate_load(const infer::PassLimits& limits, const PassTimes& times,
                                       std::span<const RequestLength> lengths,
                                       std::span<const double> arrivals) {
  const bool sources = limits.reads_sources();
  for (const RequestLength& length : lengths) {
    require<ConfigError>(sources || length.input + length.output <= limits.longest(),
                         "a prompt of {} tokens and an answer of {} do not fit a context of {}", length.input,
                         length.output, limits.longest());
    require<ConfigError>(
        !sources || (length.input <= limits.source_tokens && length.output <= limits.longest(length.input)),
        "a source of {} tokens and an answer of {} do not fit: sources have at most {} and answers {}",
        length.input, length.output, limits.source_tokens,
        limits.longest(std::min(length.input, limits.source_tokens)));
  }
  std::vector<SentRequest> out(arrivals.size());
  infer::Scheduler scheduler(limits);
  std::map<infer::SequenceId, std::size_t> open;
  std::size_t next = 0;
  double now = 0;
  while (next < arrivals.size() || !open.empty()) {
    if (open.empty()) now = std::max(now, arrivals[next]);
    for (; next < arrivals.size() && arrivals[next] <= now; ++next) {
      const RequestLength& length = lengths[next % lengths.size()];
      out[next].due = arrivals[next];
      out[next].status = 200;
      out[next].prompt_tokens = length.input;
      const std::vector<std::int32_t> prompt(static_cast<std::size_t>(length.input));
      const std::int64_t begun = sources ? 1 : length.input;  // tokens before the answer
      open[scheduler.add({.tokens = sources ? std::vector<std::int32_t>(1) : prompt,
                          .source = sources ? prompt : std::vector<std::int32_t>(),
                          .salt = std::to_string(next),
                          .most = begun + std::max<std::int64_t>(0, length.output - 1)})] = next;
    }
    const infer::PassPlan& plan = scheduler.next();
    now += times.seconds(plan);
    std::vector<infer::SequenceId> answered;
    for (const infer::PassSegment& segment : plan.segments)
      if (segment.last) answered.push_back(segment.sequence);
    scheduler.complete();
    for (const infer::SequenceId sequence : answered) {
      const std::size_t i = open.at(sequence);
      SentRequest& request = out[i];
      if (request.tokens++ == 0)
        request.first = now;
      else
        request.gaps.push_back(static_cast<float>(now - request.end));
      request.end = now;
      if (request.tokens < lengths[i % lengths.size()].output) {
        scheduler.append(sequence, 0);
      } else {
        scheduler.remove(sequence);
        open.erase(sequence);
      }
    }
  }
  return out;
}

}  // namespace stoa::serve
