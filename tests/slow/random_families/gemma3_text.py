import random_sizes as s


def options(r):
    o = s.sizes(r)
    o.setdefault("head_dim", s.head_size(o))
    o.update(hidden_activation=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             query_pre_attn_scalar=r.choice([3, 16, 256]), sliding_window=r.randint(1, 30),
             final_logit_softcapping=s.maybe(r, r.choice([3.0, 30.0])), attn_logit_softcapping=s.maybe(r, 2.0))
    o["layer_types"] = s.layer_types(r, o["num_hidden_layers"])
    if r.random() < 0.2: o["layer_types"] = ["full_attention"] * o["num_hidden_layers"]
    if r.random() < 0.05: o["use_bidirectional_attention"] = True
    return dict(o, rope_parameters=dict(full_attention=s.rope(r, o, kinds=("default", "linear", "yarn")),
                                        sliding_attention=dict(rope_type="default", rope_theta=r.choice([100.0, 1e4]))))


REFUSALS = {"use_bidirectional_attention": "bidirectional attention"}
