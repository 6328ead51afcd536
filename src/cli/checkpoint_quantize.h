// `stoa checkpoint quantize MODEL --format F --output PATH`.
#pragma once

namespace CLI {
class App;
}

namespace stoa::cli {

struct Context;

void add_checkpoint_quantize(CLI::App& checkpoint, Context& context);

}  // namespace stoa::cli
