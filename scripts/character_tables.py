"""What make_curate_tables.py and make_repair_tables.py share: tables of characters as C++ (namespace stoa::curate)."""
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
FOOTER = "}  // namespace stoa::curate\n"


def classes(sets):
    """Rows of bits, one bit for each set, and runs of characters with the same row: first code point << 8 | number of the row (class_table.h)."""
    rows, numbers, runs, last = [], {}, [], None
    assert len(sets) <= 32
    for c in range(0x110000):
        bits = sum(1 << i for i, s in enumerate(sets) if c in s)
        if bits not in numbers:
            numbers[bits] = len(rows)
            rows.append(bits)
        if numbers[bits] != last:
            last = numbers[bits]
            runs.append(c << 8 | last)
    assert len(rows) <= 256
    return rows, runs


def lines(values, width=128):
    text, line = [], ""
    for v in values:
        if len(line) + len(v) + 1 > width:
            text.append(line)
            line = ""
        line += v + ","
    return "\n".join(text + [line])


def mapping(name, changes):
    """A token::BertMapping: `changes` are pairs of a code point and the text of at most three characters that it becomes."""
    changes = [(c, [ord(x) for x in to]) for c, to in changes]
    assert all(len(to) <= 3 for _, to in changes)
    single = [f"{c << 32 | to[0]:#x}" for c, to in changes if len(to) == 1]
    several = ["{%s,{%s}}" % (hex(c), ",".join(map(hex, to)) or "0") for c, to in changes if len(to) != 1]
    return f"""token::BertMapping {name}() {{
  static constexpr std::uint64_t kSingle[] = {{
{lines(single or ["0"])}
  }};
  static constexpr token::BertMapping::Several kSeveral[] = {{
{lines(several)}
  }};
  return {{kSingle, kSeveral}};
}}
"""


def octal(text):
    """Text within quotes of C++: all but ASCII letters, digits and semicolons as octal bytes."""
    return "".join(c if c.isascii() and c.isalnum() or c == ";" else "".join(f"\\{b:03o}" for b in c.encode()) for c in text)
