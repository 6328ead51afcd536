// `stoa eval embeddings MODEL --sts FILE --retrieval FOLDER`.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/cores.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/embedding_options.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "eval/embeddings/embedding_meter.h"
#include "eval/json_number.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EvalEmbeddingsArguments {
  ModelArguments model;
  std::vector<std::string> pairs, retrieval;
  std::string split = "test", similarity = "cosine";
  EmbeddingArguments embedding;
  eval::EmbeddingMeasures measures;
  bool json = false;
};

std::string shown_figure(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "none";
}

Json pairs_answer(const eval::PairsFigures& figures) {
  Json out{{"pairs", figures.pairs}};
  for (const auto& [name, agreement] : figures.agreements)
    out[name] = {{"pearson", eval::json_number(agreement.pearson)},
                 {"spearman", eval::json_number(agreement.spearman)}};
  return out;
}

Json retrieval_answer(const eval::RetrievalFigures& figures) {
  Json out{{"queries", figures.queries}, {"documents", figures.documents}};
  for (const auto& [name, value] : figures.figures) out[name] = value;
  return out;
}

std::string pairs_text(const std::string& file, const eval::PairsFigures& figures) {
  std::string out = fmt::format("{}: {} pairs\n", file, figures.pairs);
  for (const auto& [name, agreement] : figures.agreements)
    out += fmt::format("  {:<10} spearman {}  pearson {}\n", name, shown_figure(agreement.spearman),
                       shown_figure(agreement.pearson));
  return out;
}

std::string retrieval_text(const std::string& folder, const eval::RetrievalFigures& figures,
                           const std::vector<std::int64_t>& cuts) {
  std::string out = fmt::format("{}: {} queries, {} documents\n", folder, figures.queries, figures.documents);
  for (const char* name : {"ndcg", "map", "recall", "precision", "mrr"}) {
    out += fmt::format("  {:<10}", name);
    for (const std::int64_t cut : cuts)
      out += fmt::format(" @{} {:.4f}", cut, figures.figures.at(fmt::format("{}@{}", name, cut)));
    out += "\n";
  }
  return out;
}

void eval_embeddings(const EvalEmbeddingsArguments& a, Context& context) {
  require<ConfigError>(!a.pairs.empty() || !a.retrieval.empty(),
                       "nothing to measure: give --sts FILE or --retrieval FOLDER");
  eval::EmbeddingMeasures measures = a.measures;
  measures.embedding = a.embedding.options();
  measures.dot = a.similarity == "dot";
  measures.threads = available_cores();
  infer::OpenModel model = a.model.open();
  eval::EmbeddingMeter meter(model, measures);
  Json answer{{"model", a.model.model}};
  std::string text;
  for (const std::string& file : a.pairs) {
    const eval::PairsFigures figures = meter.measure_pairs(file);
    answer["sts"][file] = pairs_answer(figures);
    text += pairs_text(file, figures);
  }
  for (const std::string& folder : a.retrieval) {
    const eval::RetrievalFigures figures = meter.measure_retrieval(
        folder, a.split, [&](std::size_t texts) { context.console.live(fmt::format("{} texts", texts)); });
    answer["retrieval"][folder] = retrieval_answer(figures);
    text += retrieval_text(folder, figures, measures.cuts);
  }
  context.console.finish_live();
  if (meter.shortened() > 0)
    context.console.warn(
        fmt::format("{} texts were truncated to {} tokens", meter.shortened(), meter.longest()));
  if (a.json) return print_json_line(answer);
  print(text);
}

}  // namespace

void add_eval_embeddings(CLI::App& eval, Context& context) {
  auto a = std::make_shared<EvalEmbeddingsArguments>();
  CLI::App* c = eval.add_subcommand(
      "embeddings",
      "Measure an encoder's vectors (see stoa embed) on pairs of sentences whose similarity people have "
      "judged (correlations as in MTEB's STS tasks) and in retrieval (nDCG, MAP, recall, precision, MRR as "
      "in BEIR). "
      "Example: stoa eval embeddings models/all-MiniLM-L6-v2 --sts sts-test.tsv --retrieval beir/scifact");
  a->model.add_to(*c);
  c->add_option(
      "--sts", a->pairs,
      "Pairs: .jsonl, .parquet, .csv or .tsv with sentence1, sentence2, score, or a file of the STS "
      "benchmark");
  c->add_option("--retrieval", a->retrieval,
                "Folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, as of BEIR");
  c->add_option("--split", a->split, "Judgements of --retrieval: qrels/SPLIT.tsv")->capture_default_str();
  c->add_option("--cuts", a->measures.cuts, "Ranks at which figures of --retrieval are taken")
      ->delimiter(',')
      ->capture_default_str()
      ->check(between(1, 100'000));
  c->add_option("--similarity", a->similarity, "Similarity by which documents are ranked")
      ->check(CLI::IsMember({"cosine", "dot"}))
      ->capture_default_str();
  c->add_option("--query-prefix", a->measures.query_prefix,
                "Text in front of queries, and of the sentences of pairs");
  c->add_option("--document-prefix", a->measures.document_prefix, "Text in front of documents");
  a->embedding.add_to(*c);
  c->add_flag("--json", a->json, "Print the answer as JSON");
  counts_only_with(*c, {"--split", "--cuts", "--similarity", "--document-prefix"}, "--retrieval");
  c->callback([a, &context] { eval_embeddings(*a, context); });
}

}  // namespace stoa::cli
