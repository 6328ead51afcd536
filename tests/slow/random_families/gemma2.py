import random_sizes as s


def options(r):
    o = s.sizes(r)
    o.setdefault("head_dim", s.head_size(o))
    o.update(hidden_activation=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             query_pre_attn_scalar=r.choice([3, 16, 256]), sliding_window=r.randint(1, 30),
             attn_logit_softcapping=s.maybe(r, r.choice([2.0, 50.0])), final_logit_softcapping=s.maybe(r, r.choice([3.0, 30.0])))
    if r.random() < 0.5: o["layer_types"] = s.layer_types(r, o["num_hidden_layers"])
    if r.random() < 0.05: o["use_bidirectional_attention"] = True
    return dict(o, rope_parameters=s.rope(r, o))


REFUSALS = {"use_bidirectional_attention": "bidirectional attention"}
