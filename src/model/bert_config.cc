#include "model/bert_config.h"

namespace stoa::model {

void declare_bert(config::Section<BertConfig>& s) {
  using C = BertConfig;
  s.field("num_token_types", &C::num_token_types)
      .range(1, 65536)
      .help("Types of tokens, which tell the segments of a pair apart.");
  s.field("lm_head", &C::lm_head)
      .help("The head that predicts masked tokens; without it the model can but embed.");
  s.field("binary_head", &C::binary_head)
      .help("Train the question whether the second segment follows the first.");
  s.field("first_position", &C::first_position)
      .range(0, 65536)
      .help("Row of the position table that the first token has: 2 in RoBERTa.");
}

}  // namespace stoa::model
