// Tasks of one subject each over one data set: which documents are a task's (process_docs).
#pragma once

#include <string>

#include "eval/tasks/functions.h"

namespace stoa::eval {

// "MODULE.process_SUBJECT" of Global-MMLU, INCLUDE and MMLU-Pro; those of BIG-bench and EusExams that leave
// out documents without an answer among choices. None: another name.
DocumentsFunction document_filter(const std::string& name);

}  // namespace stoa::eval
