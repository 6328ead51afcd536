// `stoa data mix`: weights of sources by many small trainings (RegMix, 2407.01492).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/cores.h"
#include "base/error.h"
#include "cli/data_commands.h"
#include "cli/document_encoder.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/run_self.h"
#include "curate/blend/blend.h"
#include "curate/blend/mixture_fit.h"
#include "token/tokenizer.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kLeastTokens = 50'000;  // of a mixture: documents are taken whole
constexpr double kMostSeconds = 86400;         // of one trial
constexpr double kMostEpochs = 1000;           // trials are small: what is taken often is still learnt

struct MixArguments {
  std::string recipe, tokenizer, output;
  std::vector<std::string> targets;
  std::int64_t trials = 24, steps = 200, layers = 2, hidden = 64, sequence = 128, seed = 1234;
  bool json = false;
};

// The trials of one output directory.
class MixTrials {
 public:
  MixTrials(const MixArguments& a, Context& context)
      : a_(a),
        context_(context),
        recipe_(curate::read_recipe(a.recipe)),
        encoder_(token::Tokenizer::load(a.tokenizer), token::EncodeOptions()) {
    const std::size_t least = curate::MixtureFit::least_trials(recipe_.sources.size());
    require<UsageError>(recipe_.sources.size() > 1, "'{}' has one source; there is nothing to mix", a.recipe);
    require<UsageError>(static_cast<std::size_t>(a.trials) >= least,
                        "--trials {}: a fit of {} sources needs at least {}", a.trials,
                        recipe_.sources.size(), least);
    fs::create_directories(a.output);
    const Json subject{{"recipe", recipe_.resolved},
                       {"targets", a.targets},
                       {"model", {a.steps, a.layers, a.hidden, a.sequence, a.seed}}};
    const fs::path own = fs::path(a.output) / "mix.json";
    if (fs::exists(own))
      require<ConfigError>(Json::parse(read_text(own), nullptr, false) == subject,
                           "'{}' holds trials of another recipe, target or model; choose another --output",
                           a.output);
    else
      write_text(own, subject.dump(1) + "\n");
    std::ifstream done(log());
    for (std::string line; std::getline(done, line);) {
      const Json trial = Json::parse(line, nullptr, false);
      if (!trial.is_object()) break;  // half a line, of a process that was killed
      trials_.push_back({trial.at("weights").get<curate::Mixture>(), trial.at("loss").get<double>()});
    }
  }

  const curate::BlendRecipe& recipe() const { return recipe_; }
  std::size_t earlier() const { return trials_.size(); }

  const std::vector<curate::MixtureTrial>& run() {
    Progress progress(context_.console, "trials", static_cast<double>(a_.trials), " trials");
    std::string lines;
    for (const auto& trial : trials_) lines += line_of(trial);
    write_text(log(), lines);
    for (auto i = std::ssize(trials_); i < a_.trials; ++i) {
      const curate::Mixture weights = curate::random_mixture(
          recipe_.sources.size(), static_cast<std::uint64_t>(a_.seed), static_cast<std::uint64_t>(i));
      trials_.push_back({weights, loss_of(weights)});
      std::ofstream(log(), std::ios::app) << line_of(trials_.back());
      progress.update(static_cast<double>(i + 1));
    }
    progress.finish();
    return trials_;
  }

  // The loss on the targets of a model that was trained on such a mixture.
  double loss_of(const curate::Mixture& weights) const {
    const fs::path folder = fs::path(a_.output) / "trial";
    fs::remove_all(folder);  // of a process that was killed
    fs::create_directories(folder);
    write_text(folder / "recipe.yaml",
               recipe_text(weights, std::max(kLeastTokens, a_.steps * kBatch * a_.sequence)));
    Console quiet(Console::Level::kQuiet);
    curate::BlendOptions options;
    options.recipe = folder / "recipe.yaml";
    options.output = folder / "mix";
    options.workers = available_cores();
    curate::blend(options, &encoder_, quiet, context_.interrupt.token());
    const std::string model = (folder / "model").string();
    stoa({"train", "tiny", fmt::format("model.num_layers={}", a_.layers),
          fmt::format("model.hidden_size={}", a_.hidden), "model.num_attention_heads=4",
          fmt::format("model.encoder_seq_length={}", a_.sequence),
          fmt::format("model.micro_batch_size={}", kBatch), fmt::format("model.global_batch_size={}", kBatch),
          fmt::format("model.seed={}", a_.seed),
          fmt::format("model.optim.sched.warmup_steps={}", std::max<std::int64_t>(1, a_.steps / 10)),
          fmt::format("trainer.max_steps={}", a_.steps), "trainer.val_check_interval=0",
          "model.data.splits_string='100,0,0'", "model.data=" + (folder / "mix-train").string(),
          "model.tokenizer=" + a_.tokenizer, "--output", model},
         folder);
    double loss = 0, tokens = 0;
    for (const std::string& target : a_.targets) {
      const Json measured =
          Json::parse(stoa({"eval", "perplexity", model, "--text", target, "--json"}, folder));
      const double own = measured.at("tokens").get<double>();
      loss += own * measured.at("loss").get<double>();
      tokens += own;
    }
    fs::remove_all(folder);
    require<DataError>(tokens > 0, "the targets have no tokens");
    return loss / tokens;
  }

