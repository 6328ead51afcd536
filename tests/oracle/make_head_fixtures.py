"""Makes tests/fixtures/model/heads.json: what transformers computes for tiny encoders and decoders with the heads of
sequence classification, token classification and (encoders) question answering. Weights follow the integer formula of
make_model_fixtures.py; rows are run one by one, so that nothing is padded.

    python tests/oracle/make_head_fixtures.py      # needs torch and transformers
"""
import json
import pathlib

import numpy as np
import torch
import transformers

from make_encoder_fixtures import file_names, fill
from make_model_fixtures import numbers, weight

BASE = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
FAMILIES = {"bert": BASE, "roberta": dict(BASE, layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1),
            "distilbert": dict(vocab_size=32, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=40, dropout=0.0,
                               attention_dropout=0.0, seq_classif_dropout=0.0, qa_dropout=0.0),
            "electra": dict(BASE, embedding_size=16), "mpnet": BASE, "nomic_bert": BASE}
LLAMA = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=4, max_position_embeddings=40, classifier_dropout=0.0)
# gemma2: its cap of logits is that of the language model alone.
DECODERS = {"llama": LLAMA, "gemma2": dict(LLAMA, query_pre_attn_scalar=4, final_logit_softcapping=0.5),
            "gpt2": dict(vocab_size=32, n_positions=40, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                         classifier_dropout=0.0),
            "gpt_neox": dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                             max_position_embeddings=40, hidden_dropout=0.0, attention_dropout=0.0, classifier_dropout=0.0)}
CLASSES_OF = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert", "electra": "Electra", "mpnet": "MPNet",
              "nomic_bert": "NomicBert", "llama": "Llama", "gemma2": "Gemma2", "gpt2": "GPT2", "gpt_neox": "GPTNeoX"}
HEADS = {"SequenceClassification": dict(id2label={0: "bad", 1: "good", 2: "mixed"}),
         "TokenClassification": dict(id2label={0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}), "QuestionAnswering": {}}
ROWS = [[3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7], [3, 17, 5, 29, 11]]
TYPES = [[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1]]
CLASSES = [2, 0]
TAGS = [{1: 1, 3: 2, 4: 0, 7: 3, 10: 4}, {1: 0, 2: 3, 4: 4}]
SPANS = [(7, 9), (3, 3)]


def cross_entropy(logits, label):
    return torch.nn.functional.cross_entropy(logits[None], torch.tensor([label]))


def make_case(family, head, more):
    config = transformers.AutoConfig.for_model(family, **(FAMILIES | DECODERS)[family], **more)
    if "id2label" in more: config.label2id = {v: k for k, v in config.id2label.items()}
    model = getattr(transformers, f"AutoModelFor{head}").from_config(config, attn_implementation="eager").double().eval()
    named = file_names(model)
    names = sorted(named)
    fill(named)
    if family == "gemma2":  # its files hold norms minus 1
        with torch.no_grad():
            for name, parts in named.items():
                if parts[0].dim() == 1 and name.endswith("norm.weight"): [p.sub_(1) for p in parts]
    losses, shown = [], []
    for row, types, label, tags, (start, end) in zip(ROWS, TYPES, CLASSES, TAGS, SPANS):
        typed = family in ("bert", "electra", "nomic_bert")
        out = model(torch.tensor([row]), **(dict(token_type_ids=torch.tensor([types])) if typed else {}))
        if head == "QuestionAnswering":
            losses.append((cross_entropy(out.start_logits[0], start) + cross_entropy(out.end_logits[0], end)) / 2)
            shown.append(torch.stack([out.start_logits[0], out.end_logits[0]], 1))
        elif head == "TokenClassification":
            losses += [cross_entropy(out.logits[0, i], tag) for i, tag in tags.items()]
            shown.append(out.logits[0])
        else:
            losses.append(cross_entropy(out.logits[0], label))
            shown.append(out.logits)
    loss = torch.stack(losses).mean()
    loss.backward()
    gradients = {}
    for t, name in enumerate(names):
        g = np.concatenate([p.grad.numpy().ravel() for p in named[name]])
        gradients[name] = dict(norm=numbers([np.linalg.norm(g)])[0], projection=numbers([g @ weight(t + 500, g.size)])[0])
    written = {k: v for k, v in json.loads(config.to_json_string(use_diff=False)).items() if k != "_name_or_path"}
    written["architectures"] = [type(model).__name__]
    return dict(config=written, logits=[numbers(s.detach()) for s in shown], loss=numbers([loss.item()])[0], gradients=gradients)


def main():
    cases = {f"{family}_{head}": make_case(family, head, more) for family in FAMILIES | DECODERS for head, more in HEADS.items()
             if not (family in DECODERS and head == "QuestionAnswering") and hasattr(transformers, f"{CLASSES_OF[family]}For{head}")}
    fixture = dict(transformers=transformers.__version__, torch=torch.__version__.split("+")[0], rows=ROWS, types=TYPES,
                   classes=CLASSES, tags=[[[i, t] for i, t in row.items()] for row in TAGS], spans=SPANS, cases=cases)
    path = pathlib.Path(__file__).parents[1] / "fixtures" / "model" / "heads.json"
    path.write_text(json.dumps(fixture, indent=0, separators=(",", ":")) + "\n")
    print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
