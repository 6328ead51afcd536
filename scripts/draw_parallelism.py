#!/usr/bin/env python3
"""Draws docs/drawings/*.svg, the pictures of docs/parallelism.md: what each axis splits and what is sent.

    python3 scripts/draw_parallelism.py [--check]     --check: exit status 1 where a file is another

A rank has one colour in all of them. The colours follow the reader's light or dark mode.
"""
import pathlib
import sys

WIDTH = 700
STYLE = """
    text { font: 13px sans-serif; fill: #24292f; text-anchor: middle }
    .title { font-weight: bold; font-size: 14px } .left { text-anchor: start } .small { font-size: 12px; fill: #57606a }
    .sent { font-weight: bold; fill: #9a3412 } .mono { font-family: monospace }
    rect { rx: 5; stroke-width: 1.5 } .arrow { stroke: #c2410c; stroke-width: 2; fill: none } .head { fill: #c2410c }
    .flow { stroke: #8c959f; stroke-width: 1.5; fill: none } .flowhead { fill: #8c959f }
    .r0 { fill: #dbeafe; stroke: #2563eb } .r1 { fill: #ffedd5; stroke: #ea580c } .r2 { fill: #dcfce7; stroke: #16a34a }
    .r3 { fill: #f3e8ff; stroke: #9333ea } .none { fill: none; stroke: #8c959f; stroke-dasharray: 4 4 } .frame { fill: none; stroke: #d0d7de }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .small { fill: #9da7b3 } .sent { fill: #fdba74 } .arrow { stroke: #fb923c } .head { fill: #fb923c }
      .r0 { fill: #1e3a8a; stroke: #60a5fa } .r1 { fill: #7c2d12; stroke: #fb923c } .r2 { fill: #14532d; stroke: #4ade80 }
      .r3 { fill: #581c87; stroke: #c084fc } .none { stroke: #6e7681 } .frame { stroke: #30363d }
    }
"""


class Drawing:
    """Shapes in the order in which they are drawn; x, y of the upper left corner, in pixels."""

    def __init__(self, height, title):
        self.height = height
        self.title = title
        self.shapes = []

    def text(self, x, y, words, kind=""):
        self.shapes.append(f'<text x="{x}" y="{y}" class="{kind}">{words}</text>')

    def box(self, x, y, width, height, kind, *lines):
        self.shapes.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" class="{kind}"/>')
        for i, line in enumerate(lines):
            self.text(x + width / 2, y + height / 2 + 4.5 + 16 * (i - (len(lines) - 1) / 2), line)

    def path(self, points, kind="arrow", both=False):
        """A line through the points with a head at its end, or at both ends."""
        marks = f' marker-end="url(#{kind})"' + (f' marker-start="url(#{kind})"' if both else "")
        line = "M" + " L".join(f"{x} {y}" for x, y in points)
        self.shapes.append(f'<path d="{line}" class="{kind}"{marks}/>')

    def between(self, y, words, left=350, right=460, both=True):
        """What two ranks side by side send each other."""
        self.path([(left, y), (right, y)], both=both)
        self.text((left + right) / 2, y - 8, words, "sent")

    def ranks(self, names=("rank 0", "rank 1"), y=22):
        for column, name in zip(COLUMNS, names):
            self.text(column + BOX / 2, y, name, "title")

    def row(self, y, label, left, right, height=34):
        """The same thing on both ranks: its name, then what each holds or does."""
        self.text(10, y + height / 2 + 4.5, label, "left small")
        for rank, (column, lines) in enumerate(zip(COLUMNS, (left, right))):
            self.box(column, y, BOX, height, f"r{rank}", *lines.split("|"))

    def down(self, y, length=14):
        """On to what each rank does next."""
        for column in COLUMNS:
            self.path([(column + BOX / 2, y), (column + BOX / 2, y + length)], "flow")

    def svg(self):
        heads = "".join(
            f'<marker id="{kind}" markerUnits="userSpaceOnUse" markerWidth="10" markerHeight="10" refX="8" refY="5" orient="auto-start-reverse">'
            f'<path d="M0 0 L10 5 L0 10 z" class="{head}"/></marker>' for kind, head in (("arrow", "head"), ("flow", "flowhead")))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" role="img">\n'
                f"  <title>{self.title}</title>\n  <style>{STYLE}  </style>\n  <defs>{heads}</defs>\n  " + "\n  ".join(self.shapes) + "\n</svg>\n")


