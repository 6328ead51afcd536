"""Writes tests/fixtures/eval/metrics.json: what sacrebleu, rouge_score, NLTK and the functions of lm-evaluation-harness's tasks make of
made texts, and tests/fixtures/eval/nltk_data: a small model of sentences in NLTK's form, learned from --texts.

    make_eval_metric_fixtures.py --texts FILE.txt

Python with lm_eval 0.4.13, sacrebleu, rouge_score, nltk, langdetect, immutabledict, word2number, regex.
"""
import argparse
import importlib
import json
import os
import pathlib
import random
import sys

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/eval"
TASKS = None


def module(path, name="utils"):
    """Python next to a task of lm-eval."""
    spec = importlib.util.spec_from_file_location(f"{path.replace('/', '_')}_{name}", TASKS / path / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def small_sentence_model(text):
    from nltk.tokenize.punkt import PunktTrainer
    trainer = PunktTrainer(text, verbose=False)
    params = trainer.get_params()
    params.abbrev_types |= {"mr", "dr", "e.g", "i.e", "st", "u.s", "p.m"}
    params.collocations |= {("##number##", "may"), ("st", "george")}
    folder = FOLDER / "nltk_data/tokenizers/punkt_tab/english"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "abbrev_types.txt").write_text("\n".join(sorted(params.abbrev_types)))
    (folder / "sent_starters.txt").write_text("\n".join(sorted(params.sent_starters)))
    (folder / "collocations.tab").write_text("\n".join("\t".join(c) for c in sorted(params.collocations)))
    (folder / "ortho_context.tab").write_text("\n".join(f"{w}\t{n}" for w, n in sorted(params.ortho_context.items()) if n))


