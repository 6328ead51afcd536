#include "eval/requests/scorer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"
#include "eval/requests/shared_reading.h"
#include "infer/engine/write_text.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kPassTokens = 2048;  // of texts that are packed
constexpr std::int64_t kSequences = 128;    // that are read at once

}  // namespace

GenerationOptions generation_options(const Json& kwargs, const std::string& source, std::uint64_t seed) {
  static const std::vector<std::string> kKnown{
      "until",       "max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens", "do_sample",
      "temperature", "top_k",        "top_p",          "min_p",      "repetition_penalty"};
  for (const auto& [key, value] : kwargs.items())
    require<ConfigError>(std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end(),
                         "{}: generation_kwargs: '{}' is not supported{}", source, key,
                         did_you_mean(key, kKnown));
  GenerationOptions out;
  try {
    Json until = kwargs.value("until", Json::array());
    if (until.is_string()) until = Json::array({until});
    for (const Json& stop : until)
      if (stop != "") out.until.push_back(stop);
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

Scorer::Scorer(infer::OpenModel& model, std::vector<Request> requests,
               std::vector<const GenerationOptions*> generation, const ScoringOptions& options)
    : model_(model),
      requests_(std::move(requests)),
      generation_(std::move(generation)),
      answers_(requests_.size()) {
  model.require_kind(model::ModelKind::kGpt);
  const std::int64_t positions = model.model().config.max_positions();
  window_ = options.max_length.value_or(positions);
  require<ConfigError>(window_ >= 2 && window_ <= positions, "--max_length {}: the model has {} positions",
                       window_, positions);
  RequestEncoder encoder(model.tokenizer(), options.add_bos);
  for (std::size_t i = 0; i < requests_.size(); ++i) add(requests_[i], generation_[i], i, encoder);
  load();
}

void Scorer::load() {
  std::int64_t context = 1, text = 1;
  for (const Item& item : items_) {
    const auto n = static_cast<std::int64_t>(item.tokens.size());
    if (!item.rolling || infer::can_share_keys(model_))
      context = std::max(context, n + (item.generate ? generation_[item.request]->max_tokens : 0));
    if (!item.generate) text = std::max(text, n);
  }
  if (infer::can_share_keys(model_)) {
    infer::EngineUse use;
    use.context = context;
    use.sequences = kSequences;
    paged_ = infer::load_paged_decoder(model_, use);
    return;
  }
  // What begins alike is read one after the other; windows of texts, which share nothing, come last.
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return a.rolling != b.rolling ? b.rolling : !a.rolling && a.tokens < b.tokens;
  });
  infer::DecoderUse use;
  use.context = context;
  use.pass_tokens = kPassTokens;
  use.text_tokens = text;
  rank_ = infer::load_decoder(model_, use);
  engine_ = std::make_unique<infer::Engine>(rank_->passes());
}

void Scorer::add(const Request& request, const GenerationOptions* generation, std::size_t number,
                 RequestEncoder& encoder) {
  switch (request.kind) {
    case Request::Kind::kLoglikelihood:
      return add_pair(number, encoder.pair(request.context, request.continuation), false);
    case Request::Kind::kRolling:
      for (EncodedPair& pair : rolling_windows(encoder.text(request.continuation), encoder.prefix(), window_))
        add_pair(number, std::move(pair), true);
      return;
    case Request::Kind::kGenerate:
      break;
  }
  Item item;
  item.request = number;
  item.generate = true;
  item.tokens = encoder.text(request.context);
  if (item.tokens.empty()) item.tokens.push_back(encoder.prefix());
  const std::int64_t room = window_ - generation->max_tokens;
  require<DataError>(room >= 1, "answers of {} tokens (max_gen_toks) do not fit the window of {}",
                     generation->max_tokens, window_);
  if (static_cast<std::int64_t>(item.tokens.size()) > room) {
    ++truncated_;
    item.tokens.erase(item.tokens.begin(), item.tokens.end() - static_cast<std::ptrdiff_t>(room));
  }
  items_.push_back(std::move(item));
}

void Scorer::add_pair(std::size_t number, EncodedPair pair, bool rolling) {
  const auto scored = pair.continuation.size(), most = static_cast<std::size_t>(window_) + 1;
  require<DataError>(scored < most, "a continuation of {} tokens is longer than the window of {}", scored,
                     window_);
  std::vector<std::int32_t> all = std::move(pair.context);
  all.insert(all.end(), pair.continuation.begin(), pair.continuation.end());
  if (all.size() > most) {
    if (!rolling) ++truncated_;
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
  }
  Item item;
  item.request = number;
  item.rolling = rolling;
  item.scored = scored;
  item.labels.assign(all.begin() + 1, all.end());
  all.pop_back();
  item.tokens = std::move(all);
  items_.push_back(std::move(item));
}

