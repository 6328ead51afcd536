// `stoa bench`: figures next to the machine's own peak.
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/serving_commands.h"

namespace stoa::cli {

void add_bench_command(CLI::App& app, Context& context) {
  CLI::App* bench = app.add_subcommand("bench", "Figures next to the machine's own peak");
  bench->require_subcommand(1);
  add_bench_gemm(*bench, context);
  add_bench_device(*bench, context);
  add_bench_ops(*bench, context);
  add_bench_train(*bench, context);
  add_bench_decode(*bench, context);
  add_bench_engine(*bench, context);
  add_bench_serve(*bench, context);
  add_bench_masks(*bench, context);
  add_bench_pipeline(*bench, context);
  add_bench_collectives(*bench, context);
  add_bench_calibrate(*bench, context);
}

}  // namespace stoa::cli
