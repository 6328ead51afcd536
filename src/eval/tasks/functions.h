// The functions of tasks that lm-evaluation-harness writes in Python and Stoa has built in. A YAML file names
// one as `!function MODULE.NAME`. Where MODULE.py lies next to the file, it must be the one that the built-in
// function was checked against: another one's functions are not guessed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "eval/tasks/task_yaml.h"

namespace stoa::eval {

using DocFunction = Json (*)(const Json& doc);
// Changes all documents, in order (process_docs with a state: choices that are shuffled), or leaves some out.
using DocumentsFunction = std::function<void(std::vector<Json>& docs, std::uint64_t python_seed)>;
// `answers`: [[log-likelihood, greedy], …], [log-likelihood] or [text]; metric by metric.
using ResultFunction = Json (*)(const Json& doc, const Json& answers);
// A list of answers to a list of what they stand for (filter_list: custom).
using FilterFunction = Json (*)(const Json& answers, const Json& doc);
// A number, or numbers by metric. `answer`: what the filters leave; `arguments`: further keys of the metric.
using MetricFunction = Json (*)(const Json& gold, const Json& answer, const Json& arguments);

// ConfigError: a function that is not built in, or in a file that is not known.
DocFunction doc_function(const Json& function, const std::string& source);
// Empty: the function is none of these. Errors as doc_function.
DocumentsFunction documents_function(const Json& function, const std::string& source);
ResultFunction result_function(const Json& function, const std::string& source);
FilterFunction filter_function(const Json& function, const std::string& source);
MetricFunction metric_function(const Json& function, const std::string& source);
// Documents that are made (custom_dataset); the name of the maker, which ruler_maker knows.
std::string maker_of_documents(const Json& function, const std::string& source);
// Documents for shots.
Json made_samples(const Json& function, const std::string& source);
// Names that aggregate() and FilterChain know.
std::string aggregation_by_function(const Json& function, const std::string& source);
std::string filter_by_class(const Json& function, const std::string& source);
// The keys of a task that is a class of Python, as a YAML file would have them.
Json task_by_class(const Json& function, const std::string& source);

}  // namespace stoa::eval
