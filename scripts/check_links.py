#!/usr/bin/env python3
"""Checks that relative links of the Markdown pages lead to files and headings that exist, and that the index and the site name
every page of docs/."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = (("", "*.md"), ("docs", "**/*.md"), ("bench", "**/*.md"), ("configs", "**/*.md"), ("tests", "**/*.md"))


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    out, fenced = set(), False
    for line in page.read_text().splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (heading := re.match(r"#+ +(.*)", line)):
            text = re.sub(r"[^\w\- ]", "", heading[1].lower())
            out.add(text.replace(" ", "-"))
    return out


def main():
    pages = [path.relative_to(ROOT).as_posix() for folder, pattern in PAGES for path in sorted((ROOT / folder).glob(pattern))]
    wrong = []
    for name in pages:
        page = ROOT / name
        text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), page.read_text(), flags=re.S)
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if "://" in target or target.startswith("mailto:"):
                    continue
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                if not file.exists():
                    wrong.append(f"{name}:{number}: {target}: there is no such file")
                elif anchor and anchor not in anchors(file):
                    wrong.append(f"{name}:{number}: {target}: the page has no such heading")
    for listing in (ROOT / "docs" / "index.md", ROOT / "docs" / "mkdocs.yml"):
        named = set(re.findall(r"[\w-]+\.md", listing.read_text()))
        missing = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named | {"index.md"})
        wrong += [f"docs/{listing.name}: does not name docs/{name}" for name in missing]
    print("\n".join(wrong) or f"{len(pages)} pages: every link leads somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
