#include "eval/results/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/timing.h"
#include "eval/builtin/code_tests.h"
#include "eval/metrics/document_metrics.h"
#include "eval/metrics/filters.h"
#include "eval/requests/generation_options.h"
#include "eval/results/journal.h"
#include "eval/results/sha256.h"

namespace stoa::eval {
namespace {

std::int64_t shots_of(const TaskConfig& config, const EvaluationOptions& options) {
  if (config.num_fewshot == 0) return 0;  // as the harness: not overwritten
  return options.num_fewshot.value_or(config.num_fewshot.value_or(0));
}

Json written_answer(Request::Kind kind, const Answer& a) {
  switch (kind) {
    case Request::Kind::kGenerate:
      return a.text;
    case Request::Kind::kRolling:
      return str_of(a.log_likelihood);
    case Request::Kind::kLoglikelihood:
      break;
  }
  return Json::array({str_of(a.log_likelihood), a.greedy ? "True" : "False"});
}

// The line of samples_*.jsonl.
Json sample_of(const PreparedTask& p, std::size_t document, const std::vector<const Request*>& requests,
               const std::vector<std::vector<Answer>>& answers, const std::string& filter,
               const Json& filtered, const Json& metrics) {
  const Task& task = p.task;
  const Json& doc = task.documents()[document];
  const std::string target = str_of(task.fields().target.target(doc, task.has_choices()));
  Json arguments = Json::object(), responses = Json::array(), after = Json::array(), names = Json::array();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& r = *requests[i];
    Json& a = arguments[fmt::format("gen_args_{}", i)];
    a["arg_0"] = r.kind == Request::Kind::kRolling ? r.continuation : r.context;
    if (r.kind == Request::Kind::kLoglikelihood) a["arg_1"] = r.continuation;
    if (r.kind == Request::Kind::kGenerate) a["arg_1"] = p.generation;
    Json repeats = Json::array();
    for (const Answer& one : answers[i]) repeats.push_back(written_answer(r.kind, one));
    responses.push_back(repeats);
    after.push_back(r.kind == Request::Kind::kGenerate ? filtered : repeats[0]);
  }
  for (const auto& [name, value] : metrics.items()) names.push_back(name);
  Json out{{"doc_id", document},
           {"doc", doc},
           {"target", target},
           {"arguments", arguments},
           {"resps", responses},
           {"filtered_resps", after},
           {"filter", filter},
           {"metrics", names},
           {"doc_hash", sha256(dumped_indented(doc))},
           {"prompt_hash",
            sha256(requests.front()->kind == Request::Kind::kRolling ? requests.front()->continuation
                                                                     : requests.front()->context)},
           {"target_hash", sha256(target)}};
  for (const auto& [name, value] : metrics.items()) out[name] = value;
  return out;
}

constexpr const char* kCleanEnding = "_clean";

void add_values(const Json& metrics, std::vector<std::pair<std::string, std::vector<Json>>>& values) {
  for (const auto& [name, value] : metrics.items()) {
    auto it =
        std::find_if(values.begin(), values.end(), [&, n = name](const auto& v) { return v.first == n; });
    if (it == values.end()) it = values.insert(values.end(), {name, {}});
    it->second.push_back(value);
  }
}

GroupResult finish_group(const Selection::Group& group, const std::vector<TaskResult>& tasks) {
  GroupResult out{group, 0, {}};
  std::vector<const TaskResult*> members;
  for (const std::string& leaf : group.leaves)
    for (const TaskResult& task : tasks)
      if (task.config.name == leaf) members.push_back(&task);
  for (const TaskResult* task : members) out.documents += task->documents;
  if (group.metrics.empty()) out.documents = 0;
  for (const MetricOfGroup& metric : group.metrics) {
    std::vector<std::string> filters = metric.filters;
    if (filters.empty()) {
      for (const TaskResult* task : members)
        for (const MetricResult& m : task->metrics)
          if (m.name == metric.name) filters.push_back(m.filter);
      std::sort(filters.begin(), filters.end());
      filters.erase(std::unique(filters.begin(), filters.end()), filters.end());
    }
    for (const std::string& filter : filters) {
      std::vector<PartOfGroup> parts;
      for (const TaskResult* task : members)
        for (const MetricResult& m : task->metrics)
          if (m.name == metric.name && m.filter == filter)
            parts.push_back({m.result.value, m.result.standard_error, task->documents});
      if (!parts.empty())
        out.metrics.push_back({metric.name, filter, aggregate_group(parts, metric.weight_by_size)});
    }
  }
  return out;
}

}  // namespace

