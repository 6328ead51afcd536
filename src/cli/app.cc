#include "cli/app.h"

#include <CLI/CLI.hpp>

#include "cli/number_checks.h"

namespace stoa::cli {

std::unique_ptr<CLI::App> make_app(Context& context) {
  auto app = std::make_unique<CLI::App>(
      "Stoa prepares text, trains, evaluates, plans and runs large language models.", "stoa");
  app->require_subcommand(1);
  app->set_version_flag("--version", std::string(version()));
  add_tokenizer_command(*app, context);
  add_data_command(*app, context);
  add_train_command(*app, context);
  add_finetune_command(*app, context);
  add_chat_command(*app, context);
  add_serve_command(*app, context);
  add_generate_command(*app, context);
  add_score_command(*app, context);
  add_embed_command(*app, context);
  add_predict_command(*app, context);
  add_eval_command(*app, context);
  add_checkpoint_command(*app, context);
  add_plan_command(*app, context);
  add_schedule_command(*app, context);
  add_bench_command(*app, context);
  add_compare_command(*app, context);
  add_config_command(*app, context);
  complete_options(*app);
  return app;
}

}  // namespace stoa::cli