def main():
    global TASKS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    text = arguments.texts.read_text(encoding="utf-8").replace("\n", " ").replace("<unk>", "thing")
    lines = [s.strip() + "." for s in text.split(".") if 4 < len(s.split()) < 30]
    small_sentence_model(" ".join(lines[:220]))
    os.environ["NLTK_DATA"] = str(FOLDER / "nltk_data")
    import lm_eval
    import nltk
    import sacrebleu
    from nltk.stem.porter import PorterStemmer
    from rouge_score import rouge_scorer
    nltk.data.path[:] = [str(FOLDER / "nltk_data")]
    TASKS = pathlib.Path(lm_eval.__file__).parent / "tasks"
    rnd = random.Random(3)
    pick = lambda: rnd.choice(lines)
    out = {}

    words = sorted({w for w in text.lower().split() if w.isascii() and w.isalnum()})
    words = rnd.sample(words, 500) + ["skies", "dying", "ties", "died", "dies", "agreed", "bled", "hopping", "falling", "hissing", "fizzed",
                                      "filing", "happy", "enjoy", "spy", "flies", "relational", "radically", "analogously", "sensibly",
                                      "geologi", "archaeology", "hopefully", "adoption", "controlling", "roll", "cease", "sky", "news", "oed"]
    stem = PorterStemmer().stem
    out["stems"] = [[w, stem(w)] for w in words]

    def changed(line):
        words = line.split()
        for _ in range(rnd.randrange(6)):
            at, to = rnd.randrange(len(words)), rnd.randrange(len(words) + 1)
            kind = rnd.randrange(4)
            if kind == 0:
                words.insert(to, rnd.choice(words))
            elif kind == 1 and len(words) > 2:
                words.pop(at)
            else:
                piece = words[at:at + rnd.randint(1, 6)]
                del words[at:at + len(piece)]
                words[min(to, len(words)):min(to, len(words))] = piece
        return " ".join(words).replace(" ,", ",").replace(" .", ".")
    pairs = [(line, changed(line)) for line in (pick() for _ in range(40))]
    pairs += [(pick() + " " + pick() + " " + pick(), pick()), ("", "an answer"), ("a reference", ""), ("", ""), ("same", "Same"),
              (" ".join(pick() for _ in range(12)), " ".join(pick() for _ in range(9))), ("één twee\u00a0drie", "twee één, drie!")]
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], use_stemmer=True)
    plain = rouge_scorer.RougeScorer(["rouge1", "rougeL"])
    out["texts"] = [{
        "reference": r, "answer": a, "ter": sacrebleu.corpus_ter([a], [[r]]).score, "chrf": sacrebleu.corpus_chrf([a], [[r]]).score,
        "chrf++": sacrebleu.corpus_chrf([a], [[r]], word_order=2).score,
        "rouge": [scorer.score(r, a)[k].fmeasure for k in ("rouge1", "rouge2", "rougeL")],
        "lines": scorer.score(r.replace(". ", ".\n"), a.replace(", ", "\n"))["rougeLsum"].fmeasure,
        "plain": [plain.score(r, a)[k].fmeasure for k in ("rouge1", "rougeL")]} for r, a in pairs]
    out["ter"] = sacrebleu.corpus_ter([a for _, a in pairs], [[r for r, _ in pairs]]).score

    math = module("hendrycks_math")
    sides = ["\\frac{1}{2}", "\\dfrac12", "\\frac1{72}", "\\frac12", "0.5", ".5", "1/2", "01/2", "-3/4", "a/b", "1/2/3", "\\sqrt3", "\\sqrt{3}", "x=7", "7",
             "k = 7", "xyz=7", "50\\%", "50", "10^\\circ", "10^{\\circ}", "10", "\\left(1,2\\right)", "(1,2)", "(1, 2)", "7\\text{ cm}", "7\\text{ a}\\text{ b}",
             "\\$5", "5", "", "\\sqrt", "\\frac", "\\frac1", "1,\\!000", "1,000", "\\tfrac{1}{2}", "{.5}", "{0.5}", "1_0/2", "é/2", "\\fracé2", "7\n", "2+.5"]
    out["math"] = [[a, b, math.is_equiv(a, b)] for a in sides for b in sides if rnd.random() < 0.35 or a == b]
    solutions = ["So \\boxed{7}.", "\\boxed{\\frac{1}{2}} and \\boxed{8}", "It is $\\boxed 9$ now", "\\boxed{a{b}c}", "\\boxed 3$ and \\boxed{4}"]
    out["boxed"] = [[s, math.remove_boxed(math.last_boxed_only_string(s))] for s in solutions]

    drop = module("drop")
    answers = ["7", "7.0", "1,200", "the cat", "A cat, the-dog", "cat dog", "3 May 1912", "May 1912", "12 cats", "nan", "-3", "$5", "", "an", "1_000", "1000", "inf",
               "Ünder the Übel", "1e3", "twelve"]
    out["drop"] = []
    for answer in answers:
        golds = [tuple(rnd.sample(answers, rnd.randint(1, 3))) for _ in range(rnd.randint(1, 3))]
        scores = drop.process_results({"answers": golds}, [answer])
        out["drop"].append({"answer": answer, "golds": golds, "em": scores["em"], "f1": float(scores["f1"])})

    bbh = module("bbh/cot_zeroshot")
    # A document in whose input the choices stand, and answers.
    doc = {"input": "Which is it?\nOptions:\n(A) a red cat\n(B) a red cat, sleeping\n(C) the dog.\n\nSort: List: beta alpha gamma be"}
    given = ["The answer is (B).", "It is the dog.", "a red cat, sleeping I think", "so: C", "A Red Cat", "none", "yes or no? Yes.", "no", "valid argument", "not valid",
             "there are twenty one apples", "two hundred and three", "12 apples, then 13", "three", "eight", "eighteen thousand and eleven", "one million two hundred",
             "alpha beta gamma", "gamma, beta then alpha beta", "be beta", "", "thousand thousand", "Invalid"]
    kinds = {"multi": (bbh.MultiChoiceRegexFilter, dict(regex_pattern="(\\([A-Z]\\))", group_select=0, ignore_case=True, ignore_punctuation=True)),
             "last": (bbh.MultiChoiceRegexFilter, dict(regex_pattern="(\\([A-Z]\\))", group_select=-1)),
             "map": (bbh.MapRegexFilter, dict(group_select=-1, ignore_case=True, regex_pattern_to_value={"\\b(invalid|not valid)\\b": "invalid", "\\b(valid|yes)\\b": "valid",
                                                                                                       "\\bno\\b": "no"})),
             "number": (bbh.NumberParseRegexFilter, dict(regex_pattern="([0-9]+)", group_select=0)),
             "sort": (bbh.WordSortFilter, {})}
    out["filters"] = {"document": doc, "answers": given, "kinds": {}}
    for name, (kind, options) in kinds.items():
        made = []
        for g in given:
            try:
                made.append(kind(**options).apply([[g]], [doc])[0][0])
            except Exception:
                made.append(None)  # lm-eval fails
        out["filters"]["kinds"][name] = {"options": options, "made": made}

    ifeval(out, lines, rnd)
    minerva(out)
    (FOLDER / "metrics.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def minerva(out):
    """minerva_math's functions on texts; without what it imports for its computer algebra."""
    source = (TASKS / "minerva_math/utils.py").read_text()
    source = source[:source.index("try:\n    import antlr4")] + source[source.index("# taken from"):]
    names = {}
    exec(compile(source, "minerva_math", "exec"), names)  # noqa: S102
    known = json.loads((FOLDER / "metrics.json").read_text())["minerva"]
    out["minerva"] = {"normal": [[t, names["normalize_final_answer"](t)] for t, _ in known["normal"]],
                      "final": [[t, names["get_unnormalized_answer"](t)] for t, _ in known["final"]]}


def ifeval(out, lines, rnd):
    from lm_eval.tasks.ifeval import instructions_util
    from lm_eval.tasks.ifeval import utils
    import langdetect
    import nltk
    langdetect.DetectorFactory.seed = 0
    pick = lambda: rnd.choice(lines)
    pieces = ["Mr. Smith went to St. George. He met Dr. Who!", "\"What?\" she asked. 'No.' It was 5 p.m. on 3. May 1912.", "e.g. this one. i.e. that... And then?! (Yes.) No",
              "J. Bach wrote it. The U.S. army left. A. B. C.", "Wait... what -- no; 3.5 is 7/2. 10. 11. x", "«Oui.» “Fine.” ‘So.’ end", "One.Two. Three.)Four", "gonna cannot 'tis it's we'll don't",
              "P.S. I like it.", "p.p.s. More", "* one\n* two\n- three\n  * four\n*bold* text", "SECTION 1\nab\nSECTION 2\ncd", "a *highlight* and **two words** and ** ** and **", "***",
              "one *** two\n***\nthree", "<<Title>>\ntext", "<< >>", "{\"a\": [1, 2]}", "```json\n{\"a\": 1}\n```", "My answer is yes.", "first******second", "a******a", "x******",
              "\"quoted whole\"", "[name] lives in [city].", "HELLO WORLD THIS IS ALL CAPITALS AND LONG ENOUGH TO BE ENGLISH TEXT", "all small letters here and long enough to be plain english text",
              "Das ist ein langer deutscher Satz, der sicher erkannt wird, weil er viele deutsche Wörter enthält.", "Ceci est une longue phrase française qui sera certainement reconnue.",
              "это длинное русское предложение, которое точно будет распознано", "यह एक लंबा हिंदी वाक्य है जो पहचाना जाएगा", "", "  ", "Any other questions?", "Is there anything else I can help with?\""]
    texts = pieces + [pick() + " " + pick() for _ in range(25)] + [rnd.choice(pieces) + "\n\n" + pick() + "\n\n" + rnd.choice(pieces) for _ in range(25)]
    out["sentences"] = [[t, nltk.sent_tokenize(t), nltk.word_tokenize(t), instructions_util.count_words(t)] for t in texts]
    kinds = [("keywords:existence", {"keywords": ["the", "answer"]}), ("keywords:existence", {"keywords": ["THE"]}),
             ("keywords:frequency", {"keyword": "the", "frequency": 2, "relation": "at least"}), ("keywords:frequency", {"keyword": " a ", "frequency": 3, "relation": "less than"}),
             ("keywords:forbidden_words", {"forbidden_words": ["and", "is"]}), ("keywords:letter_frequency", {"letter": "E", "let_frequency": 6, "let_relation": "less than"}),
             ("keywords:letter_frequency", {"letter": "t", "let_frequency": 4, "let_relation": "at least"}),
             ("language:response_language", {"language": "de"}), ("language:response_language", {"language": "ru"}), ("language:response_language", {"language": "hi"}),
             ("length_constraints:number_sentences", {"num_sentences": 3, "relation": "at least"}), ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"}),
             ("length_constraints:number_paragraphs", {"num_paragraphs": 3}), ("length_constraints:number_paragraphs", {"num_paragraphs": 1}),
             ("length_constraints:number_words", {"num_words": 12, "relation": "at least"}), ("length_constraints:number_words", {"num_words": 7, "relation": "less than"}),
             ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "The"}),
             ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "what"}),
             ("detectable_content:number_placeholders", {"num_placeholders": 2}), ("detectable_content:postscript", {"postscript_marker": "P.S."}),
             ("detectable_content:postscript", {"postscript_marker": "P.P.S"}), ("detectable_format:number_bullet_lists", {"num_bullets": 4}),
             ("detectable_format:constrained_response", {}), ("detectable_format:number_highlighted_sections", {"num_highlights": 2}),
             ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 2}), ("detectable_format:json_format", {}), ("detectable_format:title", {}),
             ("combination:two_responses", {}), ("combination:repeat_prompt", {"prompt_to_repeat": "One.Two."}), ("startend:end_checker", {"end_phrase": "Any other questions?"}),
             ("change_case:capital_word_frequency", {"capital_frequency": 3, "capital_relation": "at least"}), ("change_case:english_capital", {}),
             ("change_case:english_lowercase", {}), ("punctuation:no_comma", {}), ("startend:quotation", {})]
    out["instructions"] = {"kinds": kinds, "answers": []}
    for t in texts:
        doc = {"key": 1, "prompt": "p", "instruction_id_list": [k for k, _ in kinds], "kwargs": [dict(a) for _, a in kinds]}
        made = utils.process_results(doc, [t])
        out["instructions"]["answers"].append([t, "".join("01"[b] for b in made["inst_level_strict_acc"]), "".join("01"[b] for b in made["inst_level_loose_acc"])])


if __name__ == "__main__":
    sys.exit(main())