PreparedTask prepare_task(const TaskConfig& config, const EvaluationOptions& options,
                          const ChatFunction& chat) {
  const std::int64_t shots = shots_of(config, options);
  if (config.runs_code) require_code_sandbox();  // before the model answers for hours
  PreparedTask out{load_task(config, shots, options.making), shots, 0, {}, config.generation, {}};
  const std::size_t all = out.task.documents().size();
  out.limit = all;
  if (options.limit)
    out.limit = static_cast<std::size_t>(
        *options.limit < 1.0 ? std::ceil(static_cast<double>(all) * *options.limit) : *options.limit);
  out.limit = std::min(out.limit, all);
  for (const auto& [key, value] : options.generation.items()) out.generation[key] = value;
  PromptOptions prompt;
  prompt.shots = shots;
  prompt.seed = options.fewshot_seed;
  prompt.system = options.system;
  prompt.multiturn = options.multiturn;
  prompt.chat = chat;
  out.requests = make_requests(out.task, prompt, out.limit);
  if (options.contamination)
    for (std::size_t document = 0; document < out.limit; ++document)
      out.in_corpus.push_back(
          options.contamination->found(config.name, static_cast<std::int64_t>(document),
                                       sha256(dumped_indented(out.task.documents()[document]))));
  return out;
}

TaskResult score_task(const PreparedTask& p, std::span<const Answer> answers,
                      const EvaluationOptions& options) {
  const TaskConfig& config = p.task.config();
  TaskResult out{config,
                 p.shots,
                 static_cast<std::int64_t>(p.limit),
                 static_cast<std::int64_t>(p.task.documents().size()),
                 {},
                 {},
                 {}};
  if (options.contamination) out.clean_documents = std::ranges::count(p.in_corpus, false);
  const auto repeats = static_cast<std::size_t>(config.repeats);
  for (const FilterSpec& spec : config.filters) {
    const FilterChain chain(spec, config.source);
    require<ConfigError>(chain.only_first() || config.output == OutputType::kGenerateUntil,
                         "{}: the filter '{}' is for generated answers", config.source, spec.name);
    std::vector<std::pair<std::string, std::vector<Json>>> values, clean;  // by metric
    for (std::size_t at = 0; at < p.requests.size();) {
      const std::size_t document = p.requests[at].document;
      std::vector<const Request*> requests;
      std::vector<std::vector<Answer>> all;
      std::vector<Answer> firsts;
      for (; at < p.requests.size() && p.requests[at].document == document; ++at) {
        requests.push_back(&p.requests[at]);
        const auto begin = answers.begin() + static_cast<std::ptrdiff_t>(at * repeats);
        all.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(repeats));
        firsts.push_back(all.back().front());
      }
      Json filtered;
      if (config.output == OutputType::kGenerateUntil) {
        std::vector<std::string> texts;
        for (const Answer& a : all.front()) texts.push_back(a.text);
        filtered = chain.apply(texts, p.task.documents()[document]);
      }
      Json metrics;
      try {
        metrics = document_metrics(p.task, p.task.documents()[document], firsts, filtered);
      } catch (const NumericsError& error) {
        fail<NumericsError>("task '{}', document {}: {}", config.name, document, error.what());
      } catch (const DataError& error) {
        fail<DataError>("task '{}', document {}: {}", config.name, document, error.what());
      }
      out.samples.push_back(sample_of(p, document, requests, all, spec.name, filtered, metrics));
      add_values(metrics, values);
      if (!options.contamination) continue;
      const bool found = p.in_corpus[document];
      out.samples.back()["in_training_corpus"] = found;
      if (!found) add_values(metrics, clean);
    }
    for (const auto& [list, ending] : {std::pair{&values, ""}, {&clean, kCleanEnding}})
      for (const auto& [name, of_metric] : *list) {
        const MetricSpec* metric = config.metric(name);
        out.metrics.push_back({name + ending, spec.name,
                               aggregate(metric ? metric->aggregation : "mean", of_metric,
                                         options.bootstrap_draws, options.threads)});
      }
  }
  return out;
}

