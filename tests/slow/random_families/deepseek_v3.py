import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    o.pop("num_key_value_heads")
    groups = r.choice([1, 1, 2, 3, 4])
    size = r.randint(2, 4)
    chosen_groups = r.randint(1, groups)
    nope, rotated = r.randint(1, 10), 2 * r.randint(1, 5)
    o.update(num_key_value_heads=o["num_attention_heads"], hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r),
             attention_bias=s.maybe(r, True, False), n_routed_experts=groups * size, n_group=groups, topk_group=chosen_groups,
             num_experts_per_tok=r.randint(1, chosen_groups * size), n_shared_experts=r.randint(1, 3), moe_intermediate_size=r.randint(2, 20),
             norm_topk_prob=s.maybe(r, True, False), routed_scaling_factor=r.choice([1.0, 2.5, 0.7]),
             first_k_dense_replace=r.randint(0, o["num_hidden_layers"]), q_lora_rank=s.maybe(r, r.randint(2, 20)),
             kv_lora_rank=r.randint(2, 20), qk_nope_head_dim=nope, qk_rope_head_dim=rotated, v_head_dim=r.randint(1, nope + rotated),
             rope_interleave=s.maybe(r, True, False, 0.7))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "yarn", "linear", "llama3"), size=rotated))


def respell(config, r):
    if r.random() < 0.3: config["moe_layer_freq"] = 1
    if r.random() < 0.3: config.update(scoring_func="sigmoid", topk_method="noaux_tc", num_nextn_predict_layers=1)
    return config
