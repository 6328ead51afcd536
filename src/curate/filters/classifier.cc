#include "curate/filters/classifier.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/nearest.h"
#include "base/philox.h"
#include "curate/io/json_document.h"
#include "curate/language/fasttext_model.h"

namespace stoa::curate {
namespace {

// A draw that depends on the document alone, from NumPy's pareto(): 1 / (1 - u)^(1 / alpha) - 1.
double pareto_draw(const Document& document, std::uint64_t seed, double alpha) {
  const PhiloxKey key = philox_key(seed, RandomPurpose::kSampling, document.id + '\n' + document.text);
  const double u = (philox_word(key, 0) + 0.5) / 4294967296.0;
  return std::pow(1 - u, -1 / alpha) - 1;
}

class ClassifierStage final : public Stage {
 public:
  explicit ClassifierStage(const ClassifierFilter& options) : options_(options), model_(file_of(options)) {
    const auto& labels = model_.labels();
    const auto found = std::find(labels.begin(), labels.end(), options.label);
    require<ConfigError>(found != labels.end(), "'{}' has no label '{}'{}", options.model, options.label,
                         did_you_mean(options.label, labels));
    label_ = static_cast<std::size_t>(found - labels.begin());
  }

  void apply(Document& document, Features& features, Verdict& verdict) const override {
    std::vector<float> probabilities;
    model_.predict(features.text(), probabilities);  // line ends are blanks, as DCLM and NeMo make them
    const double score = static_cast<double>(probabilities[label_]);
    set_member(options_.member, fmt::format("{:.6f}", score), document.metadata);
    if (verdict.below("score", score, options_.threshold)) return;
    if (options_.pareto_alpha > 0)
      verdict.fails("pareto", pareto_draw(document, static_cast<std::uint64_t>(options_.seed),
                                          options_.pareto_alpha) <= 1 - score);
  }

 private:
  static fs::path file_of(const ClassifierFilter& options) {
    require<ConfigError>(
        !options.model.empty(),
        "the stage classifier needs a `model`: a file of `stoa data train-classifier` or fastText");
    return options.model;
  }

  const ClassifierFilter options_;
  const FastTextModel model_;
  std::size_t label_ = 0;
};

}  // namespace

void declare(config::Section<ClassifierFilter>& s) {
  s.field("model", &ClassifierFilter::model)
      .help("File of `stoa data train-classifier` or of fastText (.bin, .ftz).");
  s.field("label", &ClassifierFilter::label).not_empty().help("The label whose probability is the score.");
  s.field("member", &ClassifierFilter::member)
      .not_empty()
      .help("Key under which the score is written into documents.");
  s.field("threshold", &ClassifierFilter::threshold)
      .range(0, 1)
      .help("Smallest score; 0 drops nothing. DCLM's own model: 0.018112, the best tenth.");
  s.field("pareto_alpha", &ClassifierFilter::pareto_alpha)
      .range(0, 1000)
      .help("GPT-3's rule: kept where a Pareto draw exceeds 1 - score (GPT-3: 9, NeMo Curator: 3); 0: off.");
  s.field("seed", &ClassifierFilter::seed)
      .range(0, 1e15)
      .help("Seed of these draws, which depend on the document alone.");
}

std::unique_ptr<Stage> make_stage(const ClassifierFilter& options) {
  return std::make_unique<ClassifierStage>(options);
}

}  // namespace stoa::curate
