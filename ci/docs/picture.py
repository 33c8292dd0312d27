# SPDX-License-Identifier: MIT
"""Draws docs/explanation/architecture.svg from the layers in .importlinter and from the imports in src/rtgate.

Each box is a package or a module of `rtgate`, each row a layer, each line an import from one box to another; one that
points upwards is red. The orange numbers are the way of one measurement.
`--check` writes nothing. Exit codes: 0 drawn, or up to date; 1 not up to date (with --check); 2 wrong usage.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from generated import write_or_compare

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "rtgate"
PICTURE = ROOT / "docs" / "explanation" / "architecture.svg"

# Boxes in the order in which one `rtgate gate` goes through them; docs/explanation/architecture.md explains each.
WAY = ("cli", "workflow", "kernel", "plugin", "measure", "target", "console", "records", "validity", "judge", "report")

WIDTH, ROW, BOX_HEIGHT, GAP, LETTER = 800, 54, 30, 12, 8.4
SHORT_ROW, SHIFT = 3, 100


@dataclass(frozen=True, slots=True)
class Box:
    """A package or module, and where it is drawn."""

    name: str
    row: int
    x: float
    width: float

    @property
    def y(self) -> float:
        """The upper edge."""
        return 16 + self.row * ROW

    @property
    def middle(self) -> float:
        """The middle between left and right."""
        return self.x + self.width / 2


def rows() -> tuple[tuple[str, ...], ...]:
    """Return the layers of .importlinter, the highest first, each with its packages and modules."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter", encoding="utf-8")
    lines = parser["importlinter:contract:layers"]["layers"].split("\n")
    return tuple(tuple(re.findall(r"\w+", line)) for line in lines if line.strip())


def imports() -> set[tuple[str, str]]:
    """Return which package or module of rtgate imports which other one."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for module in _imports(ast.parse(path.read_text(encoding="utf-8"))):
            words = module.split(".")
            if words[0] == "rtgate" and len(words) > 1 and words[1] not in (here, "__version__"):
                found.add((here, words[1]))
    return found


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def boxes() -> dict[str, Box]:
    """Return where each package and module is drawn: centred in its row."""
    placed = {}
    for row, names in enumerate(rows()):
        widths = [len(name) * LETTER + 22 for name in names]
        x = (WIDTH - sum(widths) - GAP * (len(names) - 1)) / 2
        if len(names) <= SHORT_ROW:  # beside each other, so that lines do not lie on top of each other
            x += SHIFT if row % 2 else -SHIFT
        for name, width in zip(names, widths, strict=True):
            placed[name] = Box(name, row, x, width)
            x += width + GAP
    return placed


def draw() -> str:
    """Return the picture."""
    placed = boxes()
    height = 16 + len(rows()) * ROW
    lines = [
        "<!-- Made by ci/docs/picture.py (`make docs`) from .importlinter and the imports; do not edit. -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<style>text { font-family: monospace; font-size: 14px; }</style>",
        "<title>The layers of rtgate: every import points down</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number in range(len(rows())):
        fill = "#eef2f7" if number % 2 else "#f8fafc"
        lines.append(f'<rect x="0" y="{6 + number * ROW}" width="{WIDTH}" height="{ROW}" fill="{fill}"/>')
    for here, there in sorted(imports()):
        start, end = placed[here], placed[there]
        if start.row != end.row:
            look = "#90a4b8" if start.row < end.row else "#dc2626"
            lines.append(
                f'<path d="M{start.middle:.0f} {start.y + BOX_HEIGHT:.0f} L{end.middle:.0f} {end.y:.0f}" '
                f'stroke="{look}" stroke-width="0.7" stroke-opacity="0.45" fill="none"/>'
            )
    for box in placed.values():
        lines += _box(box)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _box(box: Box) -> Iterator[str]:
    number = WAY.index(box.name) + 1 if box.name in WAY else 0
    stroke = "#c2570c" if number else "#475569"
    yield (
        f'<rect x="{box.x:.1f}" y="{box.y:.0f}" width="{box.width:.1f}" height="{BOX_HEIGHT}" rx="5" fill="#ffffff" '
        f'stroke="{stroke}" stroke-width="1.4"/>'
    )
    yield f'<text x="{box.middle:.1f}" y="{box.y + 20:.0f}" text-anchor="middle" fill="#0f172a">{box.name}</text>'
    if number:
        yield f'<circle cx="{box.x:.1f}" cy="{box.y:.0f}" r="10" fill="{stroke}"/>'
        yield (f'<text x="{box.x:.1f}" y="{box.y + 4:.0f}" text-anchor="middle" fill="#ffffff">{number}</text>')


def main() -> int:
    """Draw the picture, or compare it."""
    return write_or_compare(PICTURE, draw(), what=(__doc__ or "").partition("\n")[0], source="the imports say")


if __name__ == "__main__":
    raise SystemExit(main())
