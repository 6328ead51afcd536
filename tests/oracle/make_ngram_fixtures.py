"""Writes tests/fixtures/curate/ngrams: a corpus, the interpolated modified Kneser-Ney model of it (Chen and Goodman's
formulas, written down in fp64 without regard to speed, with the details of KenLM's lmplz) as an ARPA file, and what KenLM
(pip install kenlm) scores with that file."""
import collections
import functools
import json
import math
import pathlib
import random

import kenlm

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/curate/ngrams"
ORDER = 5


def corpus():
    """Words as frequent as 1 / rank, sentences that come again: all counts of counts are there, as lmplz wants it."""
    rng = random.Random(3)
    words = ["the", "ferry", "harbour", "of", "and", "calm"] + [f"word{i}" for i in range(200)]
    weights = [1 / (i + 1) for i in range(len(words))]
    lines = []
    for _ in range(110):
        line = " ".join(rng.choices(words, weights, k=rng.choice([1, 2, 3, 4, 6, 8, 10])))
        lines += [line] * rng.choices([1, 2, 3, 4, 5], [60, 20, 10, 6, 4])[0]
    rng.shuffle(lines)
    return lines


def estimate(lines):
    """By order: {n-gram: (probability, back-off)}."""
    sentences = [["<s>"] + line.split() + ["</s>"] for line in lines]
    raw = [None] + [collections.Counter(tuple(s[i:i + n]) for s in sentences for i in range(len(s) - n + 1))
                    for n in range(1, ORDER + 1)]
    counts = [None] * (ORDER + 1)
    counts[ORDER] = raw[ORDER]
    for n in range(1, ORDER):
        before = collections.defaultdict(set)
        for gram in raw[n + 1]:
            before[gram[1:]].add(gram[0])
        counts[n] = {g: raw[n][g] if g[0] == "<s>" else len(before[g]) for g in raw[n]}
    counts[1][("<s>",)] = counts[1][("<unk>",)] = 0
    discounts = [None]
    for n in range(1, ORDER + 1):
        c = collections.Counter(counts[n].values())
        y = c[1] / (c[1] + 2 * c[2])
        discounts.append([0] + [k - (k + 1) * y * c[k + 1] / c[k] for k in (1, 2, 3)])
        assert all(0 <= discounts[n][k] <= k for k in (1, 2, 3)), "lmplz would refuse this corpus"

    followers = collections.defaultdict(list)
    for n in range(1, ORDER + 1):
        for gram, count in counts[n].items():
            followers[gram[:-1]].append(count)

    def total(context):
        return sum(followers[context])

    def gamma(context):
        d = discounts[len(context) + 1]
        return sum(d[min(c, 3)] for c in followers[context]) / total(context)

    @functools.lru_cache(None)
    def probability(gram):
        if not gram:
            return 1 / (len(counts[1]) - 1)
        count = counts[len(gram)][gram]
        own = (count - discounts[len(gram)][min(count, 3)]) / total(gram[:-1])
        return own + gamma(gram[:-1]) * probability(gram[1:])

    out = [None]
    for n in range(1, ORDER + 1):
        out.append({g: (1.0 if g == ("<s>",) else probability(g), gamma(g) if g in followers and n < ORDER else 1.0)
                    for g in counts[n]})
    return out


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = corpus()
    (FOLDER / "corpus.txt").write_text("\n".join(lines) + "\n")
    model = estimate(lines)
    with open(FOLDER / "model.arpa", "w") as out:
        out.write("\\data\\\n" + "".join(f"ngram {n}={len(model[n])}\n" for n in range(1, ORDER + 1)))
        for n in range(1, ORDER + 1):
            out.write(f"\n\\{n}-grams:\n")
            for gram, (p, back_off) in sorted(model[n].items()):
                out.write(f"{math.log10(p):.8g}\t{' '.join(gram)}" + (f"\t{math.log10(back_off):.8g}" if n < ORDER else "") + "\n")
        out.write("\n\\end\\\n")
    kenlm_model = kenlm.Model(str(FOLDER / "model.arpa"))
    rng = random.Random(4)
    words = sorted({w for line in lines for w in line.split()}) + ["unknown", "never"]
    texts = lines[:30] + [" ".join(rng.choice(words) for _ in range(rng.randrange(1, 12))) for _ in range(30)]
    with open(FOLDER / "kenlm.jsonl", "w") as out:
        for text in texts:
            scores = [score for score, _, _ in kenlm_model.full_scores(text)]
            out.write(json.dumps({"text": text, "scores": scores, "perplexity": kenlm_model.perplexity(text)}) + "\n")


if __name__ == "__main__":
    main()
