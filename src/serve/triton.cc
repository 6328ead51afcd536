// /v2/models/NAME/generate and /generate_stream, the generate extension of Triton's servers, with the names
// of its TensorRT-LLM and vLLM backends: read as the completion that it describes.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/handlers.h"
#include "serve/sampling_fields.h"

namespace stoa::serve {
namespace {

constexpr std::int64_t kTokensOfAnswer = 16;  // where none are asked for, as in /v1/completions

// The fields of the request and of the objects within it, which have the same names.
RequestBody flat_body(const RequestBody& body, const char* route) {
  constexpr std::array kWithin{"parameters", "sampling_parameters"};
  Json all = Json::object();  // without fields that a lenient server passes over
  for (const Field& field : fields_of(route))
    if (const auto found = body.object().find(field.name); found != body.object().end() && !found->is_null())
      all[field.name] = *found;
  for (const char* field : kWithin) all.erase(field);
  for (const char* field : kWithin) {
    const Json* found = body.find(field);
    if (found == nullptr) continue;
    const Json more = found->is_string() ? parse_json(found->get<std::string>(), field) : *found;
    check(more.is_object(), field, "'{}' must be an object", field);
    for (const auto& [key, value] : more.items()) {
      const bool within = std::ranges::find(kWithin, key) != kWithin.end();
      check(!within && !all.contains(key), field, "'{}' of '{}' is {}", key, field,
            within ? "no parameter" : "given twice");
      all[key] = value;
    }
  }
  return RequestBody::of(std::move(all), fields_of(route), false);
}

// A text or a list of texts; empty ones, which examples of Triton have, stand for none.
Json words_of(const RequestBody& body, const char* field) {
  Json out = Json::array();
  for (std::string& word : body.texts(field, 64))
    if (!word.empty()) out.push_back(std::move(word));
  return out;
}

// The body of the completion that is asked for.
Json completion_of(const RequestBody& body) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"max_tokens", "max_tokens"},
                                                            {"temperature", "temperature"},
                                                            {"top_k", "top_k"},
                                                            {"top_p", "top_p"},
                                                            {"min_p", "min_p"},
                                                            {"random_seed", "seed"},
                                                            {"seed", "seed"},
                                                            {"stop_words", "stop"},
                                                            {"stop", "stop"},
                                                            {"bad_words", "bad_words"},
                                                            {"min_length", "min_tokens"},
                                                            {"min_tokens", "min_tokens"},
                                                            {"repetition_penalty", "repetition_penalty"},
                                                            {"presence_penalty", "presence_penalty"},
                                                            {"frequency_penalty", "frequency_penalty"},
                                                            {"ignore_eos", "ignore_eos"}};
  Json out = Json::object();
  for (const auto& [own, name] : kNames) {
    const Json* value = body.find(own);
    if (value == nullptr) continue;
    const std::string_view field = name;
    Json read = field == "stop" || field == "bad_words" ? words_of(body, own) : *value;
    if (read.is_array() && read.empty()) continue;
    check(!out.contains(name), own, "'{}' is given under two names", own);
    out[name] = std::move(read);
  }
  if (const Json* end = body.find("end_id")) out["stop_token_ids"] = Json::array({*end});
  return out;
}

class TritonTask : public GenerationTask {
 public:
  // `before`: what the answer's text begins with.
  TritonTask(const Call& call, bool stream, bool pieces, std::string before)
      : GenerationTask(call.model, call.answer, stream), pieces_(pieces), text_(std::move(before)) {}

 protected:
  void on_piece(std::size_t, AnswerPiece piece) override {
    text_ += piece.text;
    if (!pieces_ || text_.empty()) return;
    event(output());
    text_.clear();
    sent_ = true;
  }
  void on_choice_end(std::size_t, infer::EndReason) override {}
  void on_finish() override {
    if (!stream()) return answer().send({200, "application/json", json_text(output())});
    if (!sent_) event(output());
  }
  void on_error(const ApiError& error) override { event({{"error", error.what()}}); }

 private:
  Json output() const {
    return {{"model_name", model().name()}, {"model_version", "1"}, {"text_output", text_}};
  }

  const bool pieces_;  // each piece of the text is an event
  std::string text_;   // that was not sent
  bool sent_ = false;  // an event was
};

void run_triton(const Call& call, const char* route, bool stream) {
  const auto& model = call.model;
  model->require_engine();
  const RequestBody body = flat_body(call.body, route);
  body.at("text_input");
  const std::string prompt = *body.text("text_input");
  const bool pieces = body.boolean("stream", stream),
             repeats = !body.boolean("exclude_input_in_output", pieces);
  check(!(pieces && repeats), "exclude_input_in_output",
        "'exclude_input_in_output' must be true in a stream: its events are pieces of the answer");
  const RequestBody completion = RequestBody::of(completion_of(body), fields_of("/v1/completions"), false);
  infer::Request job = read_sampling(completion, *model);
  job.tenant = call.owner;
  job.prompt = model->encode(prompt, true);
  const std::int64_t room = std::max<std::int64_t>(1, model->room(std::ssize(job.prompt)));
  const auto wanted =
      completion.has("max_tokens") ? read_length(completion, "max_tokens") : std::min(kTokensOfAnswer, room);
  job.max_tokens = answer_length(*model, job.prompt.size(), wanted, "max_tokens");
  std::vector<infer::Request> jobs;
  jobs.push_back(std::move(job));
  std::make_shared<TritonTask>(call, stream, pieces, repeats ? prompt : "")
      ->run(std::move(jobs), read_text_options(completion));
}

}  // namespace

void generate_as_triton(const Call& call) { run_triton(call, "/v2/models/{model}/generate", false); }
void stream_as_triton(const Call& call) { run_triton(call, "/v2/models/{model}/generate_stream", true); }

}  // namespace stoa::serve
