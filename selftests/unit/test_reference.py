# SPDX-License-Identifier: MIT
"""Each tool has a page in docs/reference/tools that says all that a reader of its figures has to know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtgate.tools.registry import TOOLS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tools"
# Tools of one program, or of one kind, share a page.
SHARED = {
    **dict.fromkeys(("fio-read", "fio-write", "fio-randread", "fio-randwrite"), "fio"),
    **dict.fromkeys(("msi-rate", "elbi-rate"), "interrupt-rate"),
    **dict.fromkeys(("pcitest", "pci_endpoint_test"), "endpoint-test"),
    **dict.fromkeys(("irq-hard", "irq-threaded"), "irq-response"),
    **dict.fromkeys(("irq-instrument-hard", "irq-instrument-threaded"), "irq-instrument"),
    "dmatest-rkep": "dmatest",
    **dict.fromkeys(("pcie-bar-wc", "pcie-bar-kernel"), "pcie-bar"),
    **dict.fromkeys(("xenomai-latency-kernel", "xenomai-latency-irq"), "xenomai-latency"),
}
SECTIONS = {
    "what it measures": r"\A# .+\n\n(?:Not yet|[A-Z`])[^|*]{80,}",
    "options": r"^\*\*Options\.\*\*|^\| option \||^```\n[a-z]",
    "exit codes": r"^\*\*Exit codes?\b|^## Exit codes",
    "validity": r"^\*\*Valid\*\*",
    "measurements": r"^\| measurement \|",
}


def _page(tool: str) -> str:
    return (PAGES / f"{SHARED.get(tool, tool)}.md").read_text(encoding="utf-8")


def _named(page: str) -> tuple[str, ...]:
    """Return patterns of the measurements in the page's tables: words in capitals stand for any, `.max` goes on."""
    found: list[str] = []
    for row in re.findall(r"^\| (`.*)$", page, re.MULTILINE):
        bases: tuple[str, ...] = ()
        for name in re.findall(r"`([^`]+)`", row.partition(" | ")[0]):
            whole = [f"{base}{name}" for base in bases] if name.startswith(".") else [name]
            bases = bases if name.startswith(".") else (name, name.rpartition(".")[0])
            found += [re.sub(r"[A-Z]{3,}", "[a-z0-9_.]+", re.escape(one)) for one in whole]
    return tuple(found)


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_s_page_has_every_section(tool: str, section: str) -> None:
    assert re.search(SECTIONS[section], _page(tool), re.MULTILINE)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_s_page_names_every_measurement(tool: str) -> None:
    named = _named(_page(tool))
    assert [name for name in TOOLS[tool].reports if not any(re.fullmatch(one, name) for one in named)] == []


def test_no_page_is_of_a_tool_that_is_gone() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")} - {"README"}
    assert pages == {SHARED.get(tool, tool) for tool in TOOLS}
