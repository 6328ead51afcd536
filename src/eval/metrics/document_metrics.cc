#include "eval/metrics/document_metrics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "eval/python/regex.h"

namespace stoa::eval {
namespace {

template <class Value>
std::size_t first_largest(std::size_t n, const Value& value) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < n; ++i)
    if (value(i) > value(best)) best = i;
  return best;
}

// The gold choice, or all of them.
std::vector<std::int64_t> gold_choices(const Task& task, const Json& doc, const Json& choices) {
  const auto n = static_cast<std::int64_t>(choices.size());
  const Json gold =
      task.contexts_differ() ? task.fields().text.text(doc, true) : task.fields().target.target(doc, true);
  std::vector<std::int64_t> out;
  const auto add = [&](const Json& one) {
    if (one.is_number_integer()) {
      const auto i = one.get<std::int64_t>();
      require<DataError>(i < n && i >= -n, "the gold answer is choice {} of {}", i, n);
      out.push_back(i);  // the harness compares a negative one with no choice
    } else {
      const auto it = std::find(choices.begin(), choices.end(), one);
      require<DataError>(it != choices.end(), "the gold answer {} is none of the choices", dumped(one));
      out.push_back(it - choices.begin());
    }
  };
  if (gold.is_array()) {
    for (const Json& one : gold) {
      require<DataError>(one.is_number_integer(), "the gold answers {} are no numbers of choices",
                         dumped(gold));
      add(one);
    }
  } else {
    add(gold);
  }
  return out;
}

Json choice_metrics(const Task& task, const Json& doc, const std::vector<Answer>& answers) {
  const TaskConfig& config = task.config();
  const Json choices = task.fields().choice.choices(doc);
  const std::size_t n = choices.size();
  const auto ll = [&](std::size_t i) { return answers[i].log_likelihood; };
  const auto text = [&](std::size_t i) -> const std::string& {
    return choices[i].get_ref<const std::string&>();
  };
  const std::vector<std::int64_t> gold = gold_choices(task, doc, choices);
  const auto right = [&](std::size_t predicted) {
    return std::find(gold.begin(), gold.end(), static_cast<std::int64_t>(predicted)) != gold.end() ? 1.0
                                                                                                   : 0.0;
  };
  const std::size_t plain = first_largest(n, ll);
  const Json single = task.several_targets() ? Json(gold) : Json(gold.front());
  Json out = Json::object();
  const auto wants = [&](const char* metric) { return config.metric(metric) != nullptr; };
  if (wants("acc")) out["acc"] = right(plain);
  if (wants("f1")) out["f1"] = Json::array({single, plain});
  if (wants("mcc")) out["mcc"] = Json::array({single, plain});
  if (wants("acc_norm"))
    out["acc_norm"] = right(
        first_largest(n, [&](std::size_t i) { return ll(i) / static_cast<double>(code_points(text(i))); }));
  if (wants("acc_bytes"))
    out["acc_bytes"] =
        right(first_largest(n, [&](std::size_t i) { return ll(i) / static_cast<double>(text(i).size()); }));
  if (wants("exact_match"))
    out["exact_match"] =
        std::any_of(
            gold.begin(), gold.end(),
            [&](std::int64_t g) {
              return answers[static_cast<std::size_t>(g < 0 ? g + static_cast<std::int64_t>(n) : g)].greedy;
            })
            ? 1
            : 0;
  if (wants("brier_score")) {
    Json odds = Json::array();
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(ll(i) - ll(plain));
    for (std::size_t i = 0; i < n; ++i) odds.push_back(std::exp(ll(i) - ll(plain)) / sum);
    out["brier_score"] = Json::array({single, odds});
  }
  if (wants("acc_mutual_info"))
    out["acc_mutual_info"] =
        right(first_largest(n, [&](std::size_t i) { return ll(i) - answers[n + i].log_likelihood; }));
  return out;
}

// The text of an answer or a gold answer as exact_match compares it.
class Comparable {
 public:
  explicit Comparable(const Json& arguments) : arguments_(arguments) {
    for (const Json& pattern : arguments.value("regexes_to_ignore", Json::array()))
      ignored_.emplace_back(pattern.get<std::string>());
  }
  std::string operator()(std::string text) const {
    for (const PythonRegex& pattern : ignored_) text = pattern.substitute(text, "");
    if (arguments_.value("ignore_case", false)) text = lowered(text);
    const auto drop = [&](std::string_view characters) {
      std::erase_if(text, [&](char c) { return characters.find(c) != std::string_view::npos; });
    };
    if (arguments_.value("ignore_punctuation", false)) drop(kAsciiPunctuation);
    if (arguments_.value("ignore_numbers", false)) drop("0123456789");
    // numpy's strings end before zero bytes.
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }

