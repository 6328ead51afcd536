#include "curate/filters/perplexity.h"

#include <cmath>

#include "base/error.h"
#include "curate/io/json_document.h"
#include "curate/language_model/model_words.h"
#include "curate/language_model/ngram_model.h"
#include "curate/language_model/ngram_scorer.h"

namespace stoa::curate {
namespace {

class PerplexityStage final : public Stage {
 public:
  explicit PerplexityStage(const PerplexityFilter& options)
      : options_(options), words_({options.tokenizer, options.normalize}), model_(model_of(options)) {}

  // Every line is a sentence; ten to the power of the mean of the negative logarithms, ends of lines
  // included.
  void apply(Document& document, Features& features, Verdict& verdict) const override {
    SentenceScores scores(model_);
    ModelWords::Line line;
    for (const Line& piece : features.lines()) {
      words_.split(piece.text, line);
      if (!line.words.empty()) scores.add(line.words);
    }
    const NgramModel::Score all = scores.sum();
    // Beyond any limit where there is no word: nothing is known of such a text.
    const double perplexity =
        all.words == 0 ? 1e100 : std::pow(10, -all.log10 / static_cast<double>(all.words));
    set_member("perplexity", fmt::format("{:.9g}", perplexity), document.metadata);
    if (verdict.above("perplexity", perplexity, options_.max_perplexity)) return;
    verdict.below("low_perplexity", perplexity, options_.min_perplexity);
  }

 private:
  static fs::path model_of(const PerplexityFilter& options) {
    require<ConfigError>(!options.model.empty(),
                         "the stage perplexity needs a `model`: an ARPA file of KenLM, SRILM or `stoa data "
                         "train-lm`");
    return options.model;
  }

  const PerplexityFilter options_;
  const ModelWords words_;
  const NgramModel model_;
};

}  // namespace

void declare(config::Section<PerplexityFilter>& s) {
  s.field("model", &PerplexityFilter::model)
      .help("ARPA file of an n-gram model, also .gz or .zst: of `stoa data train-lm`, KenLM or SRILM.");
  s.field("tokenizer", &PerplexityFilter::tokenizer)
      .help(
          "Tokenizer whose tokens are the model's words (CCNet: a SentencePiece model); empty: pieces "
          "between "
          "white space.");
  s.field("normalize", &PerplexityFilter::normalize)
      .help("As CCNet before its models: lower case, digits as 0, no accents, punctuation of ASCII.");
  s.field("max_perplexity", &PerplexityFilter::max_perplexity)
      .range(0, 1e100)
      .help("Largest perplexity; 0: any.");
  s.field("min_perplexity", &PerplexityFilter::min_perplexity)
      .range(0, 1e100)
      .help("Smallest perplexity (what is lower is often a list or repeats itself); 0: any.");
}

std::unique_ptr<Stage> make_stage(const PerplexityFilter& options) {
  return std::make_unique<PerplexityStage>(options);
}

}  // namespace stoa::curate
