#include "cli/score_rewards.h"

#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <variant>
#include <vector>

#include "base/error.h"
#include "cli/print.h"
#include "infer/probabilities.h"
#include "infer/task_reader.h"
#include "tune/chat_dataset.h"
#include "tune/record_file.h"
#include "tune/sample_encoder.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

// Scores of texts come in their order; a pair waits for its second one.
class RewardPrinter {
 public:
  void expect(bool pair, const tune::Place& place) { pending_.push_back({pair, place, {}}); }

  void take(double score) {
    Pending& first = pending_.front();
    require<NumericsError>(std::isfinite(score), "{}: the score is {}: {}", first.place.text(), score,
                           infer::kBeyondRange);
    if (first.pair && !first.chosen) {
      first.chosen = score;
      return;
    }
    if (first.pair) {
      ++pairs_;
      right_ += *first.chosen > score ? 1 : 0;
      print_json_line(
          Json{{"chosen", *first.chosen}, {"rejected", score}, {"margin", *first.chosen - score}});
    } else {
      print_json_line(Json{{"score", score}});
    }
    pending_.pop_front();
  }

  void summarise(Console& console) const {
    if (pairs_ > 0)
      console.line(fmt::format("accuracy {:.4f}: the chosen answer has the higher score in {} of {} pairs",
                               static_cast<double>(right_) / static_cast<double>(pairs_), right_, pairs_));
  }

 private:
  struct Pending {
    bool pair;
    tune::Place place;
    std::optional<double> chosen;
  };
  std::deque<Pending> pending_;
  std::int64_t pairs_ = 0, right_ = 0;
};

}  // namespace

void score_rewards(infer::OpenModel& model, InputLines& in, const std::string& name, Console& console) {
  require<ConfigError>(
      model.model().config.task.regression(),
      "{}: the model gives texts no score: it has {} instead of one label; train one with 'stoa finetune "
      "--objective reward'",
      model.directory().string(),
      model.model().config.task.labelled() ? "classes" : "the head of a language model");
  const std::int64_t longest = model.model().config.max_positions();
  RewardPrinter printer;
  infer::TaskReader reader(model, {}, [&](const infer::TaskAnswer& answer) {
    printer.take(std::get<infer::TextClass>(answer).scores.front());
  });
  const token::Tokenizer& tokenizer = model.tokenizer();
  const tune::ChatText text = tune::chat_text(tokenizer);
  tune::SampleEncoder encoder(tokenizer, text, longest);
  const std::optional<std::int32_t> padding = model.special().pad;
  const auto add = [&](tune::Record record) {
    std::vector<tune::EncodedSample> samples;
    record.rejected.reset();
    record.score = 0;  // of the whole text, which is not cut
    encoder.encode(record, 0, samples);
    require<DataError>(samples.size() == 1, "{}: {}", record.place.text(),
                       encoder.counts().too_long > 0
                           ? fmt::format("more tokens than the {} that the model reads", longest)
                           : "the chat has no answer");
    const auto& tokens = samples.front().text.tokens;
    reader.add({tokens.begin(), tokens.end()},
               static_cast<std::int32_t>(tune::scored_token(tokens, padding)));
  };
  tune::Place place{name, 0};
  for (std::string line; in.next(line);) {
    ++place.number;
    const tune::Json json = tune::parse_json(line, place);
    tune::Record record =
        tune::read_record(json, tune::form_of(json, place), place, {.roles = text.chat_template.has_value()});
    const bool pair = record.rejected.has_value();
    printer.expect(pair, place);
    add(record);
    if (!pair) continue;
    record.text = std::move(*record.rejected);
    add(std::move(record));
  }
  reader.flush();
  printer.summarise(console);
}

}  // namespace stoa::cli
