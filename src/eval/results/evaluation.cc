#include "eval/results/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/timing.h"
#include "chat/chat_template.h"
#include "eval/metrics/document_metrics.h"
#include "eval/metrics/filters.h"
#include "eval/results/journal.h"
#include "eval/results/sha256.h"

namespace stoa::eval {
namespace {

std::int64_t shots_of(const TaskConfig& config, const EvaluationOptions& options) {
  if (config.num_fewshot == 0) return 0;  // as the harness: not overwritten
  return options.num_fewshot.value_or(config.num_fewshot.value_or(0));
}

// Messages to text by the model's own template, as the harness asks transformers for it.
std::function<std::string(const Json&, bool)> chat_of(infer::OpenModel& model) {
  const token::Tokenizer& tokenizer = model.tokenizer();
  require<ConfigError>(!tokenizer.chat_template().empty(),
                       "--apply_chat_template: the model has no chat template");
  auto chat = std::make_shared<const chat::ChatTemplate>(tokenizer.chat_template());
  chat::RenderOptions base;
  const auto name = [&](const char* key, std::optional<token::TokenId> id) {
    if (id) base.variables[key] = tokenizer.id_to_token(*id);
  };
  name("bos_token", tokenizer.bos_id());
  name("eos_token", tokenizer.eos_id());
  name("unk_token", tokenizer.unk_id());
  name("pad_token", tokenizer.pad_id());
  return [chat, base](const Json& messages, bool open) {
    chat::RenderOptions options = base;
    options.add_generation_prompt = !open;
    const auto rendered = [&](const Json& all) {
      try {
        return chat->render(all, options);
      } catch (const chat::TemplateError&) {
        Json without = Json::array();  // templates without system messages
        for (const Json& m : all)
          if (m["role"] != "system") without.push_back(m);
        if (without.size() == all.size()) throw;
        return chat->render(without, options);
      }
    };
    if (!open) return rendered(messages);
    // The answer's beginning is marked, and the text ends at the mark.
    constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG";
    Json marked = messages;
    marked.back()["content"] = messages.back()["content"].get<std::string>() + std::string(kMark) + " ";
    const std::string text = rendered(marked);
    const std::size_t at = text.rfind(kMark);
    require<DataError>(at != std::string::npos, "the chat template leaves the beginning of the answer out");
    const std::size_t behind = at + kMark.size();
    return behind < text.size() && text[behind] == ' '
               ? text.substr(0, at)
               : std::string(strip_right(std::string_view(text).substr(0, at)));
  };
}

Json written_answer(const Task& task, const Answer& a) {
  switch (task.config().output) {
    case OutputType::kGenerateUntil:
      return a.text;
    case OutputType::kLoglikelihoodRolling:
      return str_of(a.log_likelihood);
    default:
      return Json::array({str_of(a.log_likelihood), a.greedy ? "True" : "False"});
  }
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
    for (const Answer& one : answers[i]) repeats.push_back(written_answer(task, one));
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
                          const std::function<std::string(const Json&, bool)>& chat) {
  const std::int64_t shots = shots_of(config, options);
  PreparedTask out{load_task(config, shots, options.data), shots, 0, {}, config.generation};
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
                 {}};
  const auto repeats = static_cast<std::size_t>(config.repeats);
  for (const FilterSpec& spec : config.filters) {
    const FilterChain chain(spec, config.source);
    require<ConfigError>(chain.only_first() || config.output == OutputType::kGenerateUntil,
                         "{}: the filter '{}' is for generated answers", config.source, spec.name);
    std::vector<std::pair<std::string, std::vector<Json>>> values;  // by metric
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
      for (const auto& [name, value] : metrics.items()) {
        auto it =
            std::find_if(values.begin(), values.end(), [&, n = name](const auto& v) { return v.first == n; });
        if (it == values.end()) it = values.insert(values.end(), {name, {}});
        it->second.push_back(value);
      }
    }
    for (const auto& [name, list] : values) {
      const MetricSpec* metric = config.metric(name);
      out.metrics.push_back(
          {name, spec.name,
           aggregate(metric ? metric->aggregation : "mean", list, options.bootstrap_draws, options.threads)});
    }
  }
  return out;
}

Evaluation evaluate(infer::OpenModel& model, const Selection& selection, const EvaluationOptions& options,
                    const std::function<void(double)>& progress) {
  const auto begin = std::chrono::steady_clock::now();
  const auto chat = options.chat ? chat_of(model) : nullptr;
  std::vector<PreparedTask> prepared;
  for (const TaskConfig& config : selection.tasks) prepared.push_back(prepare_task(config, options, chat));
  // The requests of all tasks together, each `repeats` times.
  std::vector<Request> all;
  std::vector<GenerationOptions> generation;
  generation.reserve(prepared.size());
  std::vector<const GenerationOptions*> of_request;
  std::vector<std::size_t> begins;  // of each task's requests
  for (const PreparedTask& p : prepared) {
    begins.push_back(all.size());
    const bool generates = p.task.config().output == OutputType::kGenerateUntil;
    generation.push_back(generates
                             ? generation_options(p.generation, p.task.config().source, options.sampling_seed)
                             : GenerationOptions{});
    for (const Request& r : p.requests)
      for (std::int64_t i = 0; i < p.task.config().repeats; ++i) {
        all.push_back(r);
        all.back().number = all.size() - 1;
        of_request.push_back(generates ? &generation.back() : nullptr);
      }
  }
  Journal journal(options.journal, model);
  std::vector<Answer> answers(all.size());
  std::vector<std::size_t> open;  // those that the journal does not have
  std::vector<std::string> keys;
  std::vector<Request> asked;
  std::vector<const GenerationOptions*> asked_generation;
  std::map<std::string, std::size_t> copies;  // a request that is repeated is another one
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string key = request_key(all[i], of_request[i], options.scoring);
    key += fmt::format("-{}", copies[key]++);
    if (const auto known = journal.find(key)) {
      answers[i] = *known;
      continue;
    }
    open.push_back(i);
    keys.push_back(std::move(key));
    asked.push_back(all[i]);
    asked_generation.push_back(of_request[i]);
  }
  Evaluation out;
  out.requests = all.size();
  out.resumed = all.size() - open.size();
  Scorer scorer(model, std::move(asked), std::move(asked_generation), options.scoring);
  out.truncated = scorer.truncated();
  out.window = scorer.window();
  out.dtype = name_of(scorer.dtype());
  scorer.run([&](std::size_t i, const Answer& answer, double share) {
    if (out.first_answer_seconds == 0) out.first_answer_seconds = seconds_since(begin);
    require<NumericsError>(std::isfinite(answer.log_likelihood),
                           "the model's log-likelihood of a continuation is {}: not a number",
                           answer.log_likelihood);
    answers[open[i]] = answer;
    journal.add(keys[i], answer);
    progress(share);
  });
  begins.push_back(all.size());
  for (std::size_t t = 0; t < prepared.size(); ++t)
    out.tasks.push_back(
        score_task(prepared[t], std::span(answers).subspan(begins[t], begins[t + 1] - begins[t]), options));
  for (const auto& group : selection.groups) out.groups.push_back(finish_group(group, out.tasks));
  journal.remove();
  return out;
}

}  // namespace stoa::eval
