import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    groups = r.choice([1, 1, 2, 3])
    size = r.randint(2, 4)
    nope, rotated = 2 * r.randint(1, 5), 2 * r.randint(1, 5)  # even: transformers rotates complex numbers
    method = r.choice(["greedy", "greedy", "group_limited_greedy"])
    chosen_groups = r.randint(1, groups)
    o.update(num_key_value_heads=o["num_attention_heads"], hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r),
             attention_bias=s.maybe(r, True, False), n_routed_experts=groups * size, n_group=groups, topk_group=chosen_groups,
             topk_method=method, num_experts_per_tok=r.randint(1, chosen_groups * size), n_shared_experts=r.randint(1, 3),
             moe_intermediate_size=r.randint(2, 20), routed_scaling_factor=r.choice([1.0, 2.5, 0.7]),
             first_k_dense_replace=r.randint(0, o["num_hidden_layers"]), q_lora_rank=s.maybe(r, r.randint(2, 20)),
             kv_lora_rank=2 * r.randint(1, 10), qk_nope_head_dim=nope, qk_rope_head_dim=rotated, v_head_dim=r.randint(1, nope + rotated),
             norm_topk_prob=s.maybe(r, True, False))
    if r.random() < 0.1: o["mlp_bias"] = True
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear"), size=rotated))


REFUSALS = {"mlp_bias": "biases in dense layers but not in experts",
            "topk_method": "groups selected by their best expert only"}
