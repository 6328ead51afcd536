// /completion and /infill, the forms of llama-server: the text that follows a prompt, or that stands between
// two.
#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/constraint_fields.h"
#include "serve/handlers.h"
#include "serve/infill.h"
#include "serve/sampling_fields.h"
#include "serve/token_text.h"
#include "token/stream_decoder.h"

namespace stoa::serve {
namespace {

constexpr std::size_t kMostFiles = 1024;
constexpr std::int64_t kMostProbabilities = 1000, kMostIndent = 4096, kMostMilliseconds = 86'400'000;
constexpr std::size_t kMostFields = 256;

struct LlamaForm {
  std::vector<std::vector<std::int32_t>> prompts;
  bool several = false;  // the answer is a list
  bool tokens = false;   // ids of the answer
  std::int64_t probabilities = 0;
  bool processed = false;                // they are of what is drawn from
  Json settings = {};                    // what the answer repeats of the request
  std::vector<std::string> fields = {};  // those of the answer that are sent; none: all
};

// The fields that are there under their paths: {"timings/prompt_n": 4} of "timings/prompt_n".
Json chosen_fields(const Json& answer, const std::vector<std::string>& paths) {
  Json out = Json::object();
  for (const std::string& path : paths) {
    const Json* value = &answer;
    for (std::size_t begin = 0; value != nullptr && begin <= path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const auto found = value->find(path.substr(begin, end - begin));
      value = value->is_object() && found != value->end() ? &*found : nullptr;
      begin = end + 1;
    }
    if (value != nullptr) out[path] = *value;
  }
  return out;
}

class LlamaTask : public GenerationTask {
 public:
  LlamaTask(std::shared_ptr<ServedModel> model, const Call& call, bool stream, LlamaForm form)
      : GenerationTask(std::move(model), call.answer, stream),
        form_(std::move(form)),
        parts_(form_.prompts.size()) {}

 protected:
  void on_piece(std::size_t index, AnswerPiece piece) override {
    Json tokens = Json::array(), scores = Json::array();
    for (const auto& [score, offset] : piece.tokens) {
      tokens.push_back(score.token.id);
      if (form_.probabilities > 0)
        scores.push_back(chat_score(model().tokenizer(), score, static_cast<std::size_t>(form_.probabilities),
                                    true, form_.processed));
    }
    if (stream()) {
      Json out{{"index", index},
               {"content", piece.text},
               {"tokens", std::move(tokens)},
               {"stop", false},
               {"tokens_predicted", tokens_of(index)},
               {"tokens_evaluated", form_.prompts[index].size()}};
      if (form_.probabilities > 0) out["completion_probabilities"] = std::move(scores);
      return event(out);
    }
    Part& part = parts_[index];
    part.text += piece.text;
    if (form_.tokens) part.tokens.insert(part.tokens.end(), tokens.begin(), tokens.end());
    part.scores.insert(part.scores.end(), scores.begin(), scores.end());
  }

  void on_choice_end(std::size_t index, infer::EndReason reason) override {
    parts_[index].stop_type = reason == infer::EndReason::kEndToken ? "eos"
                              : !stop_text_of(index).empty()        ? "word"
                                                                    : "limit";
    if (stream()) event(last(index));
  }

  void on_finish() override {
    if (stream()) return;
    Json out = Json::array();
    for (std::size_t i = 0; i < parts_.size(); ++i) out.push_back(last(i));
    answer().send({200, "application/json", json_text(form_.several ? out : out[0])});
  }

 private:
  struct Part {
    std::string text, stop_type;
    Json tokens = Json::array(), scores = Json::array();
  };

  // The answer, or the end of a stream.
  Json last(std::size_t index) const {
    const Part& part = parts_[index];
    const std::vector<std::int32_t>& prompt = form_.prompts[index];
    Json out{
        {"index", index},
        {"content", part.text},
        {"tokens", part.tokens},
        {"stop", true},
        {"model", model().name()},
        {"tokens_predicted", tokens_of(index)},
        {"tokens_evaluated", prompt.size()},
        {"generation_settings", form_.settings},
        {"prompt", token::replace_invalid_utf8(model().tokenizer().decode(prompt, {.skip_special = false}))},
        {"truncated", false},
        {"stop_type", part.stop_type},
        {"stopping_word", stop_text_of(index)},
        {"tokens_cached", cached_of(index)},
        {"timings", timings(index)}};
    if (form_.probabilities > 0 && !stream()) out["completion_probabilities"] = part.scores;
    return form_.fields.empty() ? out : chosen_fields(out, form_.fields);
  }

  // The first token comes with the prompt: its time is the prompt's.
  Json timings(std::size_t index) const {
    const auto [prompt, answer] = seconds_of(index);
    const std::int64_t cached = cached_of(index), computed = std::ssize(form_.prompts[index]) - cached,
                       drawn = tokens_of(index);
    Json out{{"cache_n", cached}};
    const auto add = [&](const std::string& name, std::int64_t tokens, double seconds) {
      out[name + "_n"] = tokens;
      out[name + "_ms"] = seconds * 1e3;
      out[name + "_per_token_ms"] = tokens > 0 ? seconds * 1e3 / static_cast<double>(tokens) : 0.0;
      out[name + "_per_second"] = seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
    };
    add("prompt", computed, prompt);
    add("predicted", drawn, answer);
    return out;
  }

