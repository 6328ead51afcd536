// `stoa data collect` and `stoa data dedup`: the first and a later part of a pipeline by themselves.
#include <memory>

#include "base/error.h"
#include "cli/data_commands.h"
#include "cli/data_run.h"
#include "config/node.h"
#include "config/value.h"
#include "curate/dedup/clusters.h"
#include "curate/html/main_text.h"
#include "curate/io/collect.h"
#include "curate/io/document_reader.h"
#include "curate/run/pipeline.h"

namespace stoa::cli {
namespace {

using config::Node;

// Keys of `input` of a pipeline, those that were given.
struct InputArguments {
  std::string json_key, id_key, split, main_text;
  bool source_code = false;

  void add_to(CLI::App& c) {
    c.add_option("--json-key", json_key, "the key of JSON lines whose value is the text (text)");
    c.add_option("--id-key", id_key, "the key whose value is the id (id)");
    c.add_option("--text-split", split, "what is one document of a text file (file)")
        ->check(CLI::IsMember(config::choices_of<curate::TextSplit>()));
    c.add_option("--main-text", main_text, "how the text of a page is found (stoa)")
        ->check(CLI::IsMember(config::choices_of<curate::MainText>()));
  }
  Node pipeline() const {
    Node input = Node::map(), root = Node::map();
    const auto add = [&](const char* key, const std::string& value) {
      if (!value.empty()) input.entries.emplace_back(key, Node::text(value));
    };
    add("text_key", json_key);
    add("id_key", id_key);
    add("text_split", split);
    add("main_text", main_text);
    if (source_code) input.entries.emplace_back("source_code", Node::plain("true"));
    root.entries.emplace_back("input", std::move(input));
    return root;
  }
};

struct CollectArguments {
  curate::CollectRequest request;
  InputArguments input;
  RunArguments run;
};

void run_collect(CollectArguments& a, Context& context) {
  const curate::Pipeline pipeline = curate::pipeline_of(a.input.pipeline());
  curate::InputSearch search;
  search.source_code = a.input.source_code;
  search.output = a.run.output;
  std::vector<curate::CollectedFile> files = curate::collect_files(a.request, search);
  if (const std::string words = curate::words_for_left_out(search); !words.empty() && !search.source_code)
    context.console.line(words);
  for (curate::CollectedFile& file : files) {
    a.run.options.inputs.push_back(std::move(file.path));
    a.run.options.provenance.push_back(std::move(file.from));
  }
  run_and_print(pipeline, a.run, context);
}

struct DedupArguments {
  std::vector<std::string> inputs, methods = {"exact"};
  std::string keep, score;
  InputArguments input;
  RunArguments run;
};

void run_dedup(DedupArguments& a, Context& context) {
  Node root = a.input.pipeline();
  std::vector<Node> items;
  for (const std::string& method : a.methods) {
    Node keys = Node::map(), item = Node::map();
    if (!a.keep.empty()) keys.entries.emplace_back("keep", Node::text(a.keep));
    if (!a.score.empty()) keys.entries.emplace_back("score", Node::text(a.score));
    item.entries.emplace_back(method, std::move(keys));
    items.push_back(std::move(item));
  }
  root.entries.emplace_back("deduplicate", Node::sequence(std::move(items)));
  const curate::Pipeline pipeline = curate::pipeline_of(std::move(root));
  a.run.options.inputs.assign(a.inputs.begin(), a.inputs.end());
  run_and_print(pipeline, a.run, context);
}

}  // namespace

void add_data_collect(CLI::App& data, Context& context) {
  auto a = std::make_shared<CollectArguments>();
  CLI::App* c = data.add_subcommand(
      "collect",
      "Read files, folders, patterns and lists of them into documents with their source and licence");
  c->footer("Example: stoa data collect '/mnt/books/**/*.txt' @crawl.list --license CC-BY-4.0 --output raw");
  c->add_option("INPUTS", a->request.inputs,
                "files as `data run` reads them, folders, patterns in quotes (* ? [a-z] **), and @FILE: a "
                "list of these, one a line, with a source and a licence behind tabs where they differ")
      ->required();
  c->add_option("--source", a->request.source, "name of the source (that of the folder or file)");
  c->add_option("--license", a->request.license,
                "its licence, an SPDX identifier (that of the nearest licence file)");
  a->input.add_to(*c);
  c->add_flag("--source-code", a->input.source_code, "source files of folders, each a document");
  add_run_arguments(*c, a->run, "directory: kept/, manifest.json; a run that was ended continues there");
  c->callback([a, &context] { run_collect(*a, context); });
}

void add_data_dedup(CLI::App& data, Context& context) {
  auto a = std::make_shared<DedupArguments>();
  CLI::App* c = data.add_subcommand("dedup", "Remove documents that are copies of others, and nothing else");
  c->footer("Example: stoa data dedup clean/kept --method exact,minhash --output unique");
  c->add_option("INPUTS", a->inputs, "files as `data run` reads them, and folders")->required();
  c->add_option(
       "--method", a->methods,
       "exact: equal texts; minhash, nemo_minhash: near-duplicates; several with commas, one after another")
      ->delimiter(',')
      ->check(CLI::IsMember({"exact", "minhash", "nemo_minhash"}))
      ->capture_default_str();
  c->add_option("--keep", a->keep, "which document of a cluster stays (first)")
      ->check(CLI::IsMember(config::choices_of<curate::Survivor>()));
  c->add_option("--score", a->score, "with --keep best: the member that holds the score");
  a->input.add_to(*c);
  add_run_arguments(*c, a->run,
                    "directory: kept/, dropped/, manifest.json; a run that was ended continues there");
  add_memory_argument(*c, a->run);
  c->callback([a, &context] { run_dedup(*a, context); });
}

}  // namespace stoa::cli
