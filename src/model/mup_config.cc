#include "model/mup_config.h"

#include "base/error.h"

namespace stoa::model {

void declare_mup(config::Section<MupConfig>& s) {
  using C = MupConfig;
  s.field("use_mup", &C::use_mup)
      .help(
          "Maximal update parametrisation: a learning rate tuned at mup_base_hidden_size is right at every "
          "width. Wider matrices have smaller initial values and learning rates, logits are divided by the "
          "width, and attention scores by the head size instead of its square root.");
  s.field("mup_base_hidden_size", &C::mup_base_hidden_size)
      .range(1, 1 << 20)
      .help("hidden_size at which the learning rate was tuned.");
  s.field("mup_base_head_dim", &C::mup_base_head_dim)
      .above(0)
      .help(
          "Head size at which scores are divided by its square root, as without use_mup; other sizes: by "
          "size / square root of this. null: 1.");
  s.field("mup_output_mult", &C::mup_output_mult).above(0).help("Factor of the logits, at every width.");
  s.validate({"use_mup", "mup_base_hidden_size", "mup_base_head_dim", "mup_output_mult"}, [](const C& c) {
    require<ConfigError>(
        !c.use_mup || c.mup_base_hidden_size,
        "use_mup needs mup_base_hidden_size, the width at which the learning rate was tuned");
    require<ConfigError>(
        c.use_mup || (!c.mup_base_hidden_size && !c.mup_base_head_dim && c.mup_output_mult == 1),
        "mup_base_hidden_size, mup_base_head_dim and mup_output_mult are used only with use_mup");
  });
}

}  // namespace stoa::model
