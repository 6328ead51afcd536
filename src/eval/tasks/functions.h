// The functions of tasks that lm-evaluation-harness writes in Python and Stoa has built in. A YAML file names
// one as `!function MODULE.NAME`. Where MODULE.py lies next to the file, it must be the one that the built-in
// function was checked against: another one's functions are not guessed.
#pragma once

#include <vector>

#include "eval/tasks/task_yaml.h"

namespace stoa::eval {

using DocFunction = Json (*)(const Json& doc);
// `answers`: [[log-likelihood, greedy], …], [log-likelihood] or [text]; metric by metric.
using ResultFunction = Json (*)(const Json& doc, const Json& answers);

// ConfigError: a function that is not built in, or in a file that is not known.
DocFunction doc_function(const Json& function, const std::string& source);
ResultFunction result_function(const Json& function, const std::string& source);

}  // namespace stoa::eval
