#!/usr/bin/env python3
"""Checks that documentation, messages and comments use the words of the field.

The list below holds words and turns of phrase that this project once used in a sense of its own, each with what to write instead.
They are searched in README.md, CHANGELOG.md, CONTRIBUTING.md and docs/, and in src/ in string literals (help texts, messages, the
configuration reference) and comments. Tests are not searched: they quote messages.

  python3 scripts/check_words.py  # names every hit; exit status 1 if there is one
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# (regular expression, what to write instead)
WORDS = [
    (r"\b(made|makes?|computed|done) again\b", "recomputed, rebuilt, repeated"),
    (r"\b(anew|afresh)\b", "again, from scratch; regenerated, restarted"),
    (r"\bnobody (waits|reads|writes|asks|asked|looks|touches|locks)\b", "say who does what, or use the passive"),
    (r"\bheld against\b", "compared with, checked against"),
    (r"(?<!-)\bbeside\b", "next to, with, in addition to, compared with"),
    (r"\b(go|goes|went|going) on\b", "continues, resumes"),
    (r"\b(is|are|was|were) (said|told)\b", "is reported; a message says so"),
    (r"\bsays otherwise\b", "unless it is set"),
    (r"\bin words\b", "at once, with a message"),
    (r"\blies? (in|on|above|deep|there)\b", "is in, is on"),
    (r"\b(stands?|stood) (twice|beside|still|where|in its place)\b", "appears twice, is next to, is paused"),
    (r"\bas ever\b", "unchanged, as usual"),
    (r"\bso (many|often) (\w+ )?(bytes|tokens|layers|times|stages|beams|steps|ranks|minutes|likeliest|to either|of)\b",
     "this many, a number of"),
    (r"\banother (\w+ )?than\b", "different from"),
    (r"\breckon", "estimate, compute"),
    (r"\btime-outs?\b", "timeout"),
    (r"\bthe first rank\b", "rank 0"),
    (r"\bwithout a word\b", "silently"),
    (r"\b(is|are) not there\b", "does not exist, is missing"),
    (r"(?:^|[.;:!?] )Of (the|these|those|a|an|all|one|many|models?|kind|every|each|some|its|their|[a-z]+s)\b",
     "begin the sentence with its subject"),
    (r"\b(dealt|deals?) (out|the|to)\b", "distributed over"),
    (r"\b(can|has|have|holds?|is) but\b", "only"),
    (r"\bcounts? only (with|beside|together|where)\b", "is used only with"),
    (r"\b(it )?changes? nothing\b", "has no effect"),
    (r"(?<!there )\b(is|was) no (key|list|action|schedule|send|directory|command|number|text|message|JSON|object|file|run)\b", "is not a"),
    (r"\b(is|are) of kind\b", "is for kind ... only"),
    (r"\bmend(s|ed|ing)?\b", "fix, correct"),
    (r"\bquick(er|est)\b", "faster, fastest"),
    (r"\blikeliest\b", "most likely"),
    (r"\btext (is|was) drawn\b|\bdraws? (text|nothing|tokens)\b", "sampled"),
    (r"\bthe host's memory\b", "host memory"),
    (r"\b8-bit products?\b|\bproducts? of (8|16) bits?\b", "FP8 GEMMs"),
    (r"\bpassed over\b|\bpass(es)? (it|them) over\b", "ignored"),
    (r"\bknows? better\b", "is more accurate"),
    (r"\bfor ever\b", "forever"),
    (r"\bg(i|a)ve(s|n)? back\b", "return"),
    (r"\bof our own\b", "Stoa's own"),
    (r"\b(come|comes|came) to an end\b", "terminate"),
    (r"\bturns? \w+ (\w+ )?away\b", "reject"),
    (r"\bspread over ranks\b", "distributed, sharded"),
    (r"\bgoes in a circle\b", "is circular"),
    (r"\bhas no meaning here\b", "does not apply to Stoa"),
    (r"\b(what|as) it lies\b", "unchanged"),
    (r"\bmeets? (again|each other)\b", "connect, synchronise"),
    (r"\b(is|are) wanted\b", "is needed"),
]


def literals(text):
    """(line, text) of the string literals of a C++ source, adjacent ones joined.

    >>> literals('f("one "\\n  "two", \\'"\\', "three");  // "four"\\n')
    [(1, 'one two'), (2, 'three')]
    """
    out, i, line = [], 0, 1
    joining = False
    while i < len(text):
        if text.startswith("//", i):
            i = text.find("\n", i) if "\n" in text[i:] else len(text)
            continue
        raw = re.compile(r'(?:u8|[LuU])?R"([^()\s\\"]*)\(').match(text, i)
        if raw and not (i and (text[i - 1].isalnum() or text[i - 1] == "_")):
            end = text.index(f"){raw[1]}\"", i)
            out.append((line, text[raw.end():end]))
            line += text.count("\n", i, end)
            i, joining = end + len(raw[1]) + 2, False
            continue
        if text[i] == '"':
            end = i + 1
            while text[end] != '"': end += 2 if text[end] == "\\" else 1
            body = text[i + 1:end]
            if joining: out[-1] = (out[-1][0], out[-1][1] + body)
            else: out.append((line, body))
            i, joining = end + 1, True
            continue
        if text[i] == "'" and (char := re.compile(r"'(\\[^']+|\\'|[^'\\])'").match(text, i)) and not re.search(r"\w$", re.sub(r"\b(?:u8|[LuU])$", "", text[max(0, i - 4):i])):
            i, joining = char.end(), False
            continue
        if not text[i].isspace(): joining = False
        line += text[i] == "\n"
        i += 1
    return out


def comments(text):
    """(line, text) of the comments of a C++ source, consecutive lines joined.

    >>> comments("// One\\n// sentence.\\nint x;  // two\\n")
    [(1, 'One sentence.'), (3, 'two')]
    """
    out, last = [], -1
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(r"(?:^|\s)//+ ?(.*)$", line)
        if not found: continue
        whole = line.lstrip().startswith("//")
        if whole and number == last + 1: out[-1] = (out[-1][0], out[-1][1] + " " + found[1])
        else: out.append((number, found[1]))
        last = number if whole else -1
    return out


def paragraphs(text):
    """(line, text) of the paragraphs of a page without its code.

    >>> paragraphs("# A\\nOne\\ntwo `code`.\\n\\n- three\\n```\\ncode\\n```\\n")
    [(1, 'A'), (2, 'One two `xxxx`.'), (5, 'three')]
    """
    text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S)
    text = re.sub(r"`[^`\n]*`", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", text)
    out, current = [], []
    for number, line in enumerate(text.splitlines() + [""], 1):
        heading = line.startswith("#")
        if current and (not line.strip() or heading or re.match(r"\s*([-*|]|\d+\.)", line)):
            out.append((current[0][0], " ".join(part for _, part in current)))
            current = []
        if heading: out.append((number, line.lstrip("# ")))
        elif line.strip(): current.append((number, line.strip().lstrip("-*| ")))
    return out


def pages():
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))
    yield from sorted((ROOT / "docs").glob("*.md"))


def sources():
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".cc", ".h", ".cu") and not re.search(r"_test\.cc$|_suite\.h$|^(test|fake)_", path.name): yield path


def find(path, texts, words):
    """The hits in texts (line, text) of `path`, as messages."""
    out = []
    for line, text in texts:
        for expression, instead in words:
            if match := expression.search(text):
                out.append(f"{path.relative_to(ROOT).as_posix()}:{line}: '{match[0].strip()}': write: {instead}")
    return out


def main():
    words = [(re.compile(expression, re.I if expression[0] == "\\" else 0), instead) for expression, instead in WORDS]
    hits, count = [], 0
    for path in pages(): hits += find(path, paragraphs(path.read_text()), words)
    for path in sources():
        source = path.read_text()
        hits += find(path, literals(source) + comments(source), words)
        count += 1
    print("\n".join(hits) or f"{len(list(pages()))} pages, {count} sources: no word of the list")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
