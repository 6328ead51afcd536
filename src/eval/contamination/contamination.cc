#include "eval/contamination/contamination.h"

#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "curate/text/compared_words.h"
#include "eval/data/documents.h"
#include "eval/results/sha256.h"
#include "token/stream_decoder.h"

namespace stoa::eval {

std::string sought_text(const Task& task, const Json& document) {
  const Json& keys = task.config().as_written;
  if (const auto query = keys.find("doc_to_decontamination_query");
      query != keys.end() && query->is_string() && !query->get<std::string>().empty()) {
    std::vector<std::string> fields;
    for (const auto& [name, value] : document.items()) fields.push_back(name);
    return DocField(*query, fields, task.config().source, "doc_to_decontamination_query").rendered(document);
  }
  const Task::Fields& fields = task.fields();
  std::string question = fields.text.given() ? str_of(fields.text.text(document, task.has_choices())) : "";
  Json answer = fields.target.target(document, task.has_choices());
  if (task.has_choices()) {
    const Json choices = fields.choice.choices(document);
    const Json gold = task.contexts_differ() ? fields.text.text(document, true) : answer;
    const bool known = gold.is_number_integer() && gold >= 0 && gold.get<std::size_t>() < choices.size();
    const std::string choice = known ? choices[gold.get<std::size_t>()].get<std::string>() : "";
    if (task.contexts_differ())
      question = choice;  // the right beginning, with the end that all share
    else if (gold.is_number_integer())
      answer = choice;
  }
  if (answer.is_array()) answer = answer.empty() ? Json("") : answer[0];
  return question + " " + str_of(answer);
}

std::vector<std::string> ContaminationSearch::sequences_of(std::string_view text) const {
  std::vector<std::string> words;
  for (curate::ComparedWord& word : curate::compared_words(token::replace_invalid_utf8(text)))
    if (!word.normal.empty()) words.push_back(std::move(word.normal));
  return words;
}

void ContaminationSearch::add(const Task& task) {
  const std::vector<Json>& documents = task.documents();
  for (std::size_t i = 0; i < documents.size(); ++i)
    add(task.config().name, static_cast<std::int64_t>(i), sha256(dumped_indented(documents[i])),
        sought_text(task, documents[i]));
}

void ContaminationSearch::add(std::string task, std::int64_t document, std::string hash,
                              std::string_view text) {
  const std::size_t number = documents_.size();
  SoughtDocument& sought =
      documents_.emplace_back(SoughtDocument{std::move(task), document, std::move(hash), 0, 0, ""});
  curate::each_ngram(sequences_of(text), words_, [&](std::uint64_t sequence, std::size_t) {
    std::vector<std::size_t>& holders = sequences_[sequence].documents;
    if (holders.empty() || holders.back() != number) {
      holders.push_back(number);
      ++sought.sequences;
    }
    return true;
  });
}

void ContaminationSearch::look_into(std::string_view text, const std::string& place) {
  curate::each_ngram(sequences_of(text), words_, [&](std::uint64_t sequence, std::size_t) {
    const auto it = sequences_.find(sequence);
    if (it == sequences_.end() || std::exchange(it->second.found, true)) return true;
    for (const std::size_t holder : it->second.documents) {
      SoughtDocument& document = documents_[holder];
      if (document.found++ == 0) document.place = place;
    }
    return true;
  });
}

bool Contamination::found(const std::string& task, std::int64_t document, const std::string& hash) const {
  const auto it = tasks.find(task);
  if (it == tasks.end()) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : tasks) names.push_back(name);
    fail<DataError>("--contamination: the task '{}' was not looked for{}", task, did_you_mean(task, names));
  }
  require<DataError>(it->second.sought.contains(hash),
                     "--contamination: document {} of '{}' was not looked for: it is of other data", document,
                     task);
  return it->second.found.contains(hash);
}

void write_contamination(const fs::path& path, const std::vector<SoughtDocument>& documents) {
  AtomicFile file(path);
  for (const SoughtDocument& d : documents) {
    Json line{{"task", d.task},       {"doc_id", d.document},     {"doc_hash", d.hash},
              {"found", d.found > 0}, {"sequences", d.sequences}, {"sequences_found", d.found}};
    if (d.found > 0) line["place"] = d.place;
    file.write(dumped(line) + "\n");
  }
  file.commit();
}

Contamination read_contamination(const fs::path& path) {
  Contamination out;
  each_json_line(path, [&](const Json& line) {
    try {
      Contamination::OfTask& task = out.tasks[line.at("task").get<std::string>()];
      const std::string hash = line.at("doc_hash");
      task.sought.insert(hash);
      if (line.at("found").get<bool>()) task.found.insert(hash);
    } catch (const Json::exception& error) {
      fail<DataError>("{}: not a line of stoa eval contamination: {}", path.string(), error.what());
    }
  });
  require<DataError>(!out.tasks.empty(), "{}: no document", path.string());
  return out;
}

}  // namespace stoa::eval
