# SPDX-License-Identifier: MIT
"""Tables that commands print: without a frame, and nothing is cut off.

In a terminal long names are folded; a pipe has no width of its own, so there each row is one line.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtgate.report.text import plain_text

_WIDEST = 10_000


def print_table(console: Console, table: Table) -> None:
    """Print a table without trailing space; a pipe has no width of its own, so there no line is ever folded."""
    width = console.width if console.is_terminal else _WIDEST
    for line in console.render_lines(table, console.options.update(width=width), pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
        text.rstrip()
        console.print(text, highlight=False, soft_wrap=True)


def show_listing(names: Iterable[str], rows: Iterable[Iterable[object]], *, right: Container[str] = ()) -> None:
    """Print a table.

    Args:
        names: of the columns.
        rows: their cells; control characters in them are not printed.
        right: names of columns of numbers, whose last digits stand below each other.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name in right else "left")
    console = Console(highlight=False)
    for row in rows:
        cells = [plain_text(str(cell)) for cell in row]
        table.add_row(*(Text(cell if console.is_terminal else cell.replace("\n", "; ")) for cell in cells))
    print_table(console, table)
