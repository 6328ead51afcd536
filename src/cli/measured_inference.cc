#include "cli/measured_inference.h"

#include <algorithm>

#include "serve/load/simulated_load.h"

namespace stoa::cli {

plan::InferenceResult answers_of_measured(const EngineSpeed& speed, const plan::InferenceRequest& request) {
  require<DataError>(speed.bytes.has_value(),
                     "the measurement of {} says nothing of memory: repeat 'stoa bench engine MODEL --json'",
                     speed.model);
  const infer::PassLimits& limits = speed.limits;
  const std::vector<serve::RequestLength> lengths{{request.input, request.output}};
  // The last token of an answer is drawn and not read.
  const std::int64_t read = request.output - 1,
                     at_once = limits.reads_sources() ? limits.texts_at_once(1 + read, request.input)
                                                      : limits.texts_at_once(request.input + read);
  std::vector<plan::InferenceAnswer> grid;
  for (const std::int64_t batch : request.batches) {
    const auto texts = serve::simulate_load(limits, speed.times, lengths,
                                            std::vector<double>(static_cast<std::size_t>(batch), 0.0));
    plan::InferenceAnswer a;
    a.point.batch = batch;
    a.type = "file";
    for (const serve::SentRequest& text : texts) {
      a.first_token = std::max(a.first_token, text.first);
      a.latency = std::max(a.latency, text.end);
      if (request.output > 1) a.per_token += text.seconds_per_token() / static_cast<double>(batch);
    }
    a.sequences_per_second = static_cast<double>(batch) / a.latency;
    a.tokens_per_second = a.sequences_per_second * static_cast<double>(request.output);
    a.weight_bytes = speed.bytes->other;
    a.cache_bytes = speed.bytes->per_token * static_cast<double>(std::min(batch, at_once) *
                                                                 (request.input + request.output));
    a.fits = batch <= at_once;
    grid.push_back(a);
  }
  return plan::choose_inference(std::move(grid), request.most_latency);
}

}  // namespace stoa::cli
