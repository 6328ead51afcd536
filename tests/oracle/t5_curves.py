#!/usr/bin/env python3
"""Loss curves of T5 1.1 beside those of PyTorch: the same initial weights, spans, optimizer and schedule; 200 steps in fp32 and in bf16.

A small model (3 + 3 layers of --hidden) learns span corruption on a random Markov chain. transformers writes the initial weights,
`stoa train` reads them (restore_from_path). The samples of each step are computed here again with numpy from the published rules
(texts: Megatron's GPTDataset; spans: Raffel et al. 2020), so the data is checked too. Optimizer, schedule and bars: curves.py.

  python tests/oracle/t5_curves.py [--what fp32 bf16] [--seeds 3] [--json FILE]

Needs: pip install torch transformers; a C++ compiler for torch.compile. Exit status 1 when a bar is missed.
"""
import numpy as np
import torch
import torch.nn.functional as F
import transformers

import curves
import oracle

VOCABULARY, SOURCE, TARGET, BATCH, STEPS, SENTINELS = 2048, 64, 24, 8, 200, 20
DENSITY, MEAN, EOS, START = 0.15, 3, 1, 0


def span_lengths(tokens):
    noise = min(max(round(tokens * DENSITY), 1), tokens - 1)
    return noise, min(max(round(noise / MEAN), 1), tokens - noise)


def text_length():
    """The longest text whose source fits."""
    best, tokens = 0, 2
    while True:
        noise, spans = span_lengths(tokens)
        source = tokens - noise + spans + 1
        if source > SOURCE and tokens > SOURCE: return best
        if source <= SOURCE: best = tokens
        tokens += 1


def random_lengths(total, parts, rng):
    ends = np.zeros(total - 1, np.uint8)
    ends[: parts - 1] = 1
    rng.shuffle(ends)
    out = [1]
    for end in ends:
        if end: out.append(1)
        else: out[-1] += 1
    return out


def pair_of(text, sample, sentinels):
    rng = np.random.RandomState((curves.DATA_SEED + sample) % 2**32)
    noise, spans = span_lengths(len(text))
    hidden = random_lengths(noise, spans, rng)
    kept = random_lengths(len(text) - noise, spans, rng)
    source, target, at = [], [], 0
    for s in range(spans):
        source += [*text[at : at + kept[s]], sentinels[s]]
        at += kept[s]
        target += [sentinels[s], *text[at : at + hidden[s]]]
        at += hidden[s]
    return source + [EOS], target + [EOS]


def batches(documents, sentinels):
    rng = np.random.RandomState(curves.DATA_SEED)
    order = np.arange(len(documents), dtype=np.int32)
    rng.shuffle(order)
    stream = np.concatenate([documents[d] for d in order])
    length = text_length()
    shuffle = np.arange(len(stream) // length, dtype=np.uint32)
    assert len(shuffle) >= STEPS * BATCH, "the corpus must last for one epoch"
    rng.shuffle(shuffle)
    for step in range(STEPS):
        pairs = [pair_of(stream[j * length : (j + 1) * length].tolist(), step * BATCH + i, sentinels)
                 for i, j in enumerate(map(int, shuffle[step * BATCH : (step + 1) * BATCH]))]
        sources = torch.tensor([s + [START] * (SOURCE - len(s)) for s, _ in pairs])
        mask = torch.tensor([[int(i < len(s)) for i in range(SOURCE)] for s, _ in pairs])
        labels = torch.tensor([t + [-100] * (TARGET - len(t)) for _, t in pairs])
        yield {"input_ids": sources, "attention_mask": mask, "labels": labels}


def torch_curve(weights, documents, sentinels, autocast, compiled):
    model = transformers.T5ForConditionalGeneration.from_pretrained(weights, dtype=torch.float32)

    def loss_of(model, batch):
        logits = model(**batch, use_cache=False).logits
        return F.cross_entropy(logits.float().flatten(0, 1), batch["labels"].flatten())

    return curves.torch_curve(model, batches(documents, sentinels), STEPS, loss_of, autocast, compiled)


def prepare(args, seed, folder):
    """Writes tokenizer, corpus and initial weights: documents, ids of the sentinels, the model in the words of Stoa."""
    (folder / "words.txt").write_text("the quick brown fox jumps over the lazy dog while seven rivers carry their stones to the sea and an owl sleeps\n" * 50)
    oracle.call(args.stoa, "tokenizer", "train", folder / "words.txt", "--kind", "unigram", "--vocab-size", 40, "--sentinels", SENTINELS,
                "--output", folder / "pieces")
    # States of the chain: ids that are no pieces.
    documents = [d + 60 for d in curves.markov_documents(STEPS * BATCH * text_length() + 5000, np.random.default_rng(seed), VOCABULARY - 60)]
    oracle.write_corpus(folder / "corpus", documents)
    torch.manual_seed(seed)
    hidden = args.hidden
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=hidden, d_kv=hidden // 4, d_ff=2 * hidden, num_layers=3, num_heads=4,
                                   dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                                   relative_attention_num_buckets=8, relative_attention_max_distance=20, decoder_start_token_id=START)
    initial = transformers.T5ForConditionalGeneration(config).float()
    # transformers 5 ties the head all the same.
    initial.lm_head.weight = torch.nn.Parameter(hidden**-0.5 * torch.randn(VOCABULARY, hidden))
    initial.save_pretrained(folder / "weights")
    ours = {"kind": "t5", "num_layers": 6, "hidden_size": hidden, "kv_channels": hidden // 4, "ffn_hidden_size": 2 * hidden,
            "num_attention_heads": 4, "encoder_seq_length": SOURCE, "position_embedding_type": "relative", "normalization": "rmsnorm",
            "layernorm_epsilon": 1e-6, "activation": "geglu_tanh", "bias": "none", "tokenizer": str(folder / "pieces"),
            "share_embeddings_and_output_weights": False, "vocab_size": VOCABULARY,
            "t5": {"seq_length_dec": TARGET, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}}
    return documents, [40 + SENTINELS - 1 - i for i in range(SENTINELS)], ours


def main():
    parser = curves.arguments(__doc__)
    parser.add_argument("--hidden", type=int, default=96)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    def run_of(seed, folder):
        documents, sentinels, ours = prepare(args, seed, folder)
        return lambda autocast, compiled: torch_curve(folder / "weights", documents, sentinels, autocast, compiled), ours, None

    curves.finish(curves.compare(args.what, curves.runs(args, BATCH, STEPS, run_of), not args.no_compile), args.json)


main()
