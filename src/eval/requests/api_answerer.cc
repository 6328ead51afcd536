#include "eval/requests/api_answerer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "eval/requests/chat_prompt.h"
#include "eval/requests/generated_answers.h"

namespace stoa::eval {
namespace {

constexpr int kMostStops = 4;           // of a chat
constexpr std::int64_t kWindow = 2048;  // where the server does not say; the harness's own

Json generation_fields(const infer::GenerateOptions& how, std::uint64_t seed) {
  Json out{{"max_tokens", how.max_tokens},
           {"temperature", how.sampling.greedy ? 0.0 : how.sampling.temperature}};
  if (!how.stop.empty()) out["stop"] = how.stop;
  if (how.sampling.greedy) return out;
  out["seed"] = seed;
  if (how.sampling.top_p < 1) out["top_p"] = how.sampling.top_p;
  if (how.sampling.top_k > 0) out["top_k"] = how.sampling.top_k;
  if (how.sampling.min_p > 0) out["min_p"] = how.sampling.min_p;
  return out;
}

// The message of OpenAI's error object, or the body as it is.
std::string message_of(const ApiReply& reply) {
  const Json body = Json::parse(reply.body, nullptr, false);
  if (body.is_object() && body.contains("error") && body["error"].is_object() &&
      body["error"].value("message", Json()).is_string())
    return body["error"]["message"];
  return reply.body.substr(0, 500);
}

}  // namespace

ApiAnswerer::ApiAnswerer(ApiOptions options, std::optional<token::Tokenizer> tokenizer,
                         std::function<Ask()> connect)
    : options_(std::move(options)), tokenizer_(std::move(tokenizer)), connect_(std::move(connect)) {}

std::string ApiAnswerer::identity() {
  return fmt::format("{} {} {}", options_.server, options_.model, options_.chat ? "chat" : "text");
}

TokenCount ApiAnswerer::tokens(const ScoringOptions& options) {
  return tokenizer_ ? token_count(*tokenizer_, options.add_bos) : nullptr;
}

ChatFunction ApiAnswerer::chat() {
  if (options_.chat) return [](const Json& messages, bool) { return messages.dump(); };
  require<ConfigError>(tokenizer_.has_value(), "--apply_chat_template needs --tokenizer, or --api-chat");
  return chat_function(*tokenizer_);
}

Json ApiAnswerer::asked(const Ask& ask, const std::string& path, const Json* body) const {
  double wait = options_.wait;
  for (int i = 1;; ++i, wait *= 2) {
    const ApiReply reply = ask(path, body);
    if (reply.status == 200) {
      Json out = Json::parse(reply.body, nullptr, false);
      require<IoError>(out.is_object(), "{}{}: the answer is not a JSON object: {}", options_.server, path,
                       reply.body.substr(0, 200));
      return out;
    }
    const bool passing =
        reply.status == 0 || reply.status == 408 || reply.status == 429 || reply.status >= 500;
    require<ConfigError>(passing, "{}{}: status {}: {}", options_.server, path, reply.status,
                         message_of(reply));
    require<IoError>(i < options_.tries, "{}{}: {}{}", options_.server, path,
                     reply.status == 0 ? "" : fmt::format("status {}: ", reply.status), message_of(reply));
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
  }
}

std::optional<std::int64_t> ApiAnswerer::served_window() const {
  const ApiReply reply = connect_()("/models", nullptr);
  const Json body = Json::parse(reply.body, nullptr, false);
  if (reply.status != 200 || !body.is_object()) return std::nullopt;
  for (const Json& model : body.value("data", Json::array()))
    if (model.is_object() && model.value("id", Json()) == options_.model &&
        model.value("max_model_len", Json()).is_number_integer())
      return model["max_model_len"].get<std::int64_t>();
  return std::nullopt;
}

void ApiAnswerer::score(const Ask& ask, EncodedText& text, Answer& answer) const {
  std::vector<std::int32_t> prompt = text.tokens;
  prompt.push_back(text.labels.back());
  const Json body{{"model", options_.model}, {"prompt", Json::array({prompt})},
                  {"temperature", 0},        {"max_tokens", 1},
                  {"logprobs", 1},           {"echo", true}};
  const Json reply = asked(ask, "/completions", &body);
  try {
    const Json& probabilities = reply.at("choices").at(0).at("logprobs");
    const Json &own = probabilities.at("token_logprobs"), &top = probabilities.at("top_logprobs");
    answer.greedy = !text.rolling;
    for (std::size_t i = prompt.size() - text.scored; i < prompt.size(); ++i) {
      const double value = own.at(i).get<double>();
      text.log_likelihood += value;
      double best = value;
      for (const auto& [token, other] : top.at(i).items()) best = std::max(best, other.get<double>());
      answer.greedy &= value == best;
    }
  } catch (const Json::exception& error) {
    fail<IoError>("{}/completions: the answer has no log-likelihoods of the prompt (echo, logprobs): {}",
                  options_.server, error.what());
  }
}

void ApiAnswerer::generate(const Ask& ask, const EncodedText& text, const infer::GenerateOptions& how,
                           std::uint64_t seed, Answer& answer) const {
  Json body{{"model", options_.model}, {"prompt", Json::array({text.tokens})}};
  body.update(generation_fields(how, seed));
  const Json reply = asked(ask, "/completions", &body);
  try {
    answer.text = cut_at_stops(reply.at("choices").at(0).at("text").get<std::string>(), how.stop);
  } catch (const Json::exception& error) {
    fail<IoError>("{}/completions: the answer has no text: {}", options_.server, error.what());
  }
}

void ApiAnswerer::talk(const Ask& ask, const Request& request, const infer::GenerateOptions& how,
                       Answer& answer) const {
  Json messages = Json::parse(request.context, nullptr, false);
  if (!messages.is_array()) messages = Json::array({{{"role", "user"}, {"content", request.context}}});
  Json body{{"model", options_.model}, {"messages", messages}};
  body.update(generation_fields(how, how.sampling.seed + request.number));
  if (body.contains("stop") && body["stop"].size() > kMostStops)  // the text is cut at the others here
    body["stop"].erase(body["stop"].begin() + kMostStops, body["stop"].end());
  const Json reply = asked(ask, "/chat/completions", &body);
  try {
    const Json& content = reply.at("choices").at(0).at("message").at("content");
    answer.text = content.is_null() ? "" : cut_at_stops(content.get<std::string>(), how.stop);
  } catch (const Json::exception& error) {
    fail<IoError>("{}/chat/completions: the answer has no message: {}", options_.server, error.what());
  }
}

void ApiAnswerer::share_out(std::size_t tasks,
                            const std::function<void(const Ask&, std::size_t)>& body) const {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      const Ask ask = connect_();
      for (std::size_t i = next++; i < tasks; i = next++) body(ask, i);
    } catch (...) {
      next = tasks;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min<std::size_t>(tasks, static_cast<std::size_t>(options_.at_once)); ++i)
      threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

Answerer::Facts ApiAnswerer::answer(std::vector<Request> requests,
                                    std::vector<const infer::GenerateOptions*> generation,
                                    const ScoringOptions& options, const AnswerTold& told) {
  Facts facts;
  std::mutex mutex;
  if (options_.chat) {
    for (const infer::GenerateOptions* how : generation)
      require<ConfigError>(
          how != nullptr,
          "--api-chat: a chat gives no log-likelihoods, which some of these tasks ask for: use "
          "/completions (without --api-chat)");
    std::size_t done = 0;
    share_out(requests.size(), [&](const Ask& ask, std::size_t i) {
      Answer answer;
      talk(ask, requests[i], *generation[i], answer);
      const std::lock_guard lock(mutex);
      told(i, answer, static_cast<double>(++done) / static_cast<double>(requests.size()));
    });
    return facts;
  }
  require<ConfigError>(tokenizer_.has_value(),
                       "--api asks /completions in tokens: give --tokenizer, a directory with the model's "
                       "tokenizer (or --api-chat for tasks whose answers are generated)");
  // A prompt leaves room for the one token that a server generates; so of a text one token less is read.
  const std::optional<std::int64_t> served = served_window();
  facts.window = options.max_length.value_or(served.value_or(kWindow) - 2);
  require<ConfigError>(facts.window >= 2, "--max_length {}: at least 2", facts.window);
  EncodedRequests encoded(*tokenizer_, std::move(requests), std::move(generation), facts.window,
                          options.add_bos);
  facts.truncated = encoded.truncated();
  AnswerCollector answers(encoded, told);
  // The longest first, so that none of them is waited for at the end.
  std::vector<std::size_t> order(encoded.texts().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return encoded.texts()[a].tokens.size() > encoded.texts()[b].tokens.size();
  });
  share_out(order.size(), [&](const Ask& ask, std::size_t i) {
    EncodedText& text = encoded.texts()[order[i]];
    Answer answer;
    if (text.generate)
      generate(ask, text, encoded.generation(text), encoded.seed_of(text), answer);
    else
      score(ask, text, answer);
    const std::lock_guard lock(mutex);
    answers.of(text).text = answer.text;
    answers.of(text).greedy = answer.greedy;
    answers.done(text);
  });
  return facts;
}

}  // namespace stoa::eval
