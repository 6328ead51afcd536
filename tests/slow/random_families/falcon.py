import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    groups = o.pop("num_key_value_heads")
    grouped = s.maybe(r, True, False)
    o.update(ffn_hidden_size=o.pop("intermediate_size"), activation=r.choice(["gelu", "relu"]), layer_norm_epsilon=s.epsilon(r),
             bias=s.maybe(r, True, False), new_decoder_architecture=grouped, num_kv_heads=groups if grouped else None,
             multi_query=s.maybe(r, True, False), parallel_attn=grouped or s.maybe(r, True, False), alibi=s.maybe(r, True, False, 0.1))
    if grouped: o["num_ln_in_parallel_attn"] = r.choice([None, 1, 2])
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear", "dynamic")))


REFUSALS = {"alibi true": "ALiBi biases rounded to bf16"}
