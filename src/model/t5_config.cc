#include "model/t5_config.h"

namespace stoa::model {

void declare_t5(config::Section<T5Config>& s) {
  using C = T5Config;
  s.field("encoder_layers", &C::encoder_layers)
      .range(1, 1'000'000)
      .help("Layers of num_layers that belong to the encoder, the others to the decoder (null: half).");
  s.field("seq_length_dec", &C::seq_length_dec)
      .range(1, 1 << 20)
      .help("Tokens of the target of a sample; those of the source: encoder_seq_length.");
  s.field("relative_attention_num_buckets", &C::relative_attention_num_buckets)
      .range(4, 65536)
      .help("With position_embedding_type relative: buckets of distances, each with a bias per head.");
  s.field("relative_attention_max_distance", &C::relative_attention_max_distance)
      .range(2, 1 << 20)
      .help("With position_embedding_type relative: all distances from here on share a bucket.");
  s.field("relative_bias_per_layer", &C::relative_bias_per_layer)
      .help(
          "With position_embedding_type relative: each layer has its own biases (umT5); false: a stack "
          "shares them.");
  s.field("scale_attention", &C::scale_attention)
      .help("Divide attention scores by the square root of the head size: NeMo's models, not T5.");
  s.field("scale_decoder_outputs", &C::scale_decoder_outputs)
      .help("Multiply the decoder's output by hidden_size^-0.5 before the head: T5 1.0 with its tied head.");
}

}  // namespace stoa::model
