# SPDX-License-Identifier: MIT
"""Writes docs/reference/validity-checks.md from the registry; `--check` only says whether the page is up to date.

Exit codes: 0 written, or up to date; 1 not up to date (with --check); 2 wrong usage.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from generated import write_or_compare

from rtgate.validity.check import ValidityCheck
from rtgate.validity.registry import CHECKS, OF_THE_RECORD

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "validity-checks.md"
_TOP = """\
# Validity checks

Every check that a measurement must pass before it is judged, in the order in which they are made. A failed check is an
`ERROR validity` that names it. What "everything", "figures" and "good news" mean is explained in
[what makes a measurement valid](../explanation/validity.md). This page is made from the program by `make docs`; do not
edit it.

A board's file may declare each of these not applicable, with the reason (`not_applicable: {NAME: REASON}`).
"""
_OF_THE_RECORD = """
## The record itself

These are made first, and no board may declare them not applicable. They are shown where they fail.
"""


def page() -> str:
    """Return the page's text."""
    parts = [_TOP, "## Of a measurement\n", *_sections(CHECKS), _OF_THE_RECORD.lstrip(), *_sections(OF_THE_RECORD)]
    return "\n".join(parts).rstrip() + "\n"


def _sections(checks: Sequence[ValidityCheck]) -> list[str]:
    return [line for check in checks for line in _section(check)]


def _section(check: ValidityCheck) -> list[str]:
    takes = "; ".join(filter(None, (check.invalidates.value, check.exceptions)))
    items = [f"* **Holds when** {check.holds}.", f"* **A failure invalidates** {takes}."]
    if check.readings:
        items += ["* **Reads before and after:**", *(f"    * `{pattern}`" for pattern in check.readings)]
    return [f"### {check.name}", "", *items, ""]


def main() -> int:
    """Write the page, or compare it."""
    return write_or_compare(PAGE, page(), what=(__doc__ or "").partition("\n")[0], source="the registry says")


if __name__ == "__main__":
    raise SystemExit(main())
