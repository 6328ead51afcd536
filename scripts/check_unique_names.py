#!/usr/bin/env python3
"""Names in unnamed namespaces are unique in a module and in its tests, for their files may be compiled together (cmake/StoaParseOnce.cmake).

Reads text as clang-format lays it out: what an unnamed namespace declares begins in column 0. Functions of one name may
stand in several files where their parameters differ. None has the name of a function or a type that a header of the module declares
in the namespace around it: it would hide that from the files after it. Exit code 1 where a name is wrong. scripts/check_unique_names.py"""
import collections
import itertools
import pathlib
import re
import sys

PROJECT = pathlib.Path(__file__).resolve().parent.parent
ROOT = PROJECT / "src"
ONE_BY_ONE = ["gpu", "processes"]  # folders of tests/ whose files are compiled by themselves
TYPE = re.compile(r"^(?:template <.*> ?)?(?:class|struct|enum class|enum|union)\s+(?:alignas\(\w+\) )?(\w+)[^;]*\{")
ALIAS = re.compile(r"^using (\w+) = (.*);")
CONSTANT = re.compile(r"^(?:inline )?(?:constexpr|const|static)\b[^(=]*?\b(k[A-Z]\w*)\b")
FUNCTION = re.compile(r"^(?:template <.*> )?[A-Za-z_][\w:<>,*& ]*?[ *&](\w+)\(([^;{]*)")


def separate():
    """Files that are compiled by themselves: those that SEPARATE of a module names."""
    text = (ROOT / "CMakeLists.txt").read_text()
    return [path for paths in re.findall(r"SEPARATE ([\w/. ]+)", text)
            for path in itertools.takewhile(lambda word: not word.isupper(), paths.split())]


def modules():
    text = (ROOT / "CMakeLists.txt").read_text()
    return sorted(re.findall(r"^ *stoa_module\(([\w/]+)", text, re.M), key=len, reverse=True)


def constants(declaration):
    """All names that a declaration gives.

    >>> constants('constexpr int kLeft = f(1, kOther), kRight{3}; // kNot')
    ['kLeft', 'kRight']
    >>> constants('const char* const kName = "a, kNot; b", *kSecond = "x";')
    ['kName', 'kSecond']
    >>> constants('constexpr std::array<std::pair<char, double>, 4> kUnits{{{1, 2}}};')
    ['kUnits']
    """
    flat = re.sub(r'"(?:\\.|[^"\\])*"', "", declaration)
    while flat != (flat := re.sub(r"\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>", "", flat)):
        pass  # the innermost brackets first
    found = []
    for part in flat.split(";")[0].split(","):
        if match := re.search(r"\b(k[A-Z]\w*)", part.split("=")[0]):
            found.append(match[1])
    return found


def names(path):
    """(namespace, kind, name) of what the file's unnamed namespaces declare."""
    inside, namespace, previous = False, "", ""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r"namespace ([\w:]+) \{", line):
            namespace = match[1]
        if line == "namespace {":
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        elif inside and line and line[0] not in " #/}":
            whole = line
            following = number + 1
            while whole.count("(") > whole.count(")") and following < len(lines):
                whole += " " + lines[following].strip()
                following += 1
            if match := TYPE.match(whole):
                yield namespace, match[1], ""
            elif match := ALIAS.match(whole):
                yield namespace, match[1], "= " + match[2]
            elif CONSTANT.match(whole):
                while ";" not in whole and following < len(lines):
                    whole += " " + lines[following].strip()
                    following += 1
                for name in constants(whole):
                    yield namespace, name, ""
            elif match := FUNCTION.match(whole):
                parameters = re.sub(r"\s*=[^,)]*", "", whole[match.start(2):])
                depth, end = 1, 0
                for end, letter in enumerate(parameters):
                    depth += (letter == "(") - (letter == ")")
                    if depth == 0:
                        break
                types = [re.sub(r"\s*\b\w+$", "", part.strip()) for part in parameters[:end].split(",")]
                yield namespace, match[1], ", ".join(types)


def names_of_headers(folder):
    """{(namespace, name)} of the functions and types that headers declare in a namespace."""
    found = set()
    for path in folder.rglob("*.h"):
        namespace = ""
        for line in path.read_text().splitlines():
            if match := re.match(r"namespace ([\w:]+) \{", line):
                namespace = match[1]
            elif match := TYPE.match(line) or ALIAS.match(line):
                found.add((namespace, match[1]))
            elif line and line[0] not in " #/}" and not line.startswith(("class ", "struct ", "using ")) and (match := FUNCTION.match(line)):
                found.add((namespace, match[1]))
    return found


def main():
    places, alone, folders = collections.defaultdict(set), separate(), modules()
    units = {}  # of what is compiled together: the folder of its headers
    for path in sorted([*ROOT.rglob("*.cc"), *(PROJECT / "tests").glob("*/*.cc")]):
        if path.is_relative_to(ROOT):
            name = path.relative_to(ROOT).as_posix()
            unit = next((m for m in folders if name.startswith(m + "/")), None)
            if unit is None or name.endswith("_kernels.cc") or any(name == a or name.startswith(a + "/") for a in alone):
                continue
            folder = ROOT / unit
            if name.endswith("_test.cc"):
                unit += "_test"
        else:
            name, folder = path.relative_to(PROJECT).as_posix(), path.parent
            if folder.name in ONE_BY_ONE:
                continue
            unit = folder.relative_to(PROJECT).as_posix()
        units[unit] = folder
        for namespace, declared, types in names(path):
            places[unit, namespace, declared, types].add(name)
    aliases = collections.defaultdict(lambda: (set(), set()))
    for (module, namespace, declared, types), files in list(places.items()):
        if types.startswith("= "):  # the same alias may stand in several files
            meanings, where = aliases[module, namespace, declared]
            meanings.add(types)
            where |= files
            del places[module, namespace, declared, types]
    for (module, namespace, declared), (meanings, where) in aliases.items():
        if len(meanings) > 1 or (module, namespace, declared, "") in places:
            places[module, namespace, declared, ""] |= where
    twice = {key: files for key, files in places.items() if len(files) > 1}
    for (module, _, declared, types), files in sorted(twice.items()):
        print(f"{module}: {declared}{'(' + types + ')' if types else ''} in {', '.join(sorted(files))}: expected one name for one thing")
    open_names = {unit: names_of_headers(folder) for unit, folder in units.items()}
    hiding = {key: files for key, files in places.items() if key[1:3] in open_names[key[0]]}
    for (module, namespace, declared, _), files in sorted(hiding.items()):
        print(f"{module}: {declared} in {', '.join(sorted(files))}: expected another name than that of {namespace}::{declared} in a header")
    print(f"names: {len(places)} in unnamed namespaces" + ("" if not twice else f", {len(twice)} twice"))
    return 1 if twice or hiding else 0


if __name__ == "__main__":
    sys.exit(main())
