#include "cli/serving_speed.h"

#include "base/file.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTokensPerRound = 20;  // drawn in turns with reading memory: the time of a single token varies

Json points_of(const serve::PassTimes::Curve& curve) {
  Json out = Json::array();
  for (const auto& [count, seconds] : curve) out.push_back({count, seconds});
  return out;
}

serve::PassTimes::Curve curve_of(const Json& points) {
  serve::PassTimes::Curve out;
  for (const Json& point : points) {
    out.emplace_back(point.at(0).get<std::int64_t>(), point.at(1).get<double>());
    require<DataError>(
        out.back().first > (out.size() > 1 ? out[out.size() - 2].first : 0) && out.back().second >= 0,
        "counts must rise from 1 and seconds must not be negative");
  }
  require<DataError>(!out.empty(), "a curve has no points");
  return out;
}

}  // namespace

EngineSpeed measure_engine(const std::string& name, MachineOptions machine,
                           const std::function<infer::OpenModel(infer::MakeMachine)>& open,
                           infer::EngineUse use, int rounds, MeasureMemory memory) {
  machine.rows_apart = true;  // as a server computes
  use.tokenizer = false;
  use.pairs = true;
  std::string description;
  infer::OpenModel model = open([&] {
    infer::Machine made = make_machine(machine);
    description = made.description;
    return made;
  });
  const auto decoder = infer::load_paged_decoder(model, use);
  EngineSpeed out{name, description, decoder->limits(), serve::measure_passes(*decoder, rounds)};
  const auto pool = static_cast<double>(decoder->pool().bytes),
             all = static_cast<double>(decoder->chunk().arena().total_bytes());
  out.bytes = EngineBytes{pool / static_cast<double>(out.limits.blocks * out.limits.block_tokens), all - pool};
  if (memory == MeasureMemory::kYes && machine.backend == "cpu" && !out.limits.reads_sources())
    out.memory = measure_memory_share(*decoder, choose_instruction_set(machine.instruction_set),
                                      kTokensPerRound * rounds);
  return out;
}

Json speed_json(const EngineSpeed& speed) {
  const infer::PassLimits& l = speed.limits;
  Json out = {{"model", speed.model},
              {"machine", speed.machine},
              {"limits",
               {{"block_tokens", l.block_tokens},
                {"blocks", l.blocks},
                {"context", l.context},
                {"pass_tokens", l.pass_tokens},
                {"sequences", l.sequences},
                {"scored", l.scored}}},
              {"pass_seconds_by_tokens", points_of(speed.times.tokens)},
              {"more_seconds_by_logits", points_of(speed.times.scored)},
              {"seconds_per_token_read", speed.times.per_read},
              {"seconds_per_token_pair", speed.times.per_pair}};
  if (l.reads_sources()) {
    out["limits"]["source_tokens"] = l.source_tokens;
    out["more_seconds_by_source_tokens"] = points_of(speed.times.sources);
    out["seconds_per_source_token_read"] = speed.times.per_source_read;
    out["seconds_per_source_token_pair"] = speed.times.per_source_pair;
  }
  if (const auto& b = speed.bytes)
    out["bytes"] = {{"keys_and_values_of_a_token", b->per_token}, {"other", b->other}};
  if (const auto& m = speed.memory)
    out["memory"] = {{"token_bytes", m->token_bytes},
                     {"read_bytes_per_second", m->read_rate},
                     {"share", m->share},
                     {"share_quartiles", {m->least, m->most}}};
  return out;
}

EngineSpeed read_engine_speed(const std::filesystem::path& file, const ConfigArguments& config) {
  require<UsageError>(!config.given(), "--measured {} names its model: give no other ('{}')", file.string(),
                      config.source());
  const std::string text = read_text(file);
  EngineSpeed out;
  try {
    const Json json = Json::parse(text);
    out.model = json.at("model").get<std::string>();
    out.machine = json.at("machine").get<std::string>();
    const Json& l = json.at("limits");
    const auto limit = [&](const char* name) {
      const auto value = l.at(name).get<std::int64_t>();
      require<DataError>(value >= 1, "{} is {}, expected at least 1", name, value);
      return value;
    };
    out.limits.block_tokens = limit("block_tokens");
    out.limits.blocks = limit("blocks");
    out.limits.context = limit("context");
    out.limits.pass_tokens = limit("pass_tokens");
    out.limits.sequences = limit("sequences");
    out.limits.scored = limit("scored");
    out.times.tokens = curve_of(json.at("pass_seconds_by_tokens"));
    out.times.scored = curve_of(json.at("more_seconds_by_logits"));
    out.times.per_read = json.at("seconds_per_token_read").get<double>();
    out.times.per_pair = json.at("seconds_per_token_pair").get<double>();
    if (l.contains("source_tokens")) {
      out.limits.source_tokens = limit("source_tokens");
      out.times.sources = curve_of(json.at("more_seconds_by_source_tokens"));
      out.times.per_source_read = json.at("seconds_per_source_token_read").get<double>();
      out.times.per_source_pair = json.at("seconds_per_source_token_pair").get<double>();
    }
    if (json.contains("bytes"))
      out.bytes = EngineBytes{json["bytes"].at("keys_and_values_of_a_token").get<double>(),
                              json["bytes"].at("other").get<double>()};
  } catch (const std::exception& error) {
    fail<DataError>("{}: not what 'stoa bench engine MODEL --json' writes: {}", file.string(), error.what());
  }
  return out;
}

}  // namespace stoa::cli
