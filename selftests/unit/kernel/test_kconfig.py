# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from rtgate.kernel.kconfig import Definitions, Sources, scan


@pytest.fixture
def definitions(fake_tree: Path) -> Definitions:
    return scan(Sources(fake_tree, "arm64"))


@pytest.mark.parametrize(
    ("symbol", "asked", "config", "expected"),
    [
        ("PREEMPT_RTT", "y", {}, "this tree has no such symbol (near: CONFIG_PREEMPT_RT)"),
        ("ZZZ", "y", {}, "this tree has no such symbol"),
        (
            "PREEMPT_RT",
            "y",
            {"EXPERT": "y"},
            "init/Kconfig:9: depends on EXPERT && ARCH_SUPPORTS_RT (EXPERT=y, ARCH_SUPPORTS_RT=n)",
        ),
        ("NESTED", "y", {}, "init/Kconfig:28: depends on EXPERT (EXPERT=n)"),
        ("HZ_1000", "y", {"HZ_100": "y"}, "in the same choice CONFIG_HZ_100 was taken"),
        ("ARCH_SUPPORTS_RT", "y", {}, "init/Kconfig:18: it has no prompt: only another option can select it"),
        ("SELECTED", "n", {"SELECTOR": "y", "EXPERT": "y"}, "selected by CONFIG_SELECTOR"),
        ("SELECTED", "n", {"SELECTOR": "y"}, "init/Kconfig:44: Kconfig does not tell"),
        ("ARCH_SUPPORTS_RT", "n", {}, "init/Kconfig:18: it has no prompt: its default decides"),
        ("EXPERT", "y", {}, "init/Kconfig:15: Kconfig does not tell"),
    ],
)
def test_reason(definitions: Definitions, symbol: str, asked: str, config: dict[str, str], expected: str) -> None:
    assert definitions.reason(symbol, asked, config) == expected


def test_help_texts_define_nothing(definitions: Definitions) -> None:
    assert "NOT_A_SYMBOL" not in definitions.by_symbol


def test_other_architectures_do_not_count(fake_tree: Path) -> None:
    for arch in ("arm64", "x86"):
        (fake_tree / "arch" / arch).mkdir(exist_ok=True)
        (fake_tree / "arch" / arch / "Kconfig").write_text(f'config ONLY_{arch.upper()}\n\tbool "x"\n')
    assert "ONLY_X86" not in scan(Sources(fake_tree, "arm64")).by_symbol
    assert "ONLY_X86" in scan(Sources(fake_tree, "x86")).by_symbol


@pytest.mark.parametrize("place", ["samples", "Documentation"])
def test_every_directory_of_the_kernel_s_options_counts(fake_tree: Path, place: str) -> None:
    (fake_tree / place).mkdir()
    (fake_tree / place / "Kconfig").write_text('config SAMPLE_X\n\tbool "x"\n\tdepends on SAMPLES\n')
    reason = scan(Sources(fake_tree, "arm64")).reason("SAMPLE_X", "y", {})
    assert reason == f"{place}/Kconfig:1: depends on SAMPLES (SAMPLES=n)"


def test_continued_lines_and_menus(tmp_path: Path) -> None:
    (tmp_path / "Kconfig").write_text(
        'menu "M"\n\tdepends on OUTER\nconfig A\n\tbool "a"\n\tdepends on B && \\\n\t\tC\nendmenu\n'
        'config D\n\tbool "d"\n'
    )
    found = scan(Sources(tmp_path, "arm64"))
    assert found.reason("A", "y", {"B": "y", "C": "y"}) == "Kconfig:3: depends on OUTER (OUTER=n)"
    assert "depends on B &&" in found.reason("A", "y", {"OUTER": "y", "B": "y"})
    assert found.by_symbol["D"][0].depends == []


def test_what_a_comment_depends_on_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "Kconfig").write_text(
        'menu "M"\ncomment "needs X"\n\tdepends on !X\nconfig A\n\tbool "a"\n\tdepends on B\n\n'
        'comment "A needs B"\n\tdepends on !B\nconfig C\n\tbool "c"\nendmenu\n'
    )
    symbols = scan(Sources(tmp_path, "arm64")).by_symbol
    assert symbols.keys() == {"A", "C"}
    assert [symbols[name][0].depends for name in ("A", "C")] == [["B"], []]
