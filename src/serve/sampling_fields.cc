#include "serve/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

namespace stoa::serve {
namespace {

constexpr double kLeastTopP = 1e-9;  // the most likely token alone
constexpr std::size_t kMostStops = 64, kLongestStop = 1000, kMostBiases = 4096;
constexpr double kLargestBias = 100;

// logit_bias: OpenAI's object of ids, or llama-server's list of pairs, whose tokens may be texts, and whose
// bias may be false: never.
void read_bias(const RequestBody& body, const ServedModel& model, infer::SamplingOptions& out) {
  const Json* bias = body.find("logit_bias");
  if (bias == nullptr) return;
  check(bias->is_object() || bias->is_array(), "logit_bias",
        "'logit_bias' must be an object of token ids, or a list of pairs");
  std::size_t tokens = 0;
  const auto add = [&](std::int64_t id, const Json& value) {
    check(++tokens <= kMostBiases, "logit_bias", "'logit_bias' has more than {} tokens", kMostBiases);
    check(id >= 0 && id < model.vocabulary(), "logit_bias", "'logit_bias': '{}' is no token id below {}", id,
          model.vocabulary());
    const auto token = static_cast<std::int32_t>(id);
    if (bias->is_array() && value == false) return out.suppressed.push_back(token);
    check(value.is_number() && std::abs(value.get<double>()) <= kLargestBias, "logit_bias",
          "'logit_bias': the bias of {} must be between -100 and 100, got {}", id, value.dump());
    out.logit_bias.emplace_back(token, value.get<float>());
  };
  if (bias->is_object()) {
    for (const auto& [key, value] : bias->items()) {
      std::int32_t id = -1;
      const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
      check(read.ec == std::errc() && read.ptr == key.data() + key.size(), "logit_bias",
            "'logit_bias': '{}' is no token id below {}", key.substr(0, 40), model.vocabulary());
      add(id, value);
    }
    return;
  }
  for (const Json& pair : *bias) {
    check(pair.is_array() && pair.size() == 2 && (pair[0].is_number_integer() || pair[0].is_string()),
          "logit_bias", "'logit_bias': each entry must be a pair [id or text, bias or false]");
    if (pair[0].is_string()) {
      const auto& text = pair[0].get_ref<const std::string&>();
      for (const auto id : model.tokenizer().encode(text, {.plain = true, .add_special = false}))
        add(id, pair[1]);
    } else {
      add(pair[0].get<std::int64_t>(), pair[1]);
    }
  }
}

}  // namespace

std::uint64_t random_seed() {
  thread_local std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) >> 1;
}

