// How a command joins the program: one function per command adds a CLI11 subcommand whose callback does the
// work. Results go to standard output, progress and warnings to the console (standard error); errors are
// thrown. `stoa bench gemm` is defined in cli/bench_gemm.cc, and so on.
#pragma once

namespace CLI {
class App;
}

namespace stoa {
class Console;
}

namespace stoa::cli {

class InterruptScope;

struct Context {
  Console& console;
  InterruptScope& interrupt;
};

void add_chat_command(CLI::App& app, Context& context);
void add_checkpoint_command(CLI::App& app, Context& context);
void add_checkpoint_merge(CLI::App& checkpoint, Context& context);
void add_checkpoint_prune(CLI::App& checkpoint, Context& context);
void add_compare_command(CLI::App& app, Context& context);
void add_config_command(CLI::App& app, Context& context);
void add_embed_command(CLI::App& app, Context& context);
void add_finetune_command(CLI::App& app, Context& context);
void add_generate_command(CLI::App& app, Context& context);
void add_predict_command(CLI::App& app, Context& context);
void add_schedule_command(CLI::App& app, Context& context);
void add_score_command(CLI::App& app, Context& context);
void add_serve_command(CLI::App& app, Context& context);
void add_tokenizer_command(CLI::App& app, Context& context);
void add_train_command(CLI::App& app, Context& context);

void add_bench_command(CLI::App& app, Context& context);
void add_bench_calibrate(CLI::App& bench, Context& context);
void add_bench_collectives(CLI::App& bench, Context& context);
void add_bench_decode(CLI::App& bench, Context& context);
void add_bench_device(CLI::App& bench, Context& context);
void add_bench_gemm(CLI::App& bench, Context& context);
void add_bench_ops(CLI::App& bench, Context& context);
void add_bench_masks(CLI::App& bench, Context& context);
void add_bench_pipeline(CLI::App& bench, Context& context);
void add_bench_serve(CLI::App& bench, Context& context);
void add_bench_train(CLI::App& bench, Context& context);

void add_data_command(CLI::App& app, Context& context);
void add_data_show(CLI::App& data, Context& context);

void add_eval_command(CLI::App& app, Context& context);
void add_eval_embeddings(CLI::App& eval, Context& context);
void add_eval_perplexity(CLI::App& eval, Context& context);

void add_plan_command(CLI::App& app, Context& context);
void add_plan_advise_command(CLI::App& plan, Context& context);
void add_plan_base_config_command(CLI::App& plan, Context& context);
void add_plan_calibrate_command(CLI::App& plan, Context& context);
void add_plan_inference_command(CLI::App& plan, Context& context);
void add_plan_predict_command(CLI::App& plan, Context& context);
void add_plan_search_command(CLI::App& plan, Context& context);
void add_plan_size_command(CLI::App& plan, Context& context);

}  // namespace stoa::cli
