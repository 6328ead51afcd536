#!/usr/bin/env python3
"""Checks that relative links of the Markdown pages lead to files and headings that exist, and that the index and the site name
every page of docs/. A link to a line of a source, [`Executor::train`](../src/run/executor.cc#L49), leads to a line on which the
name in backticks stands; `--fix` finds the lines again after the sources have changed."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = (("", "*.md"), ("docs", "**/*.md"), ("bench", "**/*.md"), ("configs", "**/*.md"), ("tests", "**/*.md"))
LINE_LINK = re.compile(r"\[`([^`\]]+)`\]\(([^)\s#]+)#L(\d+)\)")


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    out, fenced = set(), False
    for line in page.read_text().splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (heading := re.match(r"#+ +(.*)", line)):
            text = re.sub(r"[^\w\- ]", "", heading[1].lower())
            out.add(text.replace(" ", "-"))
    return out


def lines_with(text, name):
    """Lines of a source, from 1, with a name: definitions at the left margin if there are any, else all.

    >>> lines_with("// run\\nvoid run();\\nvoid Loop::run() {\\n  prerun();\\n  run();\\n}\\n", "Loop::run")
    [3]
    >>> lines_with("struct A {\\n  void run();  // of A\\n};\\n", "run")
    [2]
    >>> lines_with("void rerun() {\\n}\\n", "run")
    []
    """
    word = re.compile(rf"(?<![\w:]){re.escape(name)}(?!\w)")
    found = [(number, line) for number, line in enumerate(text.splitlines(), 1)
             if word.search(line) and not line.lstrip().startswith(("//", "#include"))]
    margin = [number for number, line in found if not line[0].isspace() and not line.rstrip().endswith(";")]
    return margin or [number for number, _ in found]


def check_line_links(page, name, wrong, fix):
    text = page.read_text()

    def moved(match):
        identifier, path, line = match[1], match[2], int(match[3])
        file = (page.parent / path).resolve()
        if not file.is_file(): return match[0]  # named below
        lines = lines_with(file.read_text(), identifier)
        if line in lines: return match[0]
        if fix and lines:
            return f"[`{identifier}`]({path}#L{min(lines, key=lambda candidate: abs(candidate - line))})"
        number = text.count("\n", 0, match.start()) + 1
        where = f"it is on {', '.join(map(str, lines[:4]))} (scripts/check_links.py --fix)" if lines else "it is nowhere in the file"
        wrong.append(f"{name}:{number}: {path}#L{line}: '{identifier}' is not defined on that line: {where}")
        return match[0]

    new = LINE_LINK.sub(moved, text)
    if new != text: page.write_text(new)


def main():
    pages = [path.relative_to(ROOT).as_posix() for folder, pattern in PAGES for path in sorted((ROOT / folder).glob(pattern))]
    wrong = []
    for name in pages:
        page = ROOT / name
        check_line_links(page, name, wrong, "--fix" in sys.argv[1:])
        text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), page.read_text(), flags=re.S)
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if "://" in target or target.startswith("mailto:"):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                if not file.exists():
                    wrong.append(f"{name}:{number}: {target}: there is no such file")
                elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                    wrong.append(f"{name}:{number}: {target}: the page has no such heading")
    for listing in (ROOT / "docs" / "index.md", ROOT / "docs" / "mkdocs.yml"):
        named = set(re.findall(r"[\w-]+\.md", listing.read_text()))
        missing = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named | {"index.md"})
        wrong += [f"docs/{listing.name}: does not name docs/{name}" for name in missing]
    print("\n".join(wrong) or f"{len(pages)} pages: every link leads somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