  // A recipe of `stoa data blend`; `tokens`: 0 as many as there are.
  std::string recipe_text(const curate::Mixture& weights, std::int64_t tokens) const {
    std::string text = fmt::format("seed: {}\ntokens: {}\nmax_epochs: {}\nsources:\n", recipe_.seed, tokens,
                                   tokens > 0 ? kMostEpochs : recipe_.max_epochs);
    for (std::size_t i = 0; i < weights.size(); ++i)
      text +=
          fmt::format("  - {{name: {}, path: {}, weight: {:.6f}}}\n", Json(recipe_.sources[i].name).dump(),
                      Json(recipe_.sources[i].path).dump(), weights[i]);
    return text;
  }

 private:
  fs::path log() const { return fs::path(a_.output) / "trials.jsonl"; }
  static std::string line_of(const curate::MixtureTrial& trial) {
    return Json{{"weights", trial.weights}, {"loss", trial.loss}}.dump() + "\n";
  }
  std::string stoa(const std::vector<std::string>& arguments, const fs::path& folder) const {
    const std::stop_token stop = context_.interrupt.token();
    const SelfRun ended = run_self(arguments, folder, kMostSeconds, stop);
    require<Interrupted>(!stop.stop_requested(), "interrupted; finished trials are kept in '{}'", a_.output);
    require<ConfigError>(ended.succeeded(), "a trial failed: {}", last_line(ended.errors));
    return ended.output;
  }

  const MixArguments& a_;
  Context& context_;
  const curate::BlendRecipe recipe_;
  const TokenizerEncoder encoder_;
  std::vector<curate::MixtureTrial> trials_;
};

void run_mix(const MixArguments& a, Context& context) {
  context.interrupt.set({.grace = std::chrono::seconds(30),
                         .words = "stopping; the same command continues later",
                         .last_words = [] { return std::string("finished trials are kept"); }});
  MixTrials work(a, context);
  const std::vector<curate::MixtureTrial> trials = work.run();
  const auto seed = static_cast<std::uint64_t>(a.seed);
  const curate::MixtureFit fit(trials);
  const curate::FitQuality quality = curate::fit_quality(trials);
  const curate::Mixture best = fit.best(seed);
  const double predicted = fit.predict(best), seen = work.loss_of(best);
  double mean = 0, least = trials.front().loss;
  for (const auto& trial : trials) {
    mean += trial.loss / static_cast<double>(trials.size());
    least = std::min(least, trial.loss);
  }
  write_text(fs::path(a.output) / "recipe.yaml", work.recipe_text(best, work.recipe().tokens));
  if (a.json) {
    Json weights = Json::object();
    for (std::size_t i = 0; i < best.size(); ++i) weights[work.recipe().sources[i].name] = best[i];
    return print_json_line(
        Json{{"weights", weights},
             {"predicted_loss", predicted},
             {"loss", seen},
             {"trials", {{"count", trials.size()}, {"mean_loss", mean}, {"least_loss", least}}},
             {"fit",
              {{"mean_error", quality.mean_error},
               {"spread", quality.spread},
               {"rank_correlation", quality.rank_correlation}}}});
  }
  std::string table;
  for (std::size_t i = 0; i < best.size(); ++i)
    table += fmt::format("{:<24} {:>7.3f}\n", work.recipe().sources[i].name, best[i]);
  print(table +
        fmt::format(
            "loss of a model trained so: {:.4f} (predicted {:.4f}); {} trials: mean {:.4f}, least {:.4f}\n"
            "the fit, of trials that it has not seen: mean error {:.4f} where losses vary by {:.4f}, "
            "rank correlation {:.2f}\nwritten to {}\n",
            seen, predicted, trials.size(), mean, least, quality.mean_error, quality.spread,
            quality.rank_correlation, (fs::path(a.output) / "recipe.yaml").string()));
}

}  // namespace

void add_data_mix(CLI::App& data, Context& context) {
  auto a = std::make_shared<MixArguments>();
  CLI::App* c = data.add_subcommand(
      "mix",
      "Weights for the sources of a blend: tiny models trained on random mixtures, and a fit of their "
      "losses on a target");
  c->footer("Example: stoa data mix recipe.yaml --target held-out.jsonl --tokenizer tok --output mix");
  c->add_option("RECIPE", a->recipe, "sources, as for `stoa data blend`; weights in it are not used")
      ->required();
  c->add_option("--target", a->targets, "texts on which the losses are measured")->required();
  c->add_option("--tokenizer,-t", a->tokenizer, "of all sources")->required();
  c->add_option("--output,-o", a->output,
                "directory: trials, recipe.yaml; trials that were done are not run again")
      ->required();
  c->add_option("--trials", a->trials, "random mixtures")->check(between(4, 10000))->capture_default_str();
  c->add_option("--steps", a->steps, "of a trial, of 8 sequences each")
      ->check(between(1, 1'000'000))
      ->capture_default_str();
  c->add_option("--layers", a->layers, "of the models")->check(between(1, 64))->capture_default_str();
  c->add_option("--hidden", a->hidden, "their width, a multiple of 4")
      ->check(between(8, 4096))
      ->capture_default_str();
  c->add_option("--sequence", a->sequence, "tokens of a sequence")
      ->check(between(8, 4096))
      ->capture_default_str();
  c->add_option("--seed", a->seed, "of mixtures, weights and order")
      ->check(between(0, 1e9))
      ->capture_default_str();
  c->add_flag("--json", a->json, "print the result as JSON");
  c->callback([a, &context] { run_mix(*a, context); });
}

}  // namespace stoa::cli
