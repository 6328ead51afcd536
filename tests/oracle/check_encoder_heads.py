#!/usr/bin/env python3
"""Fine-tuned encoders of transformers asked and trained by Stoa: the same answers, the same loss and gradient norm.

For BERT and RoBERTa with the heads of sequence classification, token classification and question answering, random weights:
  predict   `stoa predict` on a directory that transformers saved: probabilities within 1e-4 of transformers'
  train     the first step of `stoa train` from it on the same labelled lines, fp32: loss and gradient norm within 1e-4
  saved     transformers loads the checkpoint without a missing or unexpected tensor
  prompt    of texts and words, PEFT's virtual tokens used by Stoa, and Stoa's, trained on two ranks, loaded by PEFT: probabilities
  p-tuning  within 1e-4

  python tests/oracle/check_encoder_heads.py [--stoa build/release/src/stoa] [--tasks TASK ...] [--json FILE]

Needs: pip install torch transformers peft. Exit status 1 when anything is too far.
"""
import argparse
import copy
import json
import pathlib
import tempfile

import numpy as np
import peft
import torch
import transformers

import oracle

TOLERANCE = 1e-4
LABELS = {"sequence_classification": ["soft", "hard", "wet"], "token_classification": ["O", "B-THING", "I-THING", "B-PLACE"],
          "question_answering": []}
HEADS = {"sequence_classification": "SequenceClassification", "token_classification": "TokenClassification",
         "question_answering": "QuestionAnswering"}
TEXTS = ["the river sings to the stone", "bread and salt on the table of the king", "an owl sleeps", "who goes there under the seven trees"]
QUESTION = "what is there"


def lines_of(task):
    for i, text in enumerate(TEXTS):
        words = text.split()
        if task == "sequence_classification":
            yield {"text": text, "label": LABELS[task][i % 3], **({"text_pair": TEXTS[3 - i]} if i % 2 else {})}
        elif task == "token_classification":
            yield {"words": words, "tags": [LABELS[task][(i + w) % 4] for w in range(len(words))]}
        else:
            yield {"question": QUESTION, "context": text, "answers": {"text": [words[1]], "answer_start": [text.index(words[1])]}}


def encode(tokenizer, line, task, family):
    """Ids, types, first token of every word."""
    if task == "token_classification":
        out = tokenizer(line["words"], is_split_into_words=True)
        ids = out.word_ids()
        first = [ids.index(w) for w in range(len(line["words"]))]
    else:
        pair = (line["question"], line["context"]) if task == "question_answering" else (line["text"], line.get("text_pair"))
        out = tokenizer(*pair, return_token_type_ids=True)
        first = []
    types = out["token_type_ids"] if "token_type_ids" in out and family == "bert" else [0] * len(out["input_ids"])
    return torch.tensor([out["input_ids"]]), torch.tensor([types]), first, out


def losses_and_answers(model, tokenizer, task, family, virtual=0):
    losses, answers = [], []
    for line in lines_of(task):
        ids, types, first, encoded = encode(tokenizer, line, task, family)
        out = model(ids, token_type_ids=types)
        if task == "sequence_classification":
            losses.append(torch.nn.functional.cross_entropy(out.logits, torch.tensor([LABELS[task].index(line["label"])])))
            answers.append(out.logits[0].softmax(-1).tolist())
        elif task == "token_classification":
            logits = out.logits[0, [token + virtual for token in first]]
            losses += list(torch.nn.functional.cross_entropy(logits, torch.tensor([LABELS[task].index(t) for t in line["tags"]]),
                                                             reduction="none"))
            answers.append(logits.softmax(-1).max(-1).values.tolist())
        else:
            begin = line["answers"]["answer_start"][0]
            start = encoded.char_to_token(begin, sequence_index=1)
            end = encoded.char_to_token(begin + len(line["answers"]["text"][0]) - 1, sequence_index=1)
            losses.append((torch.nn.functional.cross_entropy(out.start_logits, torch.tensor([start])) +
                           torch.nn.functional.cross_entropy(out.end_logits, torch.tensor([end]))) / 2)
            context = [i for i, s in enumerate(encoded.sequence_ids()) if s == 1]
            scores = {(i, j): (out.start_logits[0, i] + out.end_logits[0, j]).item() for i in context for j in context if i <= j < i + 30}
            i, j = max(scores, key=scores.get)
            answers.append([(out.start_logits[0].softmax(-1)[i] * out.end_logits[0].softmax(-1)[j]).item()])
    return losses, answers


