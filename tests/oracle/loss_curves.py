#!/usr/bin/env python3
"""Loss curves of Stoa beside those of PyTorch: the same initial weights, batches, optimizer and schedule.

A small GPT-2 and a small Llama (4 layers of --hidden) learn a random Markov chain over 2,048 tokens. transformers writes the initial
weights, `stoa train` reads them (restore_from_path). The batches of each step are computed here again with numpy from the published
rules of Megatron's GPTDataset (one epoch), so the order of the data is checked too. Optimizer, schedule and bars: curves.py.

  python tests/oracle/loss_curves.py [--what fp32 bf16] [--models gpt2 llama] [--seeds 3] [--json FILE]

Needs: pip install torch transformers; a C++ compiler for torch.compile. Exit status 1 when a bar is missed.
"""
import numpy as np
import torch
import torch.nn.functional as F
import transformers

import curves
import oracle

VOCABULARY, LENGTH, BATCH, STEPS = 2048, 128, 8, 200
SIZE = dict(vocabulary=VOCABULARY, layers=4, heads=4, positions=LENGTH)
MODELS = {"gpt2": lambda hidden: oracle.gpt2(hidden=hidden, **SIZE),
          "llama": lambda hidden: oracle.llama_like("llama", groups=2, hidden=hidden, ffn=5 * hidden // 2, **SIZE)}


def batches(documents, steps):
    """Inputs and labels of each step: Megatron's GPTDataset with one epoch, in the order of its samples."""
    rng = np.random.RandomState(curves.DATA_SEED)
    order = np.arange(len(documents), dtype=np.int32)
    rng.shuffle(order)
    stream = np.concatenate([documents[d] for d in order])  # a sample's S + 1 tokens share one with the next
    count = (len(stream) - 1) // LENGTH
    assert len(stream) >= steps * BATCH * LENGTH + 1, "the corpus must last for one epoch"
    shuffle = np.arange(count, dtype=np.uint32)
    rng.shuffle(shuffle)
    for step in range(steps):
        rows = [stream[j * LENGTH : (j + 1) * LENGTH + 1] for j in map(int, shuffle[step * BATCH : (step + 1) * BATCH])]
        rows = torch.tensor(np.stack(rows))
        yield rows[:, :-1], rows[:, 1:]


def torch_curve(weights, documents, steps, autocast, compiled):
    model = transformers.AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32, attn_implementation="sdpa")

    def loss_of(model, batch):
        tokens, labels = batch
        return F.cross_entropy(model(input_ids=tokens, use_cache=False).logits.float().view(-1, VOCABULARY), labels.reshape(-1))

    return curves.torch_curve(model, batches(documents, steps), steps, loss_of, autocast, compiled)


def prepare(name, hidden, seed, folder, steps):
    theirs, ours = MODELS[name](hidden)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(theirs).float()
    model.save_pretrained(folder / "weights")
    documents = curves.markov_documents(steps * BATCH * LENGTH + 5000, np.random.default_rng(seed), VOCABULARY)
    oracle.write_corpus(folder / "corpus", documents)
    return ours, documents


def main():
    parser = curves.arguments(__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--hidden", type=int, default=256)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    steps = STEPS if "bf16" in args.what else 50
    for name in args.models:
        def run_of(seed, folder):
            ours, documents = prepare(name, args.hidden, seed, folder, steps)
            return lambda autocast, compiled: torch_curve(folder / "weights", documents, steps, autocast, compiled), ours, None

        found = curves.compare(args.what, curves.runs(args, BATCH, steps, run_of), not args.no_compile)
        rows += [{"model": name, **row} for row in found]
    curves.finish(rows, args.json)


if __name__ == "__main__":
    main()