COLUMNS = (130, 460)  # of rank 0 and rank 1
BOX = 220


def data():
    d = Drawing(262, "Data parallel: whole weights on every rank, samples distributed, gradients added once per step")
    d.ranks()
    d.row(34, "weights", "L0 L1 L2 L3", "L0 L1 L2 L3")
    d.down(68)
    d.row(84, "samples", "s0 s2 s4 s6", "s1 s3 s5 s7")
    d.down(118)
    d.row(134, "compute", "forward, backward", "forward, backward")
    d.down(168)
    d.row(184, "gradients", "of L0 L1 L2 L3", "of L0 L1 L2 L3")
    d.between(201, "all-reduce")
    d.text(405, 219, "once per step", "small")
    d.text(405, 250, "then the same optimizer step on both: the weights stay equal", "small")
    return d


def zero():
    d = Drawing(328, "ZeRO: each stage replicates less")
    stages = (("stage 0", (2, 2, 2), ("all-reduce:", "gradients")),
              ("stage 1", (1, 2, 2), ("reduce-scatter:", "gradients", "all-gather:", "new weights")),
              ("stage 2", (1, 1, 2), ("reduce-scatter:", "gradients", "all-gather:", "new weights")),
              ("stage 3", (1, 1, 1), ("reduce-scatter:", "gradients", "all-gather:", "weights, layer by layer")))
    for i, label in enumerate(("optimizer", "gradients", "weights")):
        d.text(10, 92 + 50 * i, label, "left small")
    for s, (name, held, sent) in enumerate(stages):
        left = 84 + 156 * s
        d.text(left + 70, 22, name, "title")
        for rank in range(2):
            x = left + 74 * rank
            d.text(x + 33, 48, f"rank {rank}", "small")
            for i, parts in enumerate(held):
                for half in range(2):
                    has = parts == 2 or half == rank
                    d.box(x + 33 * half, 70 + 50 * i, 33, 36, f"r{rank}" if has else "none", "ab"[half] if has else "")
        for i, line in enumerate(sent):
            d.text(left + 70, 236 + 17 * i, line, "small" if i % 2 else "sent")
    d.text(350, 316, "a, b: halves of all elements; dashed: not held, the other rank has it", "small")
    return d


def tensor():
    d = Drawing(332, "Tensor parallel: heads and columns split, partial sums added")
    d.ranks()
    d.row(34, "residual stream", "x: all tokens, all features", "x: all tokens, all features")
    d.down(68)
    d.row(84, "columns", "q k v of heads 0, 1", "q k v of heads 2, 3")
    d.text(405, 105, "nothing is sent", "small")
    d.down(118)
    d.row(134, "attention", "heads 0, 1", "heads 2, 3")
    d.down(168)
    d.row(184, "rows", "output: partial sum", "output: partial sum")
    d.between(201, "all-reduce")
    d.down(218)
    d.row(234, "residual stream", "x + sum: all tokens", "x + sum: all tokens")
    d.text(350, 296, "The MLP is split in the same way: up by columns, down by rows, another all-reduce.", "small")
    d.text(350, 316, "Backward sends as much: the gradient of x is a partial sum at the columns.", "small")
    return d


def sequence():
    d = Drawing(332, "Sequence parallel: between the split layers each rank keeps its tokens only")
    d.ranks()
    d.row(34, "norm, dropout", "tokens 0 … 511", "tokens 512 … 1023")
    d.between(51, "all-gather")
    d.down(68)
    d.row(84, "columns", "all tokens,| q k v of heads 0, 1", "all tokens,| q k v of heads 2, 3", 40)
    d.down(124)
    d.row(140, "attention", "heads 0, 1", "heads 2, 3")
    d.down(174)
    d.row(190, "rows", "all tokens: partial sum", "all tokens: partial sum")
    d.between(207, "reduce-scatter")
    d.down(224)
    d.row(240, "residual stream", "x + sum: tokens 0 … 511", "x + sum: tokens 512 … 1023")
    d.text(350, 300, "An all-reduce is a reduce-scatter and an all-gather: the same bytes are sent,", "small")
    d.text(350, 318, "half of the residual stream is held. Backward exchanges the two.", "small")
    return d


