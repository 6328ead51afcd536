#!/usr/bin/env python3
"""Writes src/curate/code/extension_limits_data.cc: which source files StarCoder's data has, by language and extension, and with which limits.

  python scripts/make_extension_limits.py code_meta.csv src/curate/code

code_meta.csv: nemo_curator/utils/code_meta.csv of NeMo Curator 1.4.0, the table that people of BigCode filled in when they looked at samples of each extension.
"""
import csv
import pathlib
import sys


def number(text):
    try:
        return float(text)
    except ValueError:
        return 0.0


rows = {}
for row in csv.DictReader(open(sys.argv[1], encoding="utf-8")):
    longest = number(row["Long_line_threshold"])
    rows[row["language"], row["extension"]] = (row["Include"] == "1", int(longest), number(row["Alphanum_threshold"]), number(row["Alpha filter"]))
rows.pop(("", ""), None)
entries = ['    {"%s", "%s", %s, %d, %g, %g},' % (language, extension, str(include).lower(), *limits) for (language, extension), (include, *limits) in sorted(rows.items())]
(pathlib.Path(sys.argv[2]) / "extension_limits_data.cc").write_text(f"""// Written by scripts/make_extension_limits.py from NeMo Curator 1.4.0 (Apache licence 2.0): do not edit.
#include "curate/code/extension_limits.h"

namespace stoa::curate {{

// clang-format off
std::span<const ExtensionLimits> extension_limits() {{
  static constexpr ExtensionLimits kTable[] = {{
{chr(10).join(entries)}
  }};
  return kTable;
}}
// clang-format on

}}  // namespace stoa::curate
""", encoding="utf-8")