PreparedEvaluation::PreparedEvaluation(const Selection& selection, EvaluationOptions options,
                                       const ChatFunction& chat)
    : options_(std::move(options)), groups_(selection.groups) {
  for (const TaskConfig& config : selection.tasks) tasks_.push_back(prepare_task(config, options_, chat));
  options_of_task_.reserve(tasks_.size());  // they are pointed to
  for (const PreparedTask& p : tasks_) {
    begins_.push_back(requests_.size());
    const TaskConfig& config = p.task.config();
    const bool generates = config.output == OutputType::kGenerateUntil;
    options_of_task_.push_back(generates
                                   ? generation_options(p.generation, config.source, options_.sampling_seed)
                                   : infer::GenerateOptions{});
    for (const Request& r : p.requests)
      for (std::int64_t i = 0; i < config.repeats; ++i) {
        requests_.push_back(r);
        requests_.back().number = requests_.size() - 1;
        generation_.push_back(generates ? &options_of_task_.back() : nullptr);
      }
  }
  begins_.push_back(requests_.size());
}

void PreparedEvaluation::score(const AnsweredPart& answered, Evaluation& into) const {
  std::vector<Answer> answers(requests_.size());
  require<InternalError>(answered.requests.size() == requests_.size(), "{} answers to {} requests",
                         answered.requests.size(), requests_.size());
  for (std::size_t i = 0; i < answered.requests.size(); ++i)
    answers[answered.requests[i]] = answered.answers[i];
  into.requests = requests_.size();
  into.resumed = answered.resumed;
  into.truncated = answered.truncated;
  for (std::size_t t = 0; t < tasks_.size(); ++t)
    into.tasks.push_back(
        score_task(tasks_[t], std::span(answers).subspan(begins_[t], begins_[t + 1] - begins_[t]), options_));
  for (const auto& group : groups_) into.groups.push_back(finish_group(group, into.tasks));
}

void require_number(const Answer& answer) {
  require<NumericsError>(std::isfinite(answer.log_likelihood),
                         "the model's log-likelihood of a continuation is {}: not a number",
                         answer.log_likelihood);
}

Evaluation evaluate(Answerer& answerer, const Selection& selection, const EvaluationOptions& options,
                    const Division& division, const std::function<void(double)>& progress) {
  const auto begin = std::chrono::steady_clock::now();
  EvaluationOptions own = options;
  own.making.tokens = answerer.tokens(options.scoring);
  const PreparedEvaluation prepared(selection, std::move(own), options.chat ? answerer.chat() : nullptr);
  Journal journal(options.journal, options.journal.empty() ? "" : answerer.identity(), division);
  AnsweredPart part;
  std::vector<std::size_t> open;  // places in the part that the journal does not have
  std::vector<std::string> keys;
  std::vector<Request> asked;
  std::vector<const infer::GenerateOptions*> asked_generation;
  std::map<std::string, std::size_t> copies;  // a request that is repeated is another one
  part.requests = requests_of_rank(prepared.requests(), division);
  part.answers.resize(part.requests.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < prepared.requests().size() && next < part.requests.size(); ++i) {
    std::string key = request_key(prepared.requests()[i], prepared.generation()[i], options.scoring);
    key += fmt::format("-{}", copies[key]++);
    if (i != part.requests[next]) continue;
    const std::size_t place = next++;
    if (const auto known = journal.find(key)) {
      part.answers[place] = *known;
      ++part.resumed;
      continue;
    }
    open.push_back(place);
    keys.push_back(std::move(key));
    asked.push_back(prepared.requests()[i]);
    asked_generation.push_back(prepared.generation()[i]);
  }
  Evaluation out;
  const Answerer::Facts facts =
      answerer.answer(std::move(asked), std::move(asked_generation), options.scoring,
                      [&](std::size_t i, const Answer& answer, double share) {
                        if (out.first_answer_seconds == 0) out.first_answer_seconds = seconds_since(begin);
                        require_number(answer);
                        part.answers[open[i]] = answer;
                        journal.add(keys[i], answer);
                        progress(share);
                      });
  part.truncated = facts.truncated;
  out.window = facts.window;
  out.dtype = facts.dtype;
  part = gather_parts(std::move(part), division);
  if (!division.first()) return out;
  prepared.score(part, out);
  journal.remove();
  return out;
}

}  // namespace stoa::eval
