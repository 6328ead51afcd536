// `stoa data train-classifier`: tells kinds of texts apart, as the stages `classifier` and `language` use it.
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/data_commands.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "curate/language/fasttext_trainer.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TrainClassifierArguments {
  std::vector<std::string> labels;
  std::string output;
  TextArguments text;
  curate::ClassifierOptions options;
  double held_out = 0.1;
  bool json = false;
};

struct LabelResult {
  std::int64_t examples = 0, said = 0, right = 0;  // held out: of the label, called so, both
  double f1() const {
    const auto sum = static_cast<double>(examples + said);
    return sum > 0 ? 2 * static_cast<double>(right) / sum : 0;
  }
};

// A share of examples that depends on their texts alone, so that copies are on one side.
bool is_held_out(std::string_view text, double share) {
  const std::uint64_t hash = ::XXH3_64bits(text.data(), text.size());
  return static_cast<double>(hash >> 11) / 9007199254740992.0 < share;
}

using Tests = std::vector<std::pair<std::string, std::string>>;  // label, text

// For a label of few examples, all of which were drawn to be held out: a model without it would be none of
// it.
void train_first_held_out(const std::string& label, Tests& tests, curate::FastTextTrainer& trainer) {
  const auto first =
      std::find_if(tests.begin(), tests.end(), [&](const auto& test) { return test.first == label; });
  if (first == tests.end()) return;  // a label without examples
  const auto example = *first;
  for (const auto& test : tests)
    if (test == example) trainer.add(test.first, test.second);
  std::erase(tests, example);  // copies are on one side
}

void run_train_classifier(const TrainClassifierArguments& a, Context& context) {
  require<ConfigError>(!fs::exists(a.output), "'{}' exists already; give another --output", a.output);
  require<ConfigError>(a.options.minn <= a.options.maxn || a.options.maxn == 0,
                       "--minn {} is above --maxn {}", a.options.minn, a.options.maxn);
  curate::FastTextTrainer trainer(a.options);
  Tests tests;
  std::map<std::string, std::int64_t> trained;  // examples by label
  for (const std::string& given : a.labels) {
    const std::size_t equals = given.find('=');
    require<ConfigError>(equals != given.npos && equals > 0, "--label {}: expected NAME=FILE", given);
    const std::string label = given.substr(0, equals);
    require<ConfigError>(label.find_first_of(" \t\n") == label.npos, "--label {}: a name with blanks", given);
    data::each_document(a.text.file(given.substr(equals + 1)), [&](std::string_view document, std::uint64_t) {
      require<Interrupted>(!context.interrupt.token().stop_requested(), "interrupted; nothing was written");
      std::int64_t& count = trained[label];
      if (is_held_out(document, a.held_out)) {
        tests.emplace_back(label, document);
        return;
      }
      trainer.add(label, document);
      ++count;
    });
  }
  for (const auto& [label, count] : trained)
    if (count == 0) train_first_held_out(label, tests, trainer);
  const curate::FastTextModel model = trainer.train();
  std::vector<LabelResult> results(model.labels().size());
  std::vector<float> probabilities;
  const auto index_of = [&](const std::string& label) {
    return static_cast<std::size_t>(std::find(model.labels().begin(), model.labels().end(), label) -
                                    model.labels().begin());
  };
  for (const auto& [label, text] : tests) {
    model.predict(text, probabilities);
    const auto said = static_cast<std::size_t>(std::max_element(probabilities.begin(), probabilities.end()) -
                                               probabilities.begin());
    const std::size_t is = index_of(label);
    ++results[is].examples;
    ++results[said].said;
    results[is].right += said == is;
  }
  curate::FastTextTrainer::write(model, a.output);
  double mean = 0;
  Json labels = Json::object();
  std::string table =
      fmt::format("{} examples, {} held out, written to {}\n", trainer.examples(), tests.size(), a.output);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const LabelResult& r = results[i];
    mean += r.f1() / static_cast<double>(results.size());
    labels[model.labels()[i]] = {
        {"held_out", r.examples}, {"said", r.said}, {"right", r.right}, {"f1", r.f1()}};
    table += fmt::format("{:<20} {:>8} held out   F1 {:.4f}\n", model.labels()[i], r.examples, r.f1());
  }
  if (a.json)
    print_json_line(Json{{"examples", trainer.examples()},
                         {"held_out", tests.size()},
                         {"labels", labels},
                         {"macro_f1", mean}});
  else
    print(table + fmt::format("macro F1 {:.4f}\n", mean));
}

}  // namespace

void add_data_train_classifier(CLI::App& data, Context& context) {
  auto a = std::make_shared<TrainClassifierArguments>();
  CLI::App* c = data.add_subcommand(
      "train-classifier",
      "A classifier of texts (fastText's, and its file) for the stages `classifier` and `language`");
  c->footer(
      "Example: stoa data train-classifier --label hq=good.jsonl --label lq=web.jsonl --output quality.bin");
  c->add_option("--label", a->labels,
                "NAME=FILE: examples of a label, one a document; again for more files and labels")
      ->required()
      ->take_all();
  c->add_option("--output,-o", a->output, "the model")->required();
  curate::ClassifierOptions& o = a->options;
  c->add_option("--dim", o.dim, "length of the vectors")->check(between(1, 4096))->capture_default_str();
  c->add_option("--epochs", o.epochs, "passes over the examples")
      ->check(between(1, 1000))
      ->capture_default_str();
  c->add_option("--rate", o.rate, "of learning; falls to 0")->check(between(1e-6, 10))->capture_default_str();
  c->add_option("--word-ngrams", o.word_ngrams, "words of the longest sequence")
      ->check(between(1, 10))
      ->capture_default_str();
  c->add_option("--min-count", o.min_count, "rarer words count by their parts and sequences only")
      ->check(between(1, 1e9))
      ->capture_default_str();
  c->add_option("--buckets", o.buckets, "rows for sequences and parts of words")
      ->check(between(1, 1e8))
      ->capture_default_str();
  c->add_option("--minn", o.minn, "characters of the shortest parts of words")
      ->check(between(0, 20))
      ->capture_default_str();
  c->add_option("--maxn", o.maxn, "of the longest; 0: words are not taken apart (languages: 2 to 4)")
      ->check(between(0, 20))
      ->capture_default_str();
  c->add_flag("--quantize", o.quantize,
              "write the rows as codes (fastText's .ftz): an eighth of the size, hardly less accurate");
  c->add_option("--seed", o.seed, "of the first values and the order of examples")->capture_default_str();
  c->add_option("--held-out", a->held_out, "share of examples to test with")
      ->check(between(0, 0.9))
      ->capture_default_str();
  a->text.add_to(*c);
  c->add_flag("--json", a->json, "print the result as JSON");
  c->callback([a, &context] { run_train_classifier(*a, context); });
}

}  // namespace stoa::cli
