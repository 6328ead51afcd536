// Questions in African languages: AfriMMLU and AfriXNLI (Adelani et al. 2024), with the harness's prompts.
#pragma once

#include <map>
#include <string>

#include "eval/tasks/functions.h"

namespace stoa::eval {

const std::map<std::string, DocFunction>& afrobench_functions();

}  // namespace stoa::eval