def make_model(family, task, tokenizer):
    torch.manual_seed(5)
    more = dict(layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1, max_position_embeddings=66) if family == "roberta" else {}
    if LABELS[task]:
        more |= dict(id2label=dict(enumerate(LABELS[task])), label2id={l: i for i, l in enumerate(LABELS[task])})
    size = dict(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config = transformers.AutoConfig.for_model(family, **(size | more))
    model = getattr(transformers, f"AutoModelFor{HEADS[task]}").from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters(): parameter += 0.1 * torch.randn_like(parameter)
    return model


def train_config(folder, family, task, vocabulary):
    model = {"kind": "bert", "num_layers": 2, "hidden_size": 32, "ffn_hidden_size": 48, "num_attention_heads": 4, "encoder_seq_length": 64,
             "vocab_size": vocabulary, "layernorm_epsilon": 1e-12 if family == "bert" else 1e-5, "activation": "gelu",
             "micro_batch_size": 2, "global_batch_size": len(TEXTS), "tokenizer": str(folder / "model"),
             "bert": {"task": task, "labels": LABELS[task], "num_token_types": 2 if family == "bert" else 1,
                      "first_position": 0 if family == "bert" else 2},
             "data": {"data_prefix": {"train": str(folder / "train.jsonl")}},
             "optim": {"name": "adamw", "lr": 1e-3, "sched": {"warmup_steps": 0}}}
    return {"restore_from_path": str(folder / "model"), "trainer": {"max_steps": 1, "precision": "fp32", "log_every_n_steps": 1}, "model": model}


def predict(stoa, task, *model_and_data):
    out = oracle.call(stoa, "predict", *model_and_data)
    found = []
    for line in map(json.loads, (out if isinstance(out, str) else out.stdout).splitlines()):
        found.append(list(line["scores"].values()) if task == "sequence_classification" else line["scores"]
                     if task == "token_classification" else [line["score"]])
    return found


def distance(found, answers):
    assert [len(f) for f in found] == [len(a) for a in answers], (found, answers)
    return max(abs(a - b) for f, e in zip(found, answers) for a, b in zip(f, e))


def check_virtual(stoa, folder, model, tokenizer, task, family):
    """Name of each check, how far apart the probabilities are."""
    common = dict(task_type="SEQ_CLS" if task == "sequence_classification" else "TOKEN_CLS", num_virtual_tokens=4)
    before = losses_and_answers(model, tokenizer, task, family)[1]
    for method, config in [("prompt", peft.PromptTuningConfig(**common)), ("p-tuning", peft.PromptEncoderConfig(encoder_hidden_size=12, **common))]:
        adapted = peft.get_peft_model(copy.deepcopy(model), config).eval()
        for parameter in adapted.parameters():
            if parameter.requires_grad: torch.nn.init.normal_(parameter, std=0.3)
        adapted.save_pretrained(folder / f"{method}-peft")
        found = predict(stoa, task, folder / "model", folder / "train.jsonl", "--adapter", folder / f"{method}-peft")
        yield f"{method}: PEFT's", distance(found, losses_and_answers(adapted, tokenizer, task, family, 4)[1])
        run = folder / method
        oracle.call(stoa, "train", folder / "train.yaml", f"model.peft.peft_scheme={'prompt' if method == 'prompt' else 'ptuning'}",
                    "model.peft.p_tuning.virtual_tokens=4", *(["model.peft.p_tuning.bottleneck_dim=12"] if method != "prompt" else []),
                    "model.optim.lr=0.05", "trainer.max_steps=4", "--ranks", 2, "model.tensor_model_parallel_size=2", "--output", run)
        trained = peft.PeftModel.from_pretrained(copy.deepcopy(model), run / "checkpoints/latest/adapter").eval()
        expected = losses_and_answers(trained, tokenizer, task, family, 4)[1]
        assert distance(expected, before) > 1e-2, "training changed nothing"
        yield f"{method}: Stoa's", distance(predict(stoa, task, run, folder / "train.jsonl"), expected)


def check(args, family, task, rows):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "corpus.txt").write_text("\n".join(TEXTS * 20 + [QUESTION] * 5) + "\n")
        kind = ["--kind", "wordpiece", "--vocab-size", "90"] if family == "bert" else ["--vocab-size", "300", "--special", "<s>", "--special", "<pad>", "--special", "</s>"]
        oracle.call(args.stoa, "tokenizer", "train", folder / "corpus.txt", *kind, "--output", folder / "model")
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "model/tokenizer.json"))
        if family == "roberta":  # as RobertaTokenizerFast(add_prefix_space=True) has it
            from tokenizers import pre_tokenizers, processors
            end, begin = tokenizer.convert_tokens_to_ids("</s>"), tokenizer.convert_tokens_to_ids("<s>")
            inner = tokenizer.backend_tokenizer
            inner.post_processor = processors.RobertaProcessing(("</s>", end), ("<s>", begin), add_prefix_space=False)
            inner.save(str(folder / "model/tokenizer.json"))
            (folder / "model/tokenizer_config.json").write_text(json.dumps({"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}))
        model = make_model(family, task, tokenizer)
        model.save_pretrained(folder / "model")
        text = "".join(json.dumps(line) + "\n" for line in lines_of(task))
        (folder / "train.jsonl").write_text(text)
        if family == "roberta" and task == "token_classification":
            from tokenizers import pre_tokenizers
            tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        losses, answers = losses_and_answers(model, tokenizer, task, family)
        loss = torch.stack(losses).mean()
        loss.backward()
        norm = float(np.sqrt(sum((p.grad.double() ** 2).sum().item() for p in model.parameters() if p.grad is not None)))

        far = distance(predict(args.stoa, task, folder / "model", folder / "train.jsonl"), answers)

        (folder / "train.yaml").write_text(json.dumps(train_config(folder, family, task, len(tokenizer))))
        oracle.call(args.stoa, "train", folder / "train.yaml", "--output", folder / "run")
        step = json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[0])
        saved = folder / "run/checkpoints/step-0000001/model"
        _, info = getattr(transformers, f"AutoModelFor{HEADS[task]}").from_pretrained(str(saved), output_loading_info=True)
        bad = {k: sorted(v) for k, v in info.items() if v}
        checks = [("predict", far, TOLERANCE), ("loss", abs(step["loss"] - loss.item()), TOLERANCE),
                  ("gradient norm", abs(step["grad_norm"] - norm) / norm, TOLERANCE), ("saved", len(bad), 0)]
        if task != "question_answering":
            checks += [(what, value, TOLERANCE) for what, value in check_virtual(args.stoa, folder, model, tokenizer, task, family)]
        for what, value, allowed in checks:
            rows.append({"model": family, "task": task, "check": what, "value": float(value), "allowed": allowed, "passed": bool(value <= allowed)})
            print(f"{family:8} {task:24} {what:16} {value:10.3g}  allowed {allowed:8}  {'ok' if value <= allowed else 'TOO FAR'} {bad or ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--tasks", nargs="+", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = []
    for family in ["bert", "roberta"]:
        for task in args.tasks: check(args, family, task, rows)
    if args.json:
        result = {"torch": torch.__version__, "transformers": transformers.__version__, "rows": rows}
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    raise SystemExit(0 if all(row["passed"] for row in rows) else 1)


if __name__ == "__main__":
    main()
