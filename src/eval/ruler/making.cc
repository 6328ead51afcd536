#include "eval/ruler/making.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "eval/data/find_data.h"
#include "eval/python/regex.h"

namespace stoa::eval {
namespace {

constexpr std::int64_t kUsualLength = 4096;

struct Maker {
  DocumentsMaker make;
  const char* source;  // of ruler_source, or null
};

template <int kTask>
std::vector<Json> needles(Making& making) {
  static constexpr const char* kTasks[] = {"single_1",   "single_2",   "single_3",   "multikey_1",
                                           "multikey_2", "multikey_3", "multivalue", "multiquery"};
  return make_needles(making, kTasks[kTask]);
}

constexpr const char *kEssays = "baber/paul_graham_essays", *kSquad = "dev-v2.0.json",
                     *kHotpot = "hotpot_dev_distractor_v1.json";

const std::map<std::string, Maker, std::less<>>& makers() {
  static const std::map<std::string, Maker, std::less<>> table{
      {"niah_utils.niah_single_1", {needles<0>, nullptr}},
      {"niah_utils.niah_single_2", {needles<1>, kEssays}},
      {"niah_utils.niah_single_3", {needles<2>, kEssays}},
      {"niah_utils.niah_multikey_1", {needles<3>, kEssays}},
      {"niah_utils.niah_multikey_2", {needles<4>, nullptr}},
      {"niah_utils.niah_multikey_3", {needles<5>, nullptr}},
      {"niah_utils.niah_multivalue", {needles<6>, kEssays}},
      {"niah_utils.niah_multiquery", {needles<7>, kEssays}},
      {"vt_utils.get_vt_dataset", {make_variable_chains, nullptr}},
      {"cwe_utils.get_cw_dataset", {make_common_words, nullptr}},
      {"fwe_utils.fwe_download", {make_frequent_words, nullptr}},
      {"qa_utils.get_squad", {[](Making& m) { return make_questions(m, false); }, kSquad}},
      {"qa_utils.get_hotpotqa", {[](Making& m) { return make_questions(m, true); }, kHotpot}}};
  return table;
}

std::int64_t whole_number(const Json& value, const char* key, std::int64_t least, std::int64_t most) {
  require<ConfigError>(
      value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most,
      "--metadata: {}: expected whole numbers from {} to {}, got {}", key, least, most, dumped(value));
  return value.get<std::int64_t>();
}

}  // namespace

Making::Making(const MakingOptions& options)
    : python(options.python_seed), numpy(options.numpy_seed), options_(options) {
  require<ConfigError>(options.tokens != nullptr,
                       "documents that are made by their number of tokens need the model's tokenizer; of a "
                       "server's model give it with --tokenizer");
  const Json lengths = options.metadata.value("max_seq_lengths", Json::array({kUsualLength}));
  for (const Json& n : lengths.is_array() ? lengths : Json::array({lengths}))
    lengths_.push_back(whole_number(n, "max_seq_lengths", 256, std::int64_t{1} << 24));
  require<ConfigError>(!lengths_.empty(), "--metadata: max_seq_lengths is empty");
  if (const auto n = options.metadata.find("num_samples"); n != options.metadata.end())
    samples_ = whole_number(*n, "num_samples", 1, 100'000);
}

std::vector<std::string> Making::words(std::initializer_list<const char*> lists) const {
  std::set<std::string> out;
  for (const char* list : lists) {
    const std::string text = read_text(options_.words / (std::string(list) + ".txt"));
    for (const auto word : pieces_of(text, "\n"))
      if (!strip(word).empty()) out.emplace(strip(word));
  }
  return {out.begin(), out.end()};
}

Json Making::document(std::int64_t index, std::string input, Json outputs, std::int64_t length,
                      std::int64_t longest, std::string beginning_of_answer) {
  return {{"index", index},   {"input", std::move(input)}, {"outputs", std::move(outputs)},
          {"length", length}, {"max_length", longest},     {"gen_prefix", std::move(beginning_of_answer)}};
}

void Making::too_short(const char* what, std::int64_t length) {
  fail<DataError>("{} tokens leave no room for {}: give larger max_seq_lengths (--metadata)", length, what);
}

std::string filled(std::string_view pattern,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string out;
  for (std::size_t at = 0; at < pattern.size();) {
    const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) {
      return pattern[at] == '{' && pattern.substr(at + 1).starts_with(value.first) &&
             pattern.substr(at + 1 + value.first.size()).starts_with('}');
    });
    if (found == values.end()) {
      out += pattern[at++];
    } else {
      out += found->second;
      at += found->first.size() + 2;
    }
  }
  return out;
}

std::string drawn_letters(PythonRandom& random, char first, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += static_cast<char>(first + static_cast<char>(random.choice_of(26)));
  return out;
}

DocumentsMaker ruler_maker(std::string_view name) {
  const auto it = makers().find(name);
  return it == makers().end() ? nullptr : it->second.make;
}

std::vector<std::string> ruler_makers() {
  std::vector<std::string> out;
  for (const auto& [name, maker] : makers()) out.push_back(name);
  return out;
}

Json ruler_results(const Json& doc, const Json& answers) {
  static const PythonRegex kControl("[\\x00-\\x1f]");
  std::string answer(strip(answers.at(0).get_ref<const std::string&>()));
  answer = lowered(strip(kControl.substitute(answer, "\n")));
  const Json& outputs = doc.at("outputs");
  require<DataError>(outputs.is_array() && !outputs.empty(), "the document has no outputs");
  double named = 0;
  for (const Json& output : outputs)
    named += answer.find(lowered(output.get<std::string>())) != std::string::npos ? 1.0 : 0.0;
  Json out{{std::to_string(kUsualLength), -1.0}};
  out[std::to_string(doc.at("max_length").get<std::int64_t>())] = named / static_cast<double>(outputs.size());
  return out;
}

double ruler_figure(const std::vector<Json>& values) {
  double sum = 0;
  std::size_t count = 0;
  for (const Json& value : values)
    if (value != -1) sum += value.get<double>(), ++count;
  return count == 0 ? -1.0 : sum / static_cast<double>(count);
}

MakingSource ruler_source(std::string_view name, const std::vector<fs::path>& places) {
  const auto it = makers().find(name);
  if (it == makers().end() || !it->second.source) return {};
  MakingSource out;
  const std::string source = it->second.source;
  if (source == kEssays) {
    TaskConfig essays;
    essays.name = "essays";
    essays.dataset_path = source;
    const FoundSplit found = find_split(essays, "train", places);
    return {found.files, found.looked_for};
  }
  out.looked_for = fmt::format("'{}' in a folder of --data", source);
  for (const fs::path& place : places)
    if (out.files.empty() && fs::is_regular_file(place / source)) out.files.push_back(place / source);
  return out;
}

}  // namespace stoa::eval
