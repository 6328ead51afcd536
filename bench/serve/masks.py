#!/usr/bin/env python3
"""What it costs to find the tokens that a constraint allows, with a tokenizer of about 128,000 ids: `stoa bench masks` over schemas,
grammars, regular expressions and choices, each with texts made by chance that fit.

  python3 bench/serve/masks.py --tokenizer T [--stoa STOA] [--rounds 5] [--json FILE]

T: a directory, tokenizer.json or tekken.json; the wheel mistral-common has one of 131,072 ids (mistral_common/data/tekken_240911.json).
The bars: mean below 50 microseconds, 99 % below 500, over all tokens, the first time that a constraint meets its text.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

WORDS = """the quick brown fox über jumps over lazy dog machine letters a of and "quoted" naïve 日本語 calculation street London engine algorithm
was carried out by line\\nbreak tab poetry mathematics number 1843 beyond pure, understood; that (perhaps) it's – a café""".split()
ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}, "zip": {"type": "string", "pattern": "^[A-Z0-9 ]{3,10}$"}},
           "required": ["street", "city"]}
PERSON = {"type": "object", "properties": {
    "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "email": {"type": "string", "format": "email"},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 40}}, "address": ADDRESS, "notes": {"type": "string", "maxLength": 1000}},
    "required": ["name", "age", "email", "tags", "address", "notes"]}
TREE = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
    "value": {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}, "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
    "required": ["value"], "additionalProperties": False}}}
ORDER = {"type": "object", "properties": {
    "id": {"type": "string", "format": "uuid"}, "placed": {"type": "string", "format": "date-time"}, "state": {"enum": ["new", "paid", "packed", "sent", "returned"]},
    "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {
        "article": {"type": "string", "minLength": 3, "maxLength": 60}, "count": {"type": "integer", "minimum": 1, "maximum": 999}, "price": {"type": "number", "minimum": 0}},
        "required": ["article", "count", "price"]}}}, "required": ["id", "placed", "state", "lines"]}
TYPESCRIPT = r'''root ::= (line "\n")+
line ::= [ ]* (comment | statement)?
comment ::= "//" [^\n]*
statement ::= ("const" | "let") " " name " = " value ";" | name "(" (value (", " value)*)? ");"
name ::= [a-z] [A-Za-z0-9_]*
value ::= number | string | name | "[" (value (", " value)*)? "]" | "(" value [-+*/] value ")"
number ::= "-"? [0-9]+ ("." [0-9]+)?
string ::= "\"" ([^"\\\n] | "\\" ["\\nt])* "\""
'''


def text_of(draw, least, most): return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))


def person(draw):
    return {"name": text_of(draw, 2, 3), "age": draw.randint(0, 150), "email": f"{draw.choice('abcd')}da.{draw.randint(1, 99)}@example.org",
            "tags": [draw.choice(WORDS)[:12] for _ in range(draw.randint(0, 5))],
            "address": {"street": text_of(draw, 2, 4), "city": draw.choice(WORDS), "zip": f"SW{draw.randint(1, 9)}Y 4JH"}, "notes": text_of(draw, 20, 80)}


def tree(draw, depth=0):
    out = {"value": draw.choice([draw.randint(-1000, 1000), round(draw.random() * 100, 3), None, text_of(draw, 1, 3)])}
    for side in ("left", "right"):
        if depth < 5 and draw.random() < .7: out[side] = tree(draw, depth + 1)
    return out


def order(draw):
    hexes = lambda n: "".join(draw.choice("0123456789abcdef") for _ in range(n))
    return {"id": f"{hexes(8)}-{hexes(4)}-4{hexes(3)}-a{hexes(3)}-{hexes(12)}", "placed": f"2026-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}T12:{draw.randint(10, 59)}:30Z",
            "state": draw.choice(["new", "paid", "packed", "sent", "returned"]),
            "lines": [{"article": text_of(draw, 1, 4)[:40] + " abc", "count": draw.randint(1, 999), "price": round(draw.random() * 1000, 2)} for _ in range(draw.randint(1, 8))]}


def anything(draw, depth=0):
    kind = draw.randrange(6 if depth < 4 else 4)
    return [lambda: draw.randint(-10**6, 10**6), lambda: text_of(draw, 1, 9), lambda: draw.choice([True, False, None]), lambda: draw.random(),
            lambda: [anything(draw, depth + 1) for _ in range(draw.randint(0, 4))],
            lambda: {draw.choice(WORDS)[:9] + str(i): anything(draw, depth + 1) for i in range(draw.randint(0, 4))}][kind]()


