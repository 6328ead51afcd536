// How a command joins the program: one function per command adds a CLI11 subcommand whose callback does the
// work. Results go to standard output, progress and warnings to the console (standard error); errors are
// thrown.
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

void add_tokenizer_command(CLI::App& app, Context& context);

}  // namespace stoa::cli
