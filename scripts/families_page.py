#!/usr/bin/env python3
"""Makes docs/families.md: the families that load and train, what was compared with transformers, what is refused and why.

Read from the sources: the table of src/model/huggingface/family.cc, the comment that begins each family's file, the cases of
tests/fixtures/model/, tests/slow/random_families/ with the refusals that random_models.py accepts, and the record of its last
full run, tests/slow/random_models.json (`random_models.py --json tests/slow/random_models.json`).

  python3 scripts/families_page.py            # writes the page
  python3 scripts/families_page.py --check    # exit status 1 where it is not current
"""
import ast
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ROOT / "src" / "model" / "huggingface" / "families"
PAGE = ROOT / "docs" / "families.md"
HEAD = """# Families of models

Made by `scripts/families_page.py` from the sources; a test keeps it current. [add-a-model.md](add-a-model.md) says how a family is
added.

A Hugging Face directory whose `config.json` has one of these `model_type`s loads, scores, generates, starts trainings and is written
again, in the spellings of transformers 4.x and 5.x. Every family trains with every layout, precision and recomputation of
[parallelism.md](parallelism.md): families are names for options of one model ([configuration.md](configuration.md)), not code of
their own. What a family's file says that is not known is refused by name, never passed over.

- **fixtures**: tiny models whose logits, loss and gradient of every tensor are those of transformers within 1e-4, and whose
  configuration survives being written and read, in every run of the tests.
- **random**: `tests/slow/random_models.py` draws models of odd sizes with every option and both spellings: log-probabilities within 1e-3
  of transformers', read and written. What transformers does not have is computed by the family named there, from the same weights.
  The table gives the number of models and the largest difference of the last full run: RUN.

Of every family a share of a head in which no channel rotates is refused, and yarn of an odd number of channels.

An architecture that stands in no row is refused with the list of those that do. A combination of options that no family has (trained
with Stoa) is written as `stoa_gpt`, which transformers cannot load; `stoa checkpoint export --family NAME` writes a model as any family
that can say it.
"""

def families():
    """Rows in the order of the table: (constant, model_type, architecture, path)."""
    table = re.search(r"kFamilies\{(.*?)\};", (FAMILIES.parent / "family.cc").read_text(), re.S)[1]
    found = {}
    for path in sorted(FAMILIES.glob("*.cc")):
        for constant, kind, architecture in re.findall(r'^const Family (k\w+)\{\s*"([^"]+)",\s*"([^"]+)"', path.read_text(), re.M):
            found[constant] = (kind, architecture, path)
    return [found[constant] for constant in re.findall(r"&(k\w+)", table)]


def comment(path):
    """The comment that begins a file."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//"): break
        lines.append(line[2:].strip())
    return " ".join(lines)


def constants(kind):
    """The constants of a family's file of tests/slow/random_families/; None: there is no such file."""
    path = ROOT / "tests" / "slow" / "random_families" / f"{kind}.py"
    if not path.exists(): return None
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("REFUSALS", "AS"):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def cases():
    out = {}
    for folder in ("encoders", "families"):
        for path in sorted((ROOT / "tests" / "fixtures" / "model" / folder).glob("*.json")):
            out.setdefault(json.loads(path.read_text())["config"]["model_type"], []).append(path.stem)
    return out


def kind_of(path):
    text = path.read_text()
    return "encoder" if "encoder_keys.h" in text else "encoder-decoder" if "ModelKind::kT5" in text else "decoder"


def last_run():
    return json.loads((ROOT / "tests" / "slow" / "random_models.json").read_text())


def random_proof(kind, drawn):
    out = "random"
    found = last_run()["families"].get(kind)
    if found: out += f" ({found['drawn']}, {found['worst']:.1g})"
    return out + (f", computed by {drawn['AS']}" if "AS" in drawn else "")


def row(kind, architecture, path, compared):
    drawn = constants(kind)
    proofs = []
    if compared.get(kind): proofs.append("fixtures: " + ", ".join(compared[kind]))
    if drawn is not None: proofs.append(random_proof(kind, drawn))
    about = comment(path).replace("|", "\\|")
    refused = "; ".join((drawn or {}).get("REFUSALS", {}).values()) or "-"
    return f"| `{kind}` | {architecture} | {kind_of(path)} | {about} | {'; '.join(proofs) or 'files of the tests'} | {refused} |"


def page():
    compared = cases()
    rows = [row(kind, architecture, path, compared) for kind, architecture, path in families() if kind != "stoa_gpt"]
    table = ["| model_type | architecture | kind | what it is | compared with transformers | refused |", "|---|---|---|---|---|---|"]
    run = last_run()
    said = f"{run['models']:,} models, {len(run['failures'])} failures, transformers {run['transformers']}"
    return HEAD.replace("RUN", said) + "\n" + "\n".join(table + sorted(rows)) + "\n"


def main():
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text() != page():
            raise SystemExit("docs/families.md is not current: run python3 scripts/families_page.py")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