 private:
  const Json& arguments_;
  std::vector<PythonRegex> ignored_;
};

Json generation_metrics(const Task& task, const Json& doc, const Json& result) {
  Json gold = task.fields().target.target(doc, task.has_choices());
  if (task.has_choices()) {
    const Json choices = task.fields().choice.choices(doc);
    require<DataError>(
        gold.is_number_integer() && gold.get<std::int64_t>() >= 0 && gold.get<std::size_t>() < choices.size(),
        "the gold answer is choice {} of {}", dumped(gold), choices.size());
    gold = choices[gold.get<std::size_t>()];
  } else if (task.several_targets()) {
    if (!gold.is_array()) gold = Json::array({gold});
  } else {
    gold = str_of(gold);
  }
  Json out = Json::object();
  for (const MetricSpec& metric : task.config().metrics) {
    if (metric.function) {
      const Json scores = metric.function(gold, result, metric.arguments);
      if (scores.is_object())
        out.update(scores);
      else
        out[metric.name] = scores;
      continue;
    }
    require<DataError>(result.is_string(),
                       "the filters leave no text but {}: expected take_first at their end", dumped(result));
    if (metric.name == "exact_match") {
      const Comparable comparable(metric.arguments);
      const std::string answer = comparable(result);
      bool right = false;
      for (const Json& one : gold.is_array() ? gold : Json::array({gold}))
        right = right || comparable(str_of(one)) == answer;
      out[metric.name] = right ? 1.0 : 0.0;
    } else {
      require<DataError>(!task.several_targets(), "'{}' takes one gold answer, the document has {}",
                         metric.name, gold.size());
      out[metric.name] = Json::array({gold, result});
    }
  }
  return out;
}

Json metrics_of_answers(const Task& task, const Json& doc, const std::vector<Answer>& answers,
                        const Json& filtered) {
  if (const ResultFunction function = task.results()) {
    Json list = Json::array();
    for (const Answer& a : answers) {
      if (task.config().output == OutputType::kLoglikelihoodRolling)
        list.push_back(a.log_likelihood);
      else if (task.config().output == OutputType::kGenerateUntil && list.empty())
        list.push_back(filtered);
      else
        list.push_back(Json::array({a.log_likelihood, a.greedy}));
    }
    return function(doc, list);
  }
  Json out = Json::object();
  switch (task.config().output) {
    case OutputType::kLoglikelihood:
      if (task.config().metric("perplexity")) out["perplexity"] = answers[0].log_likelihood;
      if (task.config().metric("acc")) out["acc"] = answers[0].greedy ? 1 : 0;
      return out;
    case OutputType::kLoglikelihoodRolling: {
      const std::string text = str_of(task.fields().target.target(doc, task.has_choices()));
      const double ll = answers[0].log_likelihood;
      const auto bytes = static_cast<std::int64_t>(text.size());
      if (task.config().metric("word_perplexity"))
        out["word_perplexity"] = Json::array({ll, count_split_pieces(text)});
      if (task.config().metric("byte_perplexity")) out["byte_perplexity"] = Json::array({ll, bytes});
      if (task.config().metric("bits_per_byte")) out["bits_per_byte"] = Json::array({ll, bytes});
      return out;
    }
    case OutputType::kMultipleChoice:
      return choice_metrics(task, doc, answers);
    case OutputType::kGenerateUntil:
      return generation_metrics(task, doc, filtered);
  }
  return out;
}

}  // namespace

Json document_metrics(const Task& task, const Json& document, const std::vector<Answer>& answers,
                      const Json& filtered) {
  for (const Answer& a : answers)
    require<NumericsError>(std::isfinite(a.log_likelihood), "the model's log-likelihood is {}: not a number",
                           a.log_likelihood);
  try {
    return metrics_of_answers(task, document, answers, filtered);
  } catch (const Json::exception& error) {
    fail<DataError>("{}", error.what());
  }
}

}  // namespace stoa::eval
