#include "eval/tasks/functions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/nearest.h"
#include "eval/builtin/afrobench.h"
#include "eval/builtin/code_tests.h"
#include "eval/builtin/document.h"
#include "eval/builtin/document_filters.h"
#include "eval/builtin/gpqa.h"
#include "eval/builtin/instructions.h"
#include "eval/builtin/languages.h"
#include "eval/builtin/math_answers.h"
#include "eval/builtin/minerva_math.h"
#include "eval/builtin/mmlu_pro.h"
#include "eval/builtin/reading.h"
#include "eval/builtin/summaries.h"
#include "eval/python/regex.h"
#include "eval/ruler/making.h"

namespace stoa::eval {
namespace {

// --- hellaswag
std::string cleaned_how_to(std::string_view raw) {
  static const PythonRegex kBrackets("\\[.*?\\]");
  std::string text = replaced(strip(raw), " [title]", ". ");
  return replaced(kBrackets.substitute(text, ""), "  ", " ");
}

Json hellaswag_doc(const Json& doc) {
  Json out = doc;
  out["query"] = cleaned_how_to(text_field(doc, "activity_label") + ": " + text_field(doc, "ctx_a") + " " +
                                capitalized(text_field(doc, "ctx_b")));
  Json choices = Json::array();
  for (const Json& ending : doc.at("endings")) choices.push_back(cleaned_how_to(ending.get<std::string>()));
  out["choices"] = std::move(choices);
  const std::string label = str_of(doc.at("label"));
  require<DataError>(is_digits(strip(label)),
                     "the document's label '{}' is not a number: the split has no gold answers", label);
  out["gold"] = std::stoll(label);
  return out;
}

// --- translated ARC, TMMLU+: a letter among choices that are fields
std::int64_t letter_of(const Json& doc, const char* field, std::string_view letters) {
  const std::string letter = text_field(doc, field);
  const std::size_t at = letter.size() == 1 ? letters.find(letter) : std::string_view::npos;
  require<DataError>(at != std::string_view::npos, "the answer '{}' is none of {}", letter, letters);
  return static_cast<std::int64_t>(at);
}

Json translated_arc_doc(const Json& doc) {
  Json out = doc, choices = Json::array();
  for (const char* option : {"option_a", "option_b", "option_c", "option_d", "option_e"})
    if (const Json text = doc.value(option, Json()); text.is_string() && !text.get<std::string>().empty())
      choices.push_back(cleaned_how_to(text.get<std::string>()));
  out["query"] = "Question: " + cleaned_how_to(text_field(doc, "instruction")) + "\nAnswer:";
  out["choices"] = std::move(choices);
  out["gold"] = letter_of(doc, "answer", "ABCDE");
  return out;
}

Json tmmluplus_doc(const Json& doc) {
  Json out = doc;
  out["questions"] = text_field(doc, "question");
  out["choices"] = Json::array();
  for (const char* option : {"A", "B", "C", "D"}) out["choices"].push_back(doc.at(option));
  out["goal"] = letter_of(doc, "answer", "ABCD");
  return out;
}

// --- race
Json problems_of(const Json& doc) {
  Json problems = literal(text_field(doc, "problems"));
  require<DataError>(problems.is_array() && !problems.empty(), "the document has no problem");
  return problems;
}

std::int64_t letter_index(const Json& problem) {
  const std::string letter = text_field(problem, "answer");
  require<DataError>(letter.size() == 1 && letter[0] >= 'A' && letter[0] <= 'D',
                     "the answer '{}' is none of A to D", letter);
  return letter[0] - 'A';
}

std::string right_option(const Json& problem) {
  return problem.at("options").at(static_cast<std::size_t>(letter_index(problem))).get<std::string>();
}

Json race_text(const Json& doc) {
  const Json problems = problems_of(doc);
  std::string text = "Article: " + text_field(doc, "article") + "\n\n";
  for (std::size_t i = 0; i + 1 < problems.size(); ++i) {
    const std::string question = text_field(problems[i], "question");
    if (question.ends_with("  _  ."))
      text += question.substr(0, question.size() - 5) + right_option(problems[i]) + "\n";
    else
      text += "Question: " + question + "\nAnswer: " + right_option(problems[i]) + "\n";
  }
  return text + text_field(problems.back(), "question");
}

Json race_target(const Json& doc) { return letter_index(problems_of(doc).back()); }

Json race_choice(const Json& doc) {
  Json options = problems_of(doc).back().at("options");
  require<DataError>(options.is_array() && options.size() >= 4, "a problem with fewer than four options");
  options.erase(options.begin() + 4, options.end());
  return options;
}

// --- winogrande
std::size_t gap_of(const std::string& sentence) {
  const std::size_t at = sentence.find('_');
  require<DataError>(at != std::string::npos, "the sentence '{}' has no gap", sentence);
  return at;
}

Json winogrande_text(const Json& doc) {
  const std::string answer = text_field(doc, "answer");
  require<DataError>(answer == "1" || answer == "2", "the answer '{}' is neither 1 nor 2", answer);
  return answer == "1" ? 0 : 1;
}

Json winogrande_target(const Json& doc) {
  const std::string sentence = text_field(doc, "sentence");
  return std::string(strip(std::string_view(sentence).substr(gap_of(sentence) + 1)));
}

Json winogrande_choice(const Json& doc) {
  const std::string sentence = text_field(doc, "sentence"), before = sentence.substr(0, gap_of(sentence));
  return Json::array({before + text_field(doc, "option1"), before + text_field(doc, "option2")});
}

// --- wikitext
Json wikitext_target(const Json& doc) {
  static const std::vector<std::pair<const char*, const char*>> kNumbers{
      {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "}, {" ; ", "; "},
      {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};
  static const std::vector<std::pair<const char*, const char*>> kRest{
      {"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \u00b0 ", "\u00b0"},
      {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"}};
  static const RegexReplacements kPairs{{R"(\(\s*([^\)]*?)\s*\))", R"((\1))"},
                                        {R"(\[\s*([^\]]*?)\s*\])", R"([\1])"},
                                        {R"({\s*([^}]*?)\s*})", R"({\1})"},
                                        {R"(\"\s*([^\"]*?)\s*\")", R"("\1")"},
                                        {R"('\s*([^']*?)\s*')", R"('\1')"}};
  static const PythonRegex kQuotedDigit("/' [0-9]/");
  std::string text = replaced(text_field(doc, "page"), "s '", "s'");
  text = kQuotedDigit.substitute(text, "/'[0-9]/");
  for (const auto& [from, to] : kNumbers) text = replaced(text, from, to);
  text = kPairs(text);
  for (const auto& [from, to] : kRest) text = replaced(text, from, to);
  return text;
}

Json wikitext_results(const Json& doc, const Json& answers) {
  const std::string page = text_field(doc, "page");
  const Json words = Json::array({answers[0], count_split_pieces(page)});
  const Json bytes = Json::array({answers[0], static_cast<std::int64_t>(page.size())});
  return {{"word_perplexity", words}, {"byte_perplexity", bytes}, {"bits_per_byte", bytes}};
}

// --- truthfulqa
Json truthfulqa_mc2(const Json& doc, const Json& answers) {
  const Json& labels = doc.at("mc2_targets").at("labels");
  double all = 0, right = 0;
  for (const Json& answer : answers) all += std::exp(answer[0].get<double>());
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (labels.at(i) == 1) right += std::exp(answers[i][0].get<double>()) / all;
  return {{"acc", right}};
}

// --- glue
Json mnli_text(const Json& doc) {
  const std::string raw = text_field(doc, "hypothesis");
  const std::string_view hypothesis = strip(raw);
  return text_field(doc, "premise") + "\nQuestion: " + std::string(hypothesis) +
         (hypothesis.ends_with('.') ? "" : ".") + " True, False or Neither?\nAnswer:";
}

const std::map<std::string, DocFunction>& doc_functions() {
  static const std::map<std::string, DocFunction> table = [] {
    std::map<std::string, DocFunction> out{{"hellaswag.process_docs", hellaswag_doc},
                                           {"race.doc_to_text", race_text},
                                           {"race.doc_to_target", race_target},
                                           {"race.doc_to_choice", race_choice},
                                           {"winogrande.doc_to_text", winogrande_text},
                                           {"winogrande.doc_to_target", winogrande_target},
                                           {"winogrande.doc_to_choice", winogrande_choice},
                                           {"wikitext.wikitext_detokenizer", wikitext_target},
                                           {"mnli.doc_to_text", mnli_text},
                                           {"drop.process_docs", drop_document},
                                           {"hendrycks_math.process_docs", math_document},
                                           {"minerva_math.process_docs", minerva_document},
                                           {"mmlu_pro.doc_to_text", mmlu_pro_text},
                                           {"mmlu_pro.fewshot_to_text", mmlu_pro_text},
                                           {"mmlu_pro.fewshot_to_target", mmlu_pro_shot_target},
                                           {"okapi_arc.process_docs", translated_arc_doc},
                                           {"tmmluplus.process_docs", tmmluplus_doc},
                                           {"minerva_math.doc_to_text", minerva_text}};
    out.insert(xcopa_functions().begin(), xcopa_functions().end());
    out.insert(afrobench_functions().begin(), afrobench_functions().end());
    return out;
  }();
  return table;
}

const std::map<std::string, DocumentsFunction>& documents_functions() {
  static const std::map<std::string, DocumentsFunction> table{
      {"gpqa.process_docs", gpqa_documents},
      {"gpqa_n_shot.process_docs", gpqa_n_shot_documents},
      {"gpqa_generative.process_docs", gpqa_generative_documents}};
  return table;
}

const std::map<std::string, ResultFunction>& result_functions() {
  static const std::map<std::string, ResultFunction> table{
      {"wikitext.process_results", wikitext_results},
      {"truthfulqa.process_results_mc2", truthfulqa_mc2},
      {"drop.process_results", drop_results},
      {"hendrycks_math.process_results", math_results},
      {"minerva_math.process_results", minerva_results},
      {"squadv2.process_results", squad_results},
      {"cnn_dailymail.process_results", highlights_results},
      {"ifeval.process_results", ifeval_results},
      {"xsum.process_results", summary_results},
      {"xquad.process_results_qa", xquad_results},
      {"common_utils.process_results", ruler_results},
      {"common_utils.process_results_part", ruler_results}};
  return table;
}

const std::map<std::string, FilterFunction>& filter_functions() {
  static const std::map<std::string, FilterFunction> table{
      {"humaneval.build_predictions", humaneval_programs},
      {"humaneval.build_predictions_instruct", humaneval_instruct_programs},
      {"mbpp.build_predictions", mbpp_programs}};
  return table;
}

const std::map<std::string, MetricFunction>& metric_functions() {
  static const std::map<std::string, MetricFunction> table{{"humaneval.pass_at_k", pass_at_k},
                                                           {"mbpp.pass_at_1", pass_at_1}};
  return table;
}

const std::map<std::string, Json (*)()>& sample_functions() {
  static const std::map<std::string, Json (*)()> table{
      {"mbpp.list_fewshot_samples", mbpp_samples}, {"minerva_math.list_fewshot_samples", minerva_samples}};
  return table;
}

const std::map<std::string, std::string>& aggregations_by_name() {
  static const std::map<std::string, std::string> table = [] {
    std::map<std::string, std::string> out{{"ifeval.agg_inst_level_acc", "ifeval.agg_inst_level_acc"},
                                           {"f1_averages.macro_f1_score", "f1_macro"},
                                           {"f1_averages.micro_f1_score", "f1_micro"},
                                           {"common_utils.aggregate_metrics", "ruler"}};
    for (const std::string module :
         {"f1_averages", "afrimmlu_1", "afrimmlu_2", "afrimmlu_3", "afrimmlu_3_translated", "afrimmlu_4",
          "afrimmlu_5", "afrimmlu_5_translated", "afrixnli", "afrixnli_with_role", "afrixnli_words",
          "afrixnli_truth", "afrixnli_inconclusive"})
      out[module + ".weighted_f1_score"] = "f1_weighted";
    for (const std::string name : kSquadFigures) out["squadv2." + name] = "squadv2." + name;
    return out;
  }();
  return table;
}

const std::map<std::string, std::string>& filters_by_class() {
  static const std::map<std::string, std::string> table{
      {"bbh.MapRegexFilter", "map_regex"},
      {"bbh.MultiChoiceRegexFilter", "multi_choice_regex_of_input"},
      {"bbh.NumberParseRegexFilter", "number_regex"},
      {"bbh.WordSortFilter", "word_sort"}};
  return table;
}

const std::map<std::string, Json>& tasks_by_class() {
  static const std::map<std::string, Json> table = [] {
    const auto builtin = [](const std::string& name) {
      return Json{{"!function", "squadv2." + name}, {"directory", ""}};
    };
    Json metrics = Json::array();
    for (const char* name : kSquadFigures)
      metrics.push_back({{"metric", name}, {"aggregation", builtin(name)}, {"higher_is_better", true}});
    return std::map<std::string, Json>{
        {"squadv2.SQuAD2",
         {{"dataset_path", "lighteval/squad_v2"},
          {"training_split", "train"},
          {"validation_split", "validation"},
          {"output_type", "generate_until"},
          {"doc_to_text", "Title: {{title}}\n\nBackground: {{context}}\n\nQuestion: {{question}}\n\nAnswer:"},
          {"doc_to_target", "{{' ' ~ (answers.text[0] if answers.text else 'unanswerable')}}"},
          {"generation_kwargs", {{"until", Json::array({"\n"})}}},
          {"process_results", builtin("process_results")},
          {"metric_list", metrics},
          {"also_scored", " unanswerable"},
          {"metadata", {{"version", 3}}}}}};
  }();
  return table;
}

// Python files of lm-evaluation-harness 0.4.13 by checksum (base/checksum.h), and the module above that has
// their functions.
const std::map<std::string, std::string>& known_python_files() {
  static const std::map<std::string, std::string> table{
      {"ea97852477b34767", "hellaswag"},         // hellaswag/utils.py
      {"be737213f712e022", "race"},              // race/preprocess_race.py
      {"e73b7f90e9bce644", "winogrande"},        // winogrande/preprocess_winogrande.py
      {"de0d3de863c41d3e", "wikitext"},          // wikitext/preprocess_wikitext.py
      {"177ef1f54e8fa344", "truthfulqa"},        // truthfulqa/utils.py
      {"7344586f46bcb0d0", "mnli"},              // glue/mnli/utils.py
      {"e217f3491e254d9b", "drop"},              // drop/utils.py
      {"3716a53dec715f2e", "hendrycks_math"},    // hendrycks_math/utils.py
      {"8e103004369ddfb9", "cnn_dailymail"},     // cnn_dailymail/utils.py
      {"ab172e76d1844e0b", "bbh"},               // bbh/zeroshot/utils.py, bbh/cot_zeroshot/utils.py
      {"02b7e85759fae2f4", "squadv2"},           // squadv2/task.py
      {"5d0c501806c26174", "ifeval"},            // ifeval/utils.py
      {"a80e7da70438a602", "humaneval"},         // humaneval/utils.py
      {"81fb4b05db22972e", "mbpp"},              // mbpp/utils.py
      {"0ba1a2708d07a5cf", "winogrande"},        // xwinograd/utils.py
      {"15187aab2ca718f5", "xcopa"},             // xcopa/utils.py
      {"bdcc1140ee8448ab", "xquad"},             // xquad/utils.py
      {"e277f267385adc33", "gpqa"},              // gpqa/zeroshot/utils.py
      {"abb58876c451f060", "gpqa_n_shot"},       // gpqa/n_shot/utils.py
      {"4a48b44802564ed1", "gpqa_generative"},   // gpqa/generative/utils.py and both of chains of thought
      {"137e75350bb92749", "niah_utils"},        // ruler/niah_utils.py
      {"8bb9443ca51787aa", "vt_utils"},          // ruler/vt_utils.py
      {"c395a272b50e00ce", "cwe_utils"},         // ruler/cwe_utils.py
      {"5c13073fe4e0588b", "fwe_utils"},         // ruler/fwe_utils.py
      {"af2726b8ac3d7773", "qa_utils"},          // ruler/qa_utils.py
      {"3917a9e9e92a1819", "global_mmlu"},       // global_mmlu/full/en/utils.py
      {"a957c9a237a25ae3", "global_mmlu_lite"},  // global_mmlu/default/en/utils.py
      {"48ef936c864e9928", "include"},           // include/default/French/utils.py
      {"3d7a9b634b5c60e1", "mmlu_pro"},          // mmlu_pro/utils.py
      {"251d988c9fed3cdb", "bigbench"},          // bigbench/utils.py
      {"c25d1000623b90b4", "okapi_arc"},         // okapi/arc_multilingual/utils.py
      {"56ab2ed9228a5a75", "tmmluplus"},         // tmmluplus/default/utils.py
      {"83e2ca14c73053c5", "eus_exams"},         // eus_exams/utils.py
      {"e36c20322c816903", "common_utils"},      // ruler/common_utils.py
      {"71fa634d7aaca51f", "f1_averages"},       // aradice/piqa/metrics.py and others
      {"d886abd37292ce69", "f1_averages"},       // afrobench/sib/prompt_2/utils.py and others
      {"0440f101f77f43ef", "afrimmlu_1"},        // afrimmlu/direct/prompt_1/utils.py
      {"5c3f7c962119ada8", "afrimmlu_2"},        // afrimmlu/direct/prompt_2/utils.py
      {"ab9bc58748568392", "afrimmlu_3"},        // afrimmlu/direct/prompt_3/utils.py
      {"d1e4e3dedf278bd4", "afrimmlu_3_translated"},  // afrimmlu/translate/prompt_3/utils.py
      {"ccb216c8cfdb19ae", "afrimmlu_4"},             // afrimmlu/direct/prompt_4/utils.py
      {"28987ddc05edd1c6", "afrimmlu_5"},             // afrimmlu/direct/prompt_5/utils.py
      {"511abe9bb6339cf4", "afrimmlu_5_translated"},  // afrimmlu/translate/prompt_5/utils.py
      {"90d8571203e4c2ba", "afrixnli"},               // afrixnli/direct/prompt_1/utils.py and others
      {"8f53d57c8e0cd3f9", "afrixnli_with_role"},     // afrixnli/translate/prompt_3/utils.py
      {"129e31761b7ecb18", "afrixnli_words"},         // afrixnli/direct/prompt_3/utils.py
      {"235036748da129be", "afrixnli_truth"},         // afrixnli/direct/prompt_2/utils.py and others
      {"6b036ecaad0df1fd", "afrixnli_inconclusive"},  // afrixnli/direct/prompt_5/utils.py
  };
  return table;
}

// "hellaswag.process_docs", as the tables above name it.
std::string builtin_name(const Json& function, const std::string& source) {
  const std::string name = function.at("!function"), directory = function.at("directory");
  const std::size_t dot = name.rfind('.');
  require<ConfigError>(dot != std::string::npos, "{}: the function '{}' names no module", source, name);
  std::string module = name.substr(0, dot);
  if (directory.empty()) return name;  // of a task that is built in
  const fs::path file = fs::path(directory) / (replaced(module, ".", "/") + ".py");
  if (fs::is_regular_file(file)) {
    const auto it = known_python_files().find(checksum_text(checksum_file(file)));
    require<ConfigError>(it != known_python_files().end(),
                         "{}: the function '{}' is Python of '{}', which Stoa does not run and does not know",
                         source, name, file.string());
    module = it->second;
  }
  return module + name.substr(dot);
}

[[noreturn]] void not_built_in(const Json& function, const std::string& source, const std::string& name,
                               const std::vector<std::string>& known) {
  fail<ConfigError>("{}: the function '{}' is Python, which Stoa does not run, and is not built in{}", source,
                    function.at("!function").get<std::string>(), did_you_mean(name, known));
}

template <class Table>
const auto& find_function(const Table& table, const Json& function, const std::string& source) {
  const std::string name = builtin_name(function, source);
  const auto it = table.find(name);
  if (it != table.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [n, f] : table) known.push_back(n);
  not_built_in(function, source, name, known);
}

}  // namespace

DocFunction doc_function(const Json& function, const std::string& source) {
  return find_function(doc_functions(), function, source);
}

DocumentsFunction documents_function(const Json& function, const std::string& source) {
  const std::string name = builtin_name(function, source);
  const auto it = documents_functions().find(name);
  return it == documents_functions().end() ? document_filter(name) : it->second;
}

std::string maker_of_documents(const Json& function, const std::string& source) {
  const std::string name = builtin_name(function, source);
  if (!ruler_maker(name)) not_built_in(function, source, name, ruler_makers());
  return name;
}

ResultFunction result_function(const Json& function, const std::string& source) {
  return find_function(result_functions(), function, source);
}

FilterFunction filter_function(const Json& function, const std::string& source) {
  return find_function(filter_functions(), function, source);
}

MetricFunction metric_function(const Json& function, const std::string& source) {
  return find_function(metric_functions(), function, source);
}

Json made_samples(const Json& function, const std::string& source) {
  return find_function(sample_functions(), function, source)();
}

std::string aggregation_by_function(const Json& function, const std::string& source) {
  return find_function(aggregations_by_name(), function, source);
}

std::string filter_by_class(const Json& function, const std::string& source) {
  return find_function(filters_by_class(), function, source);
}

Json task_by_class(const Json& function, const std::string& source) {
  return find_function(tasks_by_class(), function, source);
}

}  // namespace stoa::eval
