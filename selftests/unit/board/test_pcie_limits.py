# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rtgate.board.pcie import Function
from rtgate.board.pcie_limits import (
    GENERATIONS,
    GUIDE_PRINTS,
    LANES,
    PAYLOADS,
    Link,
    format_rate,
    link_of,
    share,
)
from rtgate.cli.main import main
from rtgate.errors import ParseError
from rtgate.units import Quantity, Unit

GUIDE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "data" / "pcie" / "theory.yaml").read_text(encoding="utf-8")
)
LINKS = st.builds(
    Link, generation=st.sampled_from(GENERATIONS), lanes=st.sampled_from(LANES), payload=st.sampled_from(PAYLOADS)
)


def _link(text: str, payload: int = 256) -> Link:
    gen, lanes = text.removeprefix("gen").split("x")
    return Link(generation=int(gen), lanes=int(lanes), payload=payload)


@pytest.mark.parametrize("gen", [1, 2, 3, 4])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_the_guides_table_of_raw_rates(gen: int, lanes: int) -> None:
    link = Link(generation=gen, lanes=lanes, payload=128)
    row = GUIDE["raw_mb_s"][f"gen{gen}"]
    assert format_rate(link.raw.value) == row[f"x{lanes}"]
    assert (link.gigatransfers, link.encoding) == (row["gt_s"], row["encoding"])


@pytest.mark.parametrize("payload", [128, 256])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_the_guides_table_after_packets(payload: int, lanes: int) -> None:
    link = Link(generation=3, lanes=lanes, payload=payload)
    printed = GUIDE["gen3_after_tlp_mb_s"][f"payload_{payload}"][f"x{lanes}"]
    assert GUIDE_PRINTS.get(link, format_rate(link.usable.value)) == printed
    # Where the guide rounds on its way, it stays within 2 in 10 000 of its own formula.
    assert float(printed) == pytest.approx(link.usable.value, rel=2e-4)


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    assert all(format_rate(link.usable.value) != printed for link, printed in GUIDE_PRINTS.items())


def test_the_command_prints_one_link(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pcie-limits", "--gen", "3", "--lanes", "4", "--payload", "256"]) == 0
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines() if line.startswith("Gen")] == [
        ["Gen3", "8", "128b/130b", "3938"],
        ["Gen3", "256", "0.9014", "3550"],
    ]
    assert "itself" not in out


def test_the_command_prints_every_figure_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pcie-limits"]) == 0
    words = capsys.readouterr().out.split()
    printed = [row[f"x{lanes}"] for row in GUIDE["raw_mb_s"].values() for lanes in (1, 2, 4, 8)]
    printed += [row[f"x{lanes}"] for row in GUIDE["gen3_after_tlp_mb_s"].values() for lanes in (1, 2, 4, 8)]
    assert len(printed) == 24
    assert [figure for figure in printed if figure not in words] == []


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pcie-limits", "--gen", "3", "--lanes", "8", "--payload", "128", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "generation": 3,
            "lanes": 8,
            "payload_bytes": 128,
            "gt_s": 8.0,
            "encoding": "128b/130b",
            "raw_mb_s": 7876.923,
            "usable_mb_s": 6463.116,
            "ceiling_mb_s": 6812.474,
            "guide_prints_mb_s": "6464",
        }
    ]


@pytest.mark.parametrize("option", [["--gen", "6"], ["--lanes", "3"], ["--payload", "100"], ["--gen", "x"]])
def test_the_command_refuses_what_no_link_has(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["pcie-limits", *option])
    assert caught.value.code == 2
    assert option[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("link", "rate", "percent"),
    [
        ("gen3x4", 3066.1, 86),
        ("gen3x4", 1660.6, 47),
        ("gen3x2", 1454.3, 82),
        ("gen3x2", 1080.2, 61),
        ("gen2x1", 427.1, 95),
    ],
)
def test_the_reference_figures_as_shares(link: str, rate: float, percent: int) -> None:
    assert round(100 * share(Quantity(rate, Unit.MB_S), _link(link))) == percent


def test_a_share_takes_any_unit_of_a_rate() -> None:
    link = _link("gen3x4")
    assert share(Quantity(1, Unit.MIB_S), link) == pytest.approx(1.048576 * share(Quantity(1, Unit.MB_S), link))
    with pytest.raises(ValueError, match="cannot be converted"):
        share(Quantity(1, Unit.VIRTUAL_MB_S), link)
    with pytest.raises(ValueError, match="cannot be converted"):
        share(Quantity(1, Unit.US), link)


def test_more_than_a_link_can_carry_is_a_measuring_error() -> None:
    with pytest.raises(
        ParseError,
        match="4000 MB/s is 113% of the 3550 MB/s that Gen3 x4 with payloads of 256 bytes can carry: a measuring err",
    ):
        share(Quantity(4000, Unit.MB_S), _link("gen3x4"))


def test_packets_with_the_least_overhead_are_no_error() -> None:
    # Completions of a solid-state disk have 20 bytes beside their payload, not the 28 of the guide's worst case.
    link = _link("gen3x4", 128)
    assert share(Quantity(link.raw.value * 128 / 148.1, Unit.MB_S), link) == pytest.approx(156 / 148.1)
    with pytest.raises(ParseError, match="measuring error"):
        share(Quantity(link.raw.value * 128 / 147.9, Unit.MB_S), link)


@given(LINKS)
def test_limits_are_in_order(link: Link) -> None:
    assert link.usable.value < link.ceiling.value < link.raw.value
    assert share(link.usable, link) == pytest.approx(1)


def test_facts_that_say_all_of_a_link_give_it() -> None:
    function = Function(name="endpoint", generation=3, width=4, mps=256)
    assert link_of(function) == _link("gen3x4")
    assert [
        link_of(None),
        link_of(replace(function, generation=None)),
        link_of(replace(function, width=None)),
        link_of(replace(function, mps=None)),
        link_of(replace(function, generation=6)),
        link_of(replace(function, width=12)),
    ] == [None] * 6


@pytest.mark.parametrize(
    ("gen", "lanes", "payload", "what"),
    [(0, 1, 128, "generation"), (6, 1, 128, "generation"), (3, 3, 128, "width"), (3, 1, 64, "payload")],
)
def test_what_is_no_link_is_refused(gen: int, lanes: int, payload: int, what: str) -> None:
    with pytest.raises(ValueError, match=f"no {what} "):
        Link(generation=gen, lanes=lanes, payload=payload)