def program(draw):
    value = lambda d=0: draw.choice([lambda: str(draw.randint(-99, 999)), lambda: "name" + str(draw.randint(1, 9)), lambda: '"two words, and more of them"',
                                     lambda: f"[{value(d + 1)}, {value(d + 1)}]" if d < 3 else "[]", lambda: f"({value(d + 1)}*{value(d + 1)})" if d < 3 else "0.5"])()
    line = lambda: draw.choice([lambda: f"const value{draw.randint(1, 99)} = {value()};", lambda: f"  print({value()}, {value()});", lambda: "// what follows is a line of words", lambda: ""])()
    return "".join(line() + "\n" for _ in range(15)) + "\n"  # the command takes one line feed off


def cases(draw):
    dump = lambda value, n: json.dumps(value, ensure_ascii=False, indent=2 if n % 2 else None)
    for name, schema, make in (("person", PERSON, person), ("tree", TREE, tree), ("order", ORDER, order)):
        yield name, ["--json-schema", json.dumps(schema)], [dump(make(draw), n) for n in range(8)]
    yield "any JSON object", ["--json-object"], [dump({"a": anything(draw), "b": [anything(draw) for _ in range(6)]}, n) for n in range(8)]
    yield "grammar of a language", ["--grammar", TYPESCRIPT], [program(draw) for _ in range(4)]
    yield "expression of words", ["--regex", r"([\p{L}\p{N}\"',;.()–-]+ ?)+[.!?]"], [text_of(draw, 40, 80).replace("\\", "") + " end." for _ in range(4)]
    yield "expression of a log", ["--regex", r"(\d{4}-\d\d-\d\d \[(INFO|WARN|ERROR)\] [^\n]{1,200}\n)+end"], [
        "".join(f"2026-11-{draw.randint(10, 30)} [{draw.choice(['INFO', 'WARN', 'ERROR'])}] {text_of(draw, 4, 12)}\n" for _ in range(8)) + "end"]
    names = sorted({f"{a} {b} {n}" for a in ("red", "green", "light blue") for b in ("house", "tree", "car", "bicycle") for n in range(80)})
    yield "960 choices", ["--choice", ",".join(names)], draw.sample(names, 12)


def summary(times):
    times = sorted(times)
    return {"tokens": len(times), "mean": statistics.fmean(times), "median": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "longest": times[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    work, draw = pathlib.Path(tempfile.mkdtemp()), random.Random(26)
    rows, first, again = [], [], []
    for name, constraint, texts in cases(draw):
        if constraint[0] in ("--json-schema", "--grammar"):
            (work / "constraint").write_text(constraint[1])
            constraint = [constraint[0], work / "constraint"]
        files = []
        for n, text in enumerate(texts):
            (work / f"text{n}").write_text(text)
            files += ["--text", work / f"text{n}"]
        [shown] = common.json_lines(arguments.stoa, "bench", "masks", "--tokenizer", arguments.tokenizer, *constraint, *files, "--rounds", arguments.rounds, "--json")
        rows.append({"case": name, "compile_ms": 1e3 * shown["compile_seconds"], "first": summary(shown["first_microseconds"]), "again": summary(shown["again_microseconds"])})
        first += shown["first_microseconds"]
        again += shown["again_microseconds"]
    rows.append({"case": "all", "compile_ms": None, "first": summary(first), "again": summary(again)})
    result = {"machine": common.facts(), "vocabulary": shown["vocabulary"], "rounds": arguments.rounds, "rows": rows}
    print(f"vocabulary of {shown['vocabulary']}; microseconds per mask\n")
    print("| constraint | compiled in ms | masks | mean | median | 99 % below | longest | mean once more |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        one = row["first"]
        compiled = "" if row["compile_ms"] is None else f"{row['compile_ms']:.1f}"
        print(f"| {row['case']} | {compiled} | {one['tokens']} | {one['mean']:.1f} | {one['median']:.1f} | {one['p99']:.0f} | {one['longest']:.0f} | {row['again']['mean']:.2f} |")
    if arguments.json: pathlib.Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
