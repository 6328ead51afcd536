import torch

import random_sizes as s

LOADER = "AutoModelForSeq2SeqLM"


def options(r):
    buckets = 2 * r.randint(2, 10)
    return dict(vocab_size=r.randint(11, 150), d_model=r.randint(4, 40), d_kv=r.randint(2, 12), d_ff=r.randint(3, 70),
                num_layers=r.randint(1, 4), num_decoder_layers=r.randint(1, 4), num_heads=r.randint(1, 5),
                relative_attention_num_buckets=buckets, relative_attention_max_distance=buckets + r.randint(1, 100),
                feed_forward_proj=r.choice(["relu", "gated-gelu", "gated-silu", "gelu"]), layer_norm_epsilon=s.epsilon(r), dropout_rate=0.0,
                tie_word_embeddings=s.maybe(r, True, False), decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)


def lines(r, config):
    return [([r.randrange(2, config["vocab_size"]) for _ in range(r.randint(1, 40))], [r.randrange(1, config["vocab_size"]) for _ in range(n)])
            for n in (r.randint(1, 30), 17)]


def text(lines):
    return "".join("\t".join(" ".join(map(str, ids)) for ids in pair) + "\n" for pair in lines)


def logprobs(model, lines):
    out = []
    with torch.no_grad():
        for source, target in lines:
            logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[0] + target[:-1]])).logits[0].double()
            out.append(torch.log_softmax(logits, -1).gather(1, torch.tensor(target)[:, None])[:, 0].tolist())
    return out
