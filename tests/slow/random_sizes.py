"""What the families of random_models.py draw alike: odd sizes, rotary parameters, windows."""


def pick(r, *values):
    return r.choice(values)


def maybe(r, value, otherwise=None, chance=0.5):
    return value if r.random() < chance else otherwise


def sizes(r, even_head=True, divisible=True, own_head=True):
    """Sizes under the names of llama. divisible: hidden_size is a multiple of the heads, which many classes check;
    own_head: head_dim is given, and may differ from the quotient."""
    heads = r.choice([1, 2, 3, 4, 5, 6])
    head = 2 * r.randint(1, 8) if even_head else r.randint(2, 16)
    hidden = heads * head
    if not divisible and own_head and r.random() < 0.4: hidden = r.randint(5, 48)
    out = dict(vocab_size=r.randint(11, 150), hidden_size=hidden, intermediate_size=r.randint(3, 90), num_hidden_layers=r.randint(1, 5),
               num_attention_heads=heads, num_key_value_heads=r.choice([k for k in range(1, heads + 1) if heads % k == 0]),
               max_position_embeddings=r.choice([48, 64, 100, 128]), tie_word_embeddings=r.random() < 0.5, bos_token_id=1, eos_token_id=2,
               pad_token_id=None)
    if own_head and (hidden % heads or r.random() < 0.6): out["head_dim"] = 2 * r.randint(1, 10) if even_head else r.randint(2, 20)
    return out


def epsilon(r):
    return r.choice([1e-6, 1e-5, 1e-3])


def head_size(options):
    return options.get("head_dim") or options["hidden_size"] // options["num_attention_heads"]


def rope(r, options, kinds=("default", "linear", "dynamic", "llama3", "yarn", "longrope"), theta=(1e4, 5e5, 1e6, 37.0), share=None, size=None):
    """rope_parameters of one of the kinds. share: partial_rotary_factor; size: channels that rotate."""
    width = size or head_size(options)
    turned = int(width * share) if share else width
    kind = r.choice(kinds)
    if kind == "dynamic" and turned <= 2: kind = "linear"  # its exponent is turned / (turned - 2)
    out = dict(rope_type=kind, rope_theta=r.choice(theta))
    if share: out["partial_rotary_factor"] = share
    positions = options["max_position_embeddings"]
    if kind != "default": out["factor"] = r.choice([1.0, 2.0, 4.0, 2.5])
    if kind in ("llama3", "yarn", "longrope"): out["original_max_position_embeddings"] = r.choice([8, 16, 33, positions])
    if kind == "llama3": out.update(low_freq_factor=r.choice([1.0, 0.5]), high_freq_factor=r.choice([4.0, 2.0]))
    if kind == "yarn":
        if r.random() < 0.4: out.update(beta_fast=r.choice([16.0, 32.0]), beta_slow=r.choice([1.0, 2.0]))
        if r.random() < 0.3: out.update(mscale=r.choice([1.0, 0.7]), mscale_all_dim=r.choice([1.0, 0.7, 0.3]))
        elif r.random() < 0.3: out["attention_factor"] = 1.3
        if r.random() < 0.3: out["truncate"] = False
    if kind == "longrope":
        if not size: options.setdefault("head_dim", width)  # which some classes take for another number than the quotient
        for key in ("short_factor", "long_factor"): out[key] = [r.choice([1.0, 1.1, 1.7, 3.0]) for _ in range((turned + 1) // 2)]
        if r.random() < 0.3: out["attention_factor"] = 1.2
    return out


def layer_types(r, layers):
    """Any mixture of full and sliding layers, some of them regular."""
    form = r.randrange(4)
    full = {0: lambda l: r.random() < 0.5, 1: lambda l: (l + 1) % 2 == 0, 2: lambda l: l < layers // 2, 3: lambda l: r.random() < 0.1}[form]
    return ["full_attention" if full(l) else "sliding_attention" for l in range(layers)]


def activation(r):
    return r.choice(["silu", "silu", "gelu", "gelu_pytorch_tanh", "relu", "gelu_new"])


def grouped_experts(r, options):
    """DeepSeek-V3's experts."""
    groups, size = r.choice([1, 1, 2, 3, 4]), r.randint(2, 4)
    chosen = r.randint(1, groups)
    options.update(n_routed_experts=groups * size, n_group=groups, topk_group=chosen, num_experts_per_tok=r.randint(1, chosen * size),
                   n_shared_experts=r.randint(1, 3), moe_intermediate_size=r.randint(2, 20), norm_topk_prob=maybe(r, True, False),
                   routed_scaling_factor=r.choice([1.0, 2.5, 0.7]), first_k_dense_replace=r.randint(0, options["num_hidden_layers"]))


def hybrid(r, options):
    """Layers of linear attention beside those of softmax attention (Qwen3-Next and Qwen3.5)."""
    options.setdefault("head_dim", head_size(options))
    keys = r.randint(1, 4)
    options.update(hidden_act=r.choice(["silu"] * 9 + ["relu"]), rms_norm_eps=epsilon(r), attention_bias=maybe(r, True, False, 0.1),
                   linear_conv_kernel_dim=r.randint(2, 5), linear_key_head_dim=r.randint(2, 12), linear_value_head_dim=r.randint(2, 12),
                   linear_num_key_heads=keys, linear_num_value_heads=keys * r.randint(1, 3))
    layers = options["num_hidden_layers"]
    if r.random() < 0.5: options["layer_types"] = [r.choice(["linear_attention", "full_attention"]) for _ in range(layers)]
    elif r.random() < 0.5: options["full_attention_interval"] = r.randint(1, 5)
    options["rope_parameters"] = rope(r, options, kinds=("default", "default", "linear", "yarn"), share=r.choice([0.25, 0.5, 1.0, 0.67]))


def hybrid_experts(r, options):
    experts = r.randint(2, 9)
    options.update(num_experts=experts, num_experts_per_tok=r.randint(1, experts), moe_intermediate_size=r.randint(2, 30),
                   shared_expert_intermediate_size=r.randint(2, 30))


def long_lines(r, config):
    """Longer than a chunk of transformers' linear attention, which has 64 tokens."""
    positions = config["max_position_embeddings"]
    return [[r.randrange(config["vocab_size"]) for _ in range(n)] for n in (r.randint(2, 40), positions)]
