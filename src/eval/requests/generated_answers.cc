#include "eval/requests/generated_answers.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "infer/engine/engine.h"

namespace stoa::eval {
namespace {

// A beginning of this many tokens that a prompt shares with one before it is worth waiting for.
constexpr std::int64_t kWorthWaiting = 64;

// An answer that is being written.
struct Writing {
  Writing(const token::Tokenizer& tokenizer, const infer::GenerateOptions& options)
      : writer(tokenizer, options, take) {}
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

  const infer::TakeText take = [](std::string_view) { return true; };  // the whole is decoded at the end
  infer::AnswerWriter writer;
  std::vector<std::int32_t> ids;
  bool open = true;
};

}  // namespace

std::string cut_at_stops(std::string text, const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) text = text.substr(0, text.find(stop));
  return text;
}

std::string answer_text(const token::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                        const std::vector<std::string>& stops) {
  return cut_at_stops(token::replace_invalid_utf8(tokenizer.decode(ids, {.skip_special = true})), stops);
}

void generate_answers(infer::PassModel& model, const token::Tokenizer& tokenizer,
                      const std::vector<std::int32_t>& end_ids, const std::vector<PromptToAnswer>& prompts,
                      const std::function<void(std::size_t, const std::string&)>& told) {
  // What begins alike follows one another: the later finds the earlier one's keys and values.
  std::vector<std::size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return prompts[a].tokens < prompts[b].tokens; });
  infer::Engine engine(model);
  std::vector<std::unique_ptr<Writing>> writing(prompts.size());
  std::vector<bool> read(prompts.size(), false);
  std::size_t next = 0, failed = prompts.size();
  std::int64_t open = 0;
  const auto submit = [&](std::size_t i) {
    const PromptToAnswer& prompt = prompts[i];
    infer::Request request;
    request.prompt = prompt.tokens;
    request.sampling = prompt.options->sampling;
    request.sampling.seed = prompt.seed;
    request.max_tokens = prompt.options->max_tokens;
    request.end_ids = end_ids;
    writing[i] = std::make_unique<Writing>(tokenizer, *prompt.options);
    ++open;
    engine.submit(std::move(request), [&, i](const infer::Event& event) {
      Writing& w = *writing[i];
      read[i] = true;
      if (event.kind == infer::Event::Kind::kToken) {
        w.ids.push_back(event.token.token.id);
        return w.writer.push(w.ids.back());
      }
      if (event.kind != infer::Event::Kind::kEnd) return true;
      if (event.reason == infer::EndReason::kNotANumber) failed = i;
      w.open = false;
      --open;
      return false;
    });
  };
  std::vector<std::size_t> running;
  while (next < order.size() || open > 0) {
    while (next < order.size() && open < model.limits().sequences) {
      const std::size_t i = order[next];
      if (next > 0 && model.limits().shares) {
        const auto& mine = prompts[i].tokens;
        const auto& before = prompts[order[next - 1]].tokens;
        const auto same = std::mismatch(mine.begin(), mine.end(), before.begin(), before.end()).first;
        if (same - mine.begin() >= kWorthWaiting && !read[order[next - 1]]) break;
      }
      submit(i);
      running.push_back(i);
      ++next;
    }
    engine.step();
    require<NumericsError>(failed == prompts.size(), "the model's logits are not numbers");
    if (static_cast<std::int64_t>(running.size()) == open) continue;
    std::erase_if(running, [&](std::size_t i) {
      if (writing[i]->open) return false;
      told(i, answer_text(tokenizer, writing[i]->ids, prompts[i].options->stop));
      writing[i].reset();
      return true;
    });
  }
}

}  // namespace stoa::eval