infer::Request read_sampling(const RequestBody& body, const ServedModel& model) {
  infer::Request job;
  auto& s = job.sampling;
  const auto& file = model.defaults();
  const bool draws = file.do_sample.value_or(false);
  const auto file_or = [&](const auto& value, auto otherwise) {
    return draws && value ? static_cast<decltype(otherwise)>(*value) : otherwise;
  };
  s.temperature = body.number("temperature", 0, 100).value_or(file_or(file.temperature, 1.0));
  s.top_p = std::max(kLeastTopP, body.number("top_p", 0, 1).value_or(file_or(file.top_p, 1.0)));
  s.top_k = std::max<std::int64_t>(0, body.integer("top_k", -1, std::numeric_limits<std::int32_t>::max())
                                          .value_or(file_or(file.top_k, std::int64_t{0})));
  s.min_p = body.number("min_p", 0, 1).value_or(file_or(file.min_p, 0.0));
  infer::FurtherCuts& further = s.further;
  further.typical_p = std::max(
      kLeastTopP, body.number("typical_p", 0, 1).value_or(std::min(1.0, file_or(file.typical_p, 1.0))));
  further.top_n_sigma = body.number("top_n_sigma", -1, 1000).value_or(0);
  further.xtc_probability = body.number("xtc_probability", 0, 1).value_or(0);
  further.xtc_threshold = body.number("xtc_threshold", 0, 1).value_or(further.xtc_threshold);
  s.repetition_penalty =
      body.number("repetition_penalty", 1e-3, 1000).value_or(file.repetition_penalty.value_or(1.0));
  s.presence_penalty = body.number("presence_penalty", -2, 2).value_or(0);
  s.frequency_penalty = body.number("frequency_penalty", -2, 2).value_or(0);
  if (const auto order = body.text("sampler_order")) {
    try {
      s.order = infer::sampler_order_of(*order);
    } catch (const ConfigError& error) {
      reject("sampler_order", "'sampler_order': {}", error.what());
    }
  }
  s.suppressed = file.suppressed;
  read_bias(body, model, s);
  s.suppressed_first = file.suppressed_first;
  s.bad_words = file.bad_words;
  for (const std::string& word : body.texts("bad_words", kMostStops)) {
    check(!word.empty() && word.size() <= kLongestStop, "bad_words",
          "'bad_words' must have texts of 1 to {} bytes", kLongestStop);
    // At the beginning of an answer and inside it a word is of other tokens.
    for (const char* before : {"", " "})
      if (auto ids = model.tokenizer().encode(before + word, {.plain = true, .add_special = false});
          !ids.empty())
        s.bad_words.push_back(std::move(ids));
  }
  job.cache_salt = body.text("cache_salt").value_or("");
  const auto seed = body.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max());
  s.seed = seed ? static_cast<std::uint64_t>(*seed) : random_seed();
  job.choices = static_cast<int>(body.integer("n", 1, kMostChoices).value_or(1));
  if (!body.boolean("ignore_eos", false)) job.end_ids = model.end_tokens();
  for (const std::int32_t id : body.ids("stop_token_ids", model.vocabulary())) job.end_ids.push_back(id);
  s.min_tokens = body.integer("min_tokens", 0, std::numeric_limits<std::int32_t>::max()).value_or(0);
  return job;
}

std::vector<std::string> read_stops(const RequestBody& body, const char* name) {
  std::vector<std::string> stops = body.texts(name, kMostStops);
  for (const std::string& stop : stops) {
    check(!stop.empty(), name, "'{}' has an empty text", name);
    check(stop.size() <= kLongestStop, name, "'{}' has a text of {} bytes, at most {} are taken", name,
          stop.size(), kLongestStop);
  }
  return stops;
}

AnswerText::Options read_text_options(const RequestBody& body) {
  AnswerText::Options options;
  options.stop = read_stops(body, "stop");
  options.skip_special = body.boolean("skip_special_tokens", true);
  options.include_stop = body.boolean("include_stop_str_in_output", false);
  return options;
}

std::optional<std::int64_t> read_length(const RequestBody& body, const char* field, std::int64_t least) {
  const auto given = body.integer(field, -1, std::numeric_limits<std::int32_t>::max());
  if (given == -1) return std::nullopt;
  check(given.value_or(least) >= least, field, "'{}' must be at least {}, or -1: what the context leaves",
        field, least);
  return given;
}

bool reads_processed_logprobs(const RequestBody& body) {
  const auto mode = body.text("logprobs_mode");
  check(!mode || *mode == "raw_logprobs" || *mode == "processed_logprobs", "logprobs_mode",
        "'logprobs_mode' must be 'raw_logprobs' or 'processed_logprobs'");
  return mode == "processed_logprobs";
}

std::int64_t answer_length(const ServedModel& model, std::size_t prompt_tokens,
                           std::optional<std::int64_t> wanted, const char* field) {
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  const std::int64_t room = model.room(prompt), asked = wanted.value_or(1);
  if (room >= std::max<std::int64_t>(1, asked)) return wanted.value_or(room);
  throw ApiError(
      400,
      model.reads_sources()
          ? fmt::format(
                "'{}' reads prompts of {} tokens and writes answers of {}: the prompt has {}, and {} of an "
                "answer were asked for",
                model.name(), model.context(), model.room(std::min(prompt, model.context())), prompt, asked)
          : fmt::format(
                "the context of '{}' is {} tokens: the prompt has {}, and {} of an answer were asked for",
                model.name(), model.context(), prompt, asked),
      field, "context_length_exceeded");
}

}  // namespace stoa::serve
