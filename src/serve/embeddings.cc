// /v1/embeddings, /score and /rerank: of encoders.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>

#include "serve/handlers.h"

namespace stoa::serve {
namespace {

constexpr std::size_t kMostTexts = 2048;

// The texts of a field: texts or ids, one or many.
std::vector<std::string> read_inputs(const RequestBody& body, const ServedModel& model) {
  const Json& value = body.at("input");
  if (value.is_string() || (value.is_array() && !value.empty() && value.front().is_string())) {
    auto texts = body.texts("input", kMostTexts);
    check(!texts.empty(), "input", "'input' is empty");
    return texts;
  }
  std::vector<std::string> out;
  for (const auto& ids : read_prompts(body, "input", model, false, kMostTexts))
    out.push_back(model.tokenizer().decode(ids, {.skip_special = true}));
  return out;
}

// Little-endian float32 in base64.
std::string base64_of(std::span<const float> vector) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(vector.size_bytes());
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = bytes[i] << 16;
    if (left > 1) word |= bytes[i + 1] << 8;
    if (left > 2) word |= bytes[i + 2];
    for (std::size_t k = 0; k < 4; ++k) out += k <= left ? kAlphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);  // of vectors of length 1
}

using Vectors = std::vector<std::vector<float>>;

// A request that waits for the vectors of its texts.
class EmbeddingTask : public std::enable_shared_from_this<EmbeddingTask> {
 public:
  // `body`: of the answer.
  using Body = std::function<Json(const Vectors& vectors, std::int64_t tokens)>;
  EmbeddingTask(const Call& call, Body body)
      : model_(call.model), owner_(call.owner), answer_(call.answer), body_(std::move(body)) {}

  void run(const std::vector<std::string>& texts) {
    answer_->on_gone([weak = weak_from_this()] {
      if (const auto task = weak.lock()) task->cancel();
    });
    const auto task = shared_from_this();
    const std::int64_t id = model_->encoder().submit(
        texts,
        {.elsewhere = [task](std::function<void()> work) { task->answer_->elsewhere(std::move(work)); },
         .done = [task](const Vectors& vectors, std::int64_t tokens) { task->finish(vectors, tokens); },
         .failed = [task](const ApiError& error) { task->answer_->send(error.reply()); }},
        owner_);
    const std::lock_guard lock(mutex_);
    id_ = id;
    if (cancelled_) model_->encoder().cancel(id);
  }

 private:
  void finish(const Vectors& vectors, std::int64_t tokens) {
    try {
      answer_->send({200, "application/json", json_text(body_(vectors, tokens))});
    } catch (const std::exception& error) {
      answer_->send(ApiError(500, error.what()).reply());
    }
  }
  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (id_) model_->encoder().cancel(*id_);
  }

  const ModelSet::Model model_;
  const std::string owner_;
  const std::shared_ptr<http::Answer> answer_;
  const Body body_;
  std::mutex mutex_;
  std::optional<std::int64_t> id_;
  bool cancelled_ = false;
};

void answer_with(const Call& call, const std::vector<std::string>& texts, EmbeddingTask::Body body) {
  (void)call.model->encoder();  // the request is refused before its texts are looked at
  std::make_shared<EmbeddingTask>(call, std::move(body))->run(texts);
}

Json usage_of(std::int64_t tokens) { return {{"prompt_tokens", tokens}, {"total_tokens", tokens}}; }

}  // namespace

void embed(const Call& call) {
  const auto& model = call.model;
  const std::string format = call.body.text("encoding_format").value_or("float");
  check(format == "float" || format == "base64", "encoding_format",
        "'encoding_format' must be \"float\" or \"base64\", got '{}'", format.substr(0, 60));
  answer_with(call, read_inputs(call.body, *model),
              [format, name = model->name()](const Vectors& vectors, std::int64_t tokens) {
                Json data = Json::array();
                for (std::size_t i = 0; i < vectors.size(); ++i)
                  data.push_back(
                      {{"object", "embedding"},
                       {"index", i},
                       {"embedding", format == "base64" ? Json(base64_of(vectors[i])) : Json(vectors[i])}});
                return Json{{"object", "list"}, {"data", data}, {"model", name}, {"usage", usage_of(tokens)}};
              });
}

void score_pairs(const Call& call) {
  const auto& model = call.model;
  call.body.at("text_1");
  call.body.at("text_2");
  std::vector<std::string> first = call.body.texts("text_1", kMostTexts),
                           second = call.body.texts("text_2", kMostTexts);
  check(!first.empty() && !second.empty(), "text_2", "'text_1' and 'text_2' must not be empty");
  check(first.size() == 1 || first.size() == second.size(), "text_2",
        "'text_1' has {} texts and 'text_2' {}: one, or as many", first.size(), second.size());
  std::vector<std::string> all = first;
  all.insert(all.end(), second.begin(), second.end());
  answer_with(call, all,
              [before = first.size(), id = call.id, name = model->name()](const Vectors& vectors,
                                                                          std::int64_t tokens) {
                Json data = Json::array();
                for (std::size_t i = 0; before + i < vectors.size(); ++i)
                  data.push_back({{"index", i},
                                  {"object", "score"},
                                  {"score", cosine(vectors[before == 1 ? 0 : i], vectors[before + i])}});
                return Json{{"id", "score-" + id},
                            {"object", "list"},
                            {"model", name},
                            {"data", data},
                            {"usage", usage_of(tokens)}};
              });
}

void rerank(const Call& call) {
  const auto& model = call.model;
  const auto query = call.body.text("query");
  check(query.has_value(), "query", "'query' is missing");
  const Json& documents = call.body.at("documents");
  check(documents.is_array() && !documents.empty() && documents.size() <= kMostTexts, "documents",
        "'documents' must be a list of 1 to {} texts", kMostTexts);
  std::vector<std::string> texts{*query};
  for (const Json& document : documents) {
    const bool object = document.is_object() && document.contains("text") && document["text"].is_string();
    check(object || document.is_string(), "documents",
          "'documents': each must be a text, or an object with a text");
    texts.push_back(object ? document["text"].get<std::string>() : document.get<std::string>());
  }
  const auto top =
      call.body.integer("top_n", 1, static_cast<std::int64_t>(kMostTexts)).value_or(std::ssize(documents));
  const bool return_documents = call.body.boolean("return_documents", true);
  answer_with(
      call, texts,
      [texts, top, return_documents, id = call.id, name = model->name()](const Vectors& vectors,
                                                                         std::int64_t tokens) {
        std::vector<double> scores;
        for (std::size_t i = 1; i < vectors.size(); ++i) scores.push_back(cosine(vectors[0], vectors[i]));
        std::vector<std::size_t> order(scores.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
        if (top < std::ssize(order)) order.resize(static_cast<std::size_t>(top));
        Json results = Json::array();
        for (const std::size_t i : order) {
          Json result{{"index", i}, {"relevance_score", scores[i]}};
          if (return_documents) result["document"] = {{"text", texts[i + 1]}};
          results.push_back(std::move(result));
        }
        return Json{
            {"id", "rerank-" + id}, {"model", name}, {"usage", usage_of(tokens)}, {"results", results}};
      });
}

}  // namespace stoa::serve
