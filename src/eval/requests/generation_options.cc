#include "eval/requests/generation_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::eval {

infer::GenerateOptions generation_options(const Json& kwargs, const std::string& source, std::uint64_t seed) {
  static const std::vector<std::string> kKnown{
      "until",       "max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens", "do_sample",
      "temperature", "top_k",        "top_p",          "min_p",      "repetition_penalty"};
  for (const auto& [key, value] : kwargs.items())
    require<ConfigError>(std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end(),
                         "{}: generation_kwargs: '{}' is not supported{}", source, key,
                         did_you_mean(key, kKnown));
  infer::GenerateOptions out;
  out.max_tokens = 256;  // the harness's default
  try {
    Json until = kwargs.value("until", Json::array());
    if (until.is_string()) until = Json::array({until});
    for (const Json& stop : until)
      if (stop != "") out.stop.push_back(stop);
    for (const auto* name : {"max_completion_tokens", "max_tokens", "max_new_tokens", "max_gen_toks"})
      if (kwargs.contains(name) && !kwargs[name].is_null()) out.max_tokens = kwargs[name].get<std::int64_t>();
    const double temperature = kwargs.value("temperature", 0.0);
    const bool sample = kwargs.value("do_sample", temperature > 0);
    out.sampling.greedy = !sample || temperature == 0;
    out.sampling.temperature = out.sampling.greedy ? 1.0 : temperature;
    if (!out.sampling.greedy) {
      out.sampling.top_k = kwargs.value("top_k", std::int64_t{50});  // the default of transformers
      out.sampling.top_p = kwargs.value("top_p", 1.0);
      out.sampling.min_p = kwargs.value("min_p", 0.0);
    }
    out.sampling.repetition_penalty = kwargs.value("repetition_penalty", 1.0);
  } catch (const Json::exception& error) {
    fail<ConfigError>("{}: generation_kwargs: {}", source, error.what());
  }
  require<ConfigError>(out.max_tokens >= 1, "{}: generation_kwargs: max_gen_toks is {}, expected at least 1",
                       source, out.max_tokens);
  out.sampling.seed = seed;
  infer::validate(out.sampling);
  return out;
}

}  // namespace stoa::eval
