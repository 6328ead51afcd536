"""Encoders for random_models.py: every token but special ones hidden in turn, as `stoa score` does."""
import torch

import random_sizes as s

LOADER = "AutoModelForMaskedLM"
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]  # padding is 1


def sizes(r, extra_positions=0):
    heads = r.randint(1, 5)
    return dict(vocab_size=r.randint(11, 150), hidden_size=heads * r.randint(1, 9), intermediate_size=r.randint(3, 90),
                num_hidden_layers=r.randint(1, 5), num_attention_heads=heads, max_position_embeddings=r.choice([48, 64]) + extra_positions,
                type_vocab_size=r.randint(1, 3), tie_word_embeddings=r.random() < 0.93, layer_norm_eps=s.epsilon(r), hidden_act=r.choice(["gelu", "gelu_new", "relu", "silu"]),
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def write_words(directory, special, vocabulary):
    """vocab.txt of a WordPiece tokenizer: the scored lines are ids, but the mask's id is asked of it."""
    words = special + [f"w{i}" for i in range(len(special), vocabulary)]
    (directory / "vocab.txt").write_text("".join(w + "\n" for w in words))


def lines(r, vocabulary):
    return [[r.randrange(5, vocabulary) for _ in range(n)] for n in (r.randint(2, 40), 33)]


def logprobs(model, lines, mask=4):
    out = []
    with torch.no_grad():
        for ids in lines:
            batch = torch.tensor([ids] * len(ids))
            batch.fill_diagonal_(mask)
            logits = model(batch).logits.double()
            out.append([torch.log_softmax(logits[i, i], -1)[t].item() for i, t in enumerate(ids)])
    return out
