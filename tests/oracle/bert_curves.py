#!/usr/bin/env python3
"""Loss curves of BERT beside those of PyTorch: the same initial weights, samples, optimizer and schedule; 200 steps in fp32 and in bf16.

A small model (3 layers of --hidden) learns masked tokens and the sentence question on a random Markov chain cut into sentences.
transformers writes the initial weights, `stoa train` reads them (restore_from_path). The samples of each step come from Megatron-LM's own
BERTMaskedWordPieceDataset, so the data is checked too. Optimizer, schedule and bars: curves.py.

  make -C MEGATRON/megatron/core/datasets
  python tests/oracle/bert_curves.py MEGATRON [--what fp32 bf16] [--seeds 3] [--json FILE]

MEGATRON is a checkout of NVIDIA/Megatron-LM. Needs: pip install torch transformers packaging pybind11; a C++ compiler for torch.compile.
Exit status 1 when a bar is missed.
"""
import numpy as np
import torch
import torch.nn.functional as F
import transformers

import curves
import megatron_samples
import oracle

VOCABULARY, STATES, LENGTH, BATCH, STEPS, SHORT = 2048, 300, 64, 8, 200, 0.1
SPECIAL = {"pad": 0, "cls": 2, "sep": 3, "mask": 4}
# Every fourth token goes on with a word.
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{'' if i % 4 else '##'}w{i}" for i in range(5, VOCABULARY))]


def sentences(rng):
    """Documents of sentences of 4 to 23 tokens."""
    for states in curves.markov_documents(STEPS * BATCH * LENGTH, rng, STATES):
        ends = np.cumsum(rng.integers(4, 24, len(states)))
        yield np.split(states + 5, ends[ends < len(states)])


def batches(data):
    for step in range(STEPS):
        items = [data[step * BATCH + i] for i in range(BATCH)]
        stack = lambda key: torch.tensor(np.stack([item[key] for item in items]).astype(np.int64))
        yield {"input_ids": stack("text"), "token_type_ids": stack("types"), "attention_mask": stack("padding_mask"),
               "labels": torch.where(stack("loss_mask") == 1, stack("labels"), -100),
               "next_sentence_label": torch.tensor([int(item["is_random"]) for item in items])}


def torch_curve(weights, data, autocast, compiled):
    model = transformers.BertForPreTraining.from_pretrained(weights, dtype=torch.float32)

    def loss_of(model, batch):
        inputs = dict(batch)
        labels, swapped = inputs.pop("labels"), inputs.pop("next_sentence_label")
        out = model(**inputs)
        return (F.cross_entropy(out.prediction_logits.float().flatten(0, 1), labels.flatten()) +
                F.cross_entropy(out.seq_relationship_logits.float(), swapped))

    return curves.torch_curve(model, batches(data), STEPS, loss_of, autocast, compiled)


def prepare(args, data_sets, seed, folder):
    """Writes tokenizer, corpus and initial weights: Megatron's samples, the model in the words of Stoa."""
    documents = list(sentences(np.random.default_rng(seed)))
    oracle.write_corpus(folder / "corpus", documents)
    (folder / "pieces").mkdir()
    (folder / "pieces/vocab.txt").write_text("".join(piece + "\n" for piece in PIECES))
    tokenizer = megatron_samples.Tokenizer(PIECES, SPECIAL)
    data = data_sets.bert(documents, tokenizer, STEPS * BATCH, LENGTH, curves.DATA_SEED, SHORT, True)
    torch.manual_seed(seed)
    hidden = args.hidden
    config = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=3, num_attention_heads=4,
                                     intermediate_size=2 * hidden, max_position_embeddings=LENGTH, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0)
    transformers.BertForPreTraining(config).float().save_pretrained(folder / "weights")
    ours = {"kind": "bert", "num_layers": 3, "hidden_size": hidden, "ffn_hidden_size": 2 * hidden, "num_attention_heads": 4,
            "encoder_seq_length": LENGTH, "vocab_size": VOCABULARY, "layernorm_epsilon": 1e-12, "activation": "gelu",
            "tokenizer": str(folder / "pieces"), "bert": {"binary_head": True}}
    return data, ours


def main():
    parser = curves.arguments(__doc__)
    parser.add_argument("megatron")
    parser.add_argument("--hidden", type=int, default=96)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data_sets = megatron_samples.DataSets(args.megatron)

    def run_of(seed, folder):
        data, ours = prepare(args, data_sets, seed, folder)
        return lambda autocast, compiled: torch_curve(folder / "weights", data, autocast, compiled), ours, {"short_seq_prob": SHORT}

    curves.finish(curves.compare(args.what, curves.runs(args, BATCH, STEPS, run_of), not args.no_compile), args.json)


main()
