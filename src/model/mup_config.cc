#include "model/mup_config.h"

#include "base/error.h"

namespace stoa::model {

void declare_mup(config::Section<MupConfig>& s) {
  using C = MupConfig;
  s.field("use_mup", &C::use_mup)
      .help(
          "Maximal update parametrisation: learning rates found at mup_base_hidden_size are right at every "
          "width. Matrices of the layers start smaller and learn slower the wider they are, logits are "
          "divided by the width, and scores by the size of a head instead of its root.");
  s.field("mup_base_hidden_size", &C::mup_base_hidden_size)
      .range(1, 1 << 20)
      .help("hidden_size at which the learning rate was found.");
  s.field("mup_base_head_dim", &C::mup_base_head_dim)
      .above(0)
      .help(
          "Size of a head at which scores are divided by its root, as without use_mup: elsewhere by size / "
          "root of this. null: 1.");
  s.field("mup_output_mult", &C::mup_output_mult).above(0).help("Factor of the logits, at every width.");
  s.validate({"use_mup", "mup_base_hidden_size", "mup_base_head_dim", "mup_output_mult"}, [](const C& c) {
    require<ConfigError>(
        !c.use_mup || c.mup_base_hidden_size,
        "use_mup needs mup_base_hidden_size, the width at which the learning rate was found");
    require<ConfigError>(
        c.use_mup || (!c.mup_base_hidden_size && !c.mup_base_head_dim && c.mup_output_mult == 1),
        "mup_base_hidden_size, mup_base_head_dim and mup_output_mult count only with use_mup");
  });
}

}  // namespace stoa::model