  const LlamaForm form_;
  std::vector<Part> parts_;
};

// A text, ids, both mixed, or {"prompt_string": …}. What the tokenizer adds comes before texts that begin it.
std::vector<std::int32_t> read_prompt(const Json& value, const std::string& place, const ServedModel& model) {
  if (value.is_string()) return model.encode(value.get_ref<const std::string&>(), true);
  if (value.is_object()) {
    for (const auto& [key, unused] : value.items())
      check(key == "prompt_string", "prompt", "'{}': '{}' is not supported: text alone", place,
            key.substr(0, 100));
    check(value.contains("prompt_string") && value["prompt_string"].is_string(), "prompt",
          R"('{}' must be {{"prompt_string": …}})", place);
    return model.encode(value["prompt_string"].get_ref<const std::string&>(), true);
  }
  check(value.is_array() && !value.empty(), "prompt",
        "'{}' must be a text, token ids, or texts and ids mixed, and not empty", place);
  const bool begins = !model.reads_sources();  // an encoder-decoder's tokenizer ends texts instead
  std::vector<std::int32_t> out;
  for (const Json& part : value) {
    const std::vector<std::int32_t> ids =
        part.is_string() ? model.ids_of(part.get_ref<const std::string&>(), begins && &part == &value.front())
                         : ids_of(Json::array({part}), place, model.vocabulary());
    out.insert(out.end(), ids.begin(), ids.end());
  }
  check(!out.empty(), "prompt", "'{}' is empty", place);
  return out;
}

// llama-server's list of samplers: those that it leaves out are off. An order other than llama-server's own
// is refused.
void read_samplers(const RequestBody& body, infer::SamplingOptions& s) {
  const Json* list = body.find("samplers");
  if (list == nullptr) return;
  constexpr std::array kOrdered{"penalties", "top_n_sigma", "top_k", "typical_p",
                                "top_p",     "min_p",       "xtc",   "temperature"};
  // Off in every request, but for `infill`, which is left out.
  constexpr std::array kWithoutEffect{"dry", "infill"};
  check(list->is_array(), "samplers", "'samplers' must be a list of names");
  check(s.order == infer::SamplerOrder::kLlamaCpp, "samplers",
        "'samplers' is of the sampler_order llama.cpp");
  std::array<bool, kOrdered.size()> on{};
  std::size_t least = 0;
  for (const Json& entry : *list) {
    check(entry.is_string(), "samplers", "'samplers' must be a list of names");
    const std::string name = entry == "temp"    ? "temperature"
                             : entry == "typ_p" ? "typical_p"
                                                : entry.get<std::string>();
    if (std::ranges::find(kWithoutEffect, name) != kWithoutEffect.end()) continue;
    const auto at = static_cast<std::size_t>(std::ranges::find(kOrdered, name) - kOrdered.begin());
    check(at < kOrdered.size(), "samplers",
          "'samplers': unknown sampler '{}'; known: {}, and without effect {}", name.substr(0, 100),
          fmt::join(kOrdered, ", "), fmt::join(kWithoutEffect, ", "));
    check(at >= least, "samplers", "'samplers': '{}' comes too late; the order is {}", name,
          fmt::join(kOrdered, ", "));
    least = at;
    on[at] = true;
  }
  if (!on[0]) s.repetition_penalty = 1, s.presence_penalty = 0, s.frequency_penalty = 0;
  if (!on[1]) s.further.top_n_sigma = 0;
  if (!on[2]) s.top_k = 0;
  if (!on[3]) s.further.typical_p = 1;
  if (!on[4]) s.top_p = 1;
  if (!on[5]) s.min_p = 0;
  if (!on[6]) s.further.xtc_probability = 0;
  if (!on[7]) s.temperature = 1;
}

// Sampling under the names of llama-server, in its order.
infer::Request read_llama_sampling(const RequestBody& body, const ServedModel& model) {
  infer::Request job = read_sampling(body, model);
  infer::SamplingOptions& s = job.sampling;
  job.choices = 1;
  if (!body.has("sampler_order")) s.order = infer::SamplerOrder::kLlamaCpp;
  // Each means a random seed: -1, and llama-server's default, which it writes into its answers.
  if (s.seed == static_cast<std::uint64_t>(-1) || s.seed == std::numeric_limits<std::uint32_t>::max())
    s.seed = random_seed();
  if (const auto penalty = body.number("repeat_penalty", 1e-3, 1000)) {
    check(!body.has("repetition_penalty"), "repeat_penalty",
          "'repeat_penalty' and 'repetition_penalty' are names of the same: give one of them");
    s.repetition_penalty = *penalty;
  }
  if (const auto window = body.integer("repeat_last_n", -1, std::numeric_limits<std::int32_t>::max())) {
    check(s.order == infer::SamplerOrder::kLlamaCpp, "repeat_last_n",
          "'repeat_last_n' is of the sampler_order llama.cpp");
    s.penalty_window = *window < 0 ? std::numeric_limits<std::int32_t>::max() : *window;
  }
  read_samplers(body, s);
  return job;
}

Json settings_of(const infer::Request& job, const AnswerText::Options& text, const RequestBody& body) {
  const infer::SamplingOptions& s = job.sampling;
  return {{"n_predict", job.max_tokens},
          {"seed", s.seed},
          {"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"typical_p", s.further.typical_p},
          {"top_n_sigma", s.further.top_n_sigma},
          {"xtc_probability", s.further.xtc_probability},
          {"xtc_threshold", s.further.xtc_threshold},
          {"repeat_penalty", s.repetition_penalty},
          {"repeat_last_n", s.penalty_window},
          {"presence_penalty", s.presence_penalty},
          {"frequency_penalty", s.frequency_penalty},
          {"sampler_order", infer::kSamplerOrderNames[static_cast<std::size_t>(s.order)]},
          {"ignore_eos", body.boolean("ignore_eos", false)},
          {"stop", text.stop},
          {"grammar", body.text("grammar").value_or("")},
          {"n_probs", job.logprobs.value_or(0)},
          {"stream", body.boolean("stream", false)}};
}

void run_llama(const Call& call, LlamaForm form) {
  const RequestBody& body = call.body;
  const auto& model = call.model;
  infer::Request job = read_llama_sampling(body, *model);
  job.constraint = read_constraint(body, *model);
  job.tenant = call.owner;
  form.probabilities = body.integer("n_probs", 0, kMostProbabilities).value_or(0);
  if (form.probabilities > 0) job.logprobs = static_cast<int>(form.probabilities);
  job.processed_logprobs = form.processed = body.boolean("post_sampling_probs", false);
  AnswerText::Options text;
  text.stop = read_stops(body, "stop");
  text.lines.indent = body.integer("n_indent", 0, kMostIndent).value_or(0);
  text.lines.time = std::chrono::milliseconds(
      std::max<std::int64_t>(0, body.integer("t_max_predict_ms", -1, kMostMilliseconds).value_or(0)));
  form.fields = body.texts("response_fields", kMostFields);
  const bool stream = body.boolean("stream", false);
  form.tokens = body.boolean("return_tokens", false);
  text.keep_scores = stream || form.tokens || form.probabilities > 0;
  const auto wanted = read_length(body, "n_predict", 0);
  std::vector<infer::Request> jobs;
  for (const auto& prompt : form.prompts) {
    job.max_tokens = answer_length(*model, prompt.size(), wanted, "n_predict");
    jobs.push_back(job);
    jobs.back().prompt = prompt;
  }
  job.max_tokens = wanted.value_or(-1);
  form.settings = settings_of(job, text, body);
  std::make_shared<LlamaTask>(model, call, stream, std::move(form))->run(std::move(jobs), text);
}

}  // namespace

void complete_as_llama(const Call& call) {
  const auto& model = call.model;
  model->require_engine();
  const Json& value = call.body.at("prompt");
  LlamaForm form;
  form.several =
      value.is_array() && std::ranges::none_of(value, [](const Json& part) { return part.is_number(); });
  if (!form.several) {
    form.prompts.push_back(read_prompt(value, "prompt", *model));
  } else {
    check(!value.empty() && value.size() <= kMostPrompts, "prompt",
          "'prompt' must be a list of 1 to {} prompts", kMostPrompts);
    for (std::size_t i = 0; i < value.size(); ++i)
      form.prompts.push_back(read_prompt(value[i], fmt::format("prompt[{}]", i), *model));
  }
  run_llama(call, std::move(form));
}

void infill(const Call& call) {
  const RequestBody& body = call.body;
  const auto& model = call.model;
  model->require_engine();
  InfillText text;
  text.prefix = body.text("input_prefix").value_or("") + body.text("prompt").value_or("");
  text.suffix = body.text("input_suffix").value_or("");
  check(body.has("input_prefix") || body.has("input_suffix"), "input_prefix",
        "give 'input_prefix', 'input_suffix' or both");
  if (const Json* files = body.find("input_extra")) {
    check(files->is_array() && files->size() <= kMostFiles, "input_extra",
          "'input_extra' must be a list of at most {} files", kMostFiles);
    for (const Json& file : *files) {
      const bool good = file.is_object() && file.value("text", Json()).is_string() &&
                        file.value("filename", Json("")).is_string();
      check(good, "input_extra", R"('input_extra': each must be {{"filename": …, "text": …}})");
      text.files.emplace_back(file.value("filename", std::string("tmp")), file["text"].get<std::string>());
    }
  }
  run_llama(call, {.prompts = {infill_prompt(*model, text, "model")}});
}

}  // namespace stoa::serve