def pipeline():
    d = Drawing(268, "Pipeline parallel: layers split; activations forward, their gradients backward")
    d.ranks(("rank 0: embedding, L0, L1", "rank 1: L2, L3, head"))
    left, slot, rows = 90, 60, (60, 150)
    times = ("F0 F1 .. B0 F2 B1 F3 B2 .. B3".split(), ".. F0 B0 F1 B1 F2 B2 F3 B3 ..".split())
    at = [{cell: i for i, cell in enumerate(cells)} for cells in times]
    for rank, cells in enumerate(times):
        d.text(10, rows[rank] + 22, f"rank {rank}", "left small")
        for i, cell in enumerate(cells):
            idle = cell == ".."
            d.box(left + slot * i, rows[rank], slot - 6, 34, "none" if idle else f"r{rank}", "idle" if idle else cell)
    for n in range(4):
        forward, backward = f"F{n}", f"B{n}"
        d.path([(left + slot * at[0][forward] + 44, rows[0] + 35), (left + slot * at[1][forward] + 12, rows[1] - 2)])
        d.path([(left + slot * at[1][backward] + 44, rows[1] - 1), (left + slot * at[0][backward] + 12, rows[0] + 36)])
    d.text(350, 208, "arrows: send and receive", "sent")
    d.text(350, 228, "F: forward, B: backward of a microbatch. Activations are sent after an F, their gradients after a B.", "small")
    d.text(350, 248, "This is 1F1B with four microbatches; the idle slots are the bubble. Time goes to the right.", "small")
    return d


def context():
    d = Drawing(330, "Context parallel: every sequence in chunks; keys and values travel around a ring")
    d.text(350, 22, "one sequence, eight chunks", "title")
    for chunk, rank in enumerate((0, 1, 2, 3, 3, 2, 1, 0)):
        d.box(66 + 72 * chunk, 36, 66, 30, f"r{rank}", f"{chunk}")
    d.text(350, 86, "each rank holds an early and a late chunk, which balances the number of keys", "small")
    boxes = [(20 + 175 * rank, 132) for rank in range(4)]
    for rank, (x, y) in enumerate(boxes):
        d.box(x, y, 135, 76, f"r{rank}", f"rank {rank}", f"queries {rank}, {7 - rank}: stay", f"keys, values {rank}, {7 - rank}")
        if rank < 3:
            d.path([(x + 137, y + 52), (x + 173, y + 52)])
    d.path([(612, 210), (612, 240), (87, 240), (87, 210)])
    d.text(350, 232, "send and receive: keys and values", "sent")
    d.text(350, 268, "After three such steps every query has seen all keys; a rank computes while the next keys arrive.", "small")
    d.text(350, 288, "Parts of the softmax are merged by their log-sum-exp.", "small")
    d.text(350, 308, "Backward: the gradients of the keys and values travel back with them.", "small")
    return d


def expert():
    d = Drawing(372, "Expert parallel: experts distributed; rows of tokens are sent to them and back")
    d.ranks()
    d.row(34, "attention", "all weights, samples s0 s2", "all weights, samples s1 s3")
    d.down(68)
    d.row(84, "router", "its tokens choose", "its tokens choose")
    d.between(101, "all-to-all")
    d.text(405, 119, "row counts", "small")
    d.path([(320, 120), (490, 166)], both=False)
    d.path([(490, 120), (320, 166)], both=False)
    d.text(10, 147, "all-to-all: rows", "left sent")
    d.row(168, "experts", "E0 E1", "E2 E3")
    d.path([(320, 204), (490, 250)], both=False)
    d.path([(490, 204), (320, 250)], both=False)
    d.text(10, 231, "all-to-all: results", "left sent")
    d.row(252, "sum per token", "s0 s2, and the shared expert", "s1 s3, and the shared expert")
    d.text(350, 314, "Rows for local experts are not sent. The gradients of E0 and E1 are complete on rank 0,", "small")
    d.text(350, 332, "which received all their tokens. Gradients of all other weights are added over both ranks.", "small")
    return d


DRAWINGS = {"data-parallel": data, "zero": zero, "tensor-parallel": tensor, "sequence-parallel": sequence, "pipeline-parallel": pipeline,
            "context-parallel": context, "expert-parallel": expert}


def main():
    directory = pathlib.Path(__file__).parent.parent / "docs/drawings"
    if sys.argv[1:] == ["--check"]:
        stale = [name for name, draw in DRAWINGS.items() if (directory / f"{name}.svg").read_text() != draw().svg()]
        if stale: sys.exit(f"not as drawn by {sys.argv[0]}: {', '.join(stale)}")
        return
    for name, draw in DRAWINGS.items(): (directory / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
