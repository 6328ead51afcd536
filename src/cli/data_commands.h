// Commands of `stoa data` that have files of their own, besides those of cli/command.h.
#pragma once

#include "cli/command.h"

namespace stoa::cli {

void add_data_collect(CLI::App& data, Context& context);
void add_data_dedup(CLI::App& data, Context& context);
void add_data_run(CLI::App& data, Context& context);
void add_data_tag(CLI::App& data, Context& context);
void add_data_decide(CLI::App& data, Context& context);
void add_data_blend(CLI::App& data, Context& context);
void add_data_train_classifier(CLI::App& data, Context& context);
void add_data_train_lm(CLI::App& data, Context& context);
void add_data_browse(CLI::App& data, Context& context);
void add_data_mix(CLI::App& data, Context& context);
void add_data_stages(CLI::App& data, Context& context);

}  // namespace stoa::cli