bool Scorer::is_greedy(const Item& item, std::span<const float> losses) {
  constexpr float kHalf = 0.69F;  // a loss below ln 2: no other token is as likely
  for (std::size_t i = item.tokens.size() - item.scored; i < item.tokens.size(); ++i) {
    if (losses[i] < kHalf) continue;
    infer::Request request;
    request.prompt.assign(item.tokens.begin(), item.tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    request.sampling.greedy = true;
    request.max_tokens = 1;
    bool same = false;
    engine_->submit(std::move(request), [&](const infer::Event& event) {
      if (event.kind == infer::Event::Kind::kToken) same = event.token.token.id == item.labels[i];
      return true;
    });
    while (engine_->step()) {
    }
    if (!same) return false;
  }
  return true;
}

void Scorer::score(std::span<Item> items) {
  std::vector<std::int32_t> tokens, labels;
  std::vector<std::int64_t> lengths;
  for (const Item& item : items) {
    tokens.insert(tokens.end(), item.tokens.begin(), item.tokens.end());
    labels.insert(labels.end(), item.labels.begin(), item.labels.end());
    lengths.push_back(static_cast<std::int64_t>(item.tokens.size()));
  }
  std::vector<float> losses(tokens.size());
  rank_->losses(tokens, labels, lengths, losses);
  std::size_t end = 0;
  for (Item& item : items) {
    const auto own = std::span(losses).subspan(end, item.tokens.size());
    end += item.tokens.size();
    for (const float loss : own.last(item.scored)) item.log_likelihood -= loss;
    answers_[item.request].greedy =
        !item.rolling && std::isfinite(item.log_likelihood) && is_greedy(item, own);
  }
}

void Scorer::generate(const Item& item) {
  const GenerationOptions& options = *generation_[item.request];
  infer::GenerateOptions how;
  how.max_tokens = options.max_tokens;
  how.sampling = options.sampling;
  how.sampling.seed = seed_of(item);
  how.stop = options.until;
  how.end_tokens = end_ids();
  const auto result = infer::write_text(*engine_, model_.tokenizer(), item.tokens, how,
                                        [](std::string_view) { return true; });
  require<NumericsError>(result.reason != infer::EndReason::kNotANumber,
                         "the model's logits are not numbers");
  answers_[item.request].text = answer_text(model_.tokenizer(), result.answer, options.until);
}

// Each request draws for itself, in whatever order they are answered.
std::uint64_t Scorer::seed_of(const Item& item) const {
  return generation_[item.request]->sampling.seed + requests_[item.request].number;
}

std::vector<std::int32_t> Scorer::end_ids() {
  std::vector<std::int32_t> out;
  for (const std::int64_t id : model_.special().eos) out.push_back(static_cast<std::int32_t>(id));
  for (const auto& id : {model_.tokenizer().eod_id(), model_.tokenizer().eos_id()})
    if (id) out.push_back(*id);
  return out;
}

void Scorer::run_shared(const Done& done) {
  std::vector<LabelledText> texts;
  std::vector<std::size_t> items;
  std::vector<PromptToAnswer> prompts;
  std::vector<std::size_t> answered;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.generate) {
      prompts.push_back({item.tokens, generation_[item.request], seed_of(item)});
      answered.push_back(i);
    } else {
      texts.push_back({item.tokens, std::span(item.labels).last(item.scored)});
      items.push_back(i);
    }
  }
  score_texts(*paged_, texts, [&](std::size_t text, const TextScore& score) {
    Item& item = items_[items[text]];
    item.log_likelihood = score.log_likelihood;
    answers_[item.request].greedy = !item.rolling && score.greedy;
    done(item);
  });
  generate_answers(*paged_, model_.tokenizer(), end_ids(), prompts,
                   [&](std::size_t prompt, const std::string& text) {
                     const Item& item = items_[answered[prompt]];
                     answers_[item.request].text = text;
                     done(item);
                   });
}

void Scorer::run_packed(const Done& done) {
  const auto pass = static_cast<std::size_t>(rank_->pass_tokens());
  for (std::size_t i = 0; i < items_.size();) {
    std::size_t end = i + 1;
    if (items_[i].generate) {
      generate(items_[i]);
    } else {
      std::size_t tokens = items_[i].tokens.size();
      while (end < items_.size() && !items_[end].generate && tokens + items_[end].tokens.size() <= pass)
        tokens += items_[end++].tokens.size();
      score(std::span(items_).subspan(i, end - i));
    }
    for (; i < end; ++i) done(items_[i]);
  }
}

void Scorer::run(const Told& told) {
  const auto cost = [&](const Item& item) {  // tokens that are read, and those of an answer
    return static_cast<double>(item.tokens.size()) +
           (item.generate ? 4.0 * static_cast<double>(generation_[item.request]->max_tokens) : 0.0);
  };
  double total = 0, spent = 0;
  std::vector<std::vector<const Item*>> of_request(requests_.size());  // its windows, in order
  for (const Item& item : items_) {
    total += cost(item);
    of_request[item.request].push_back(&item);
  }
  std::vector<std::size_t> left;
  for (const auto& items : of_request) left.push_back(items.size());
  const Done done = [&](const Item& item) {
    spent += cost(item);
    if (--left[item.request] > 0) return;
    Answer& answer = answers_[item.request];
    for (const Item* window : of_request[item.request]) answer.log_likelihood += window->log_likelihood;
    told(item.request, answer, spent / total);
  };
  paged_ ? run_shared(done) : run_packed(done);
}

}  // namespace stoa::eval
