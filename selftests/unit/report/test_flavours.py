# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rtgate.errors import ConfigError
from rtgate.judge.verdict import Kind, Status, Verdict
from rtgate.records.record import Record
from rtgate.report import page
from rtgate.report.cases import CaseReport, cases
from rtgate.report.flavours import COLUMNS, TEXTS, as_document, differences, flavour_tables

if TYPE_CHECKING:
    from selftests.unit.report.conftest import World


def of_flavour(record: Record, flavour: str, release: str = "6.12.107", **environment: Any) -> Record:
    """Return the record as a kernel of another flavour would have left it."""
    made = replace(record.environment, flavour=flavour, kernel_release=release, **environment)
    return replace(record, kernel=replace(record.kernel, flavour=flavour, release=release), environment=made)


def reports(*records: Record, verdicts: tuple[Verdict, ...] = ()) -> list[CaseReport]:
    """Return the cases of runs of one kernel each, as they are read one after the other."""
    found: list[CaseReport] = []
    for flavour in dict.fromkeys(record.kernel.flavour for record in records):
        own = [record for record in records if record.kernel.flavour == flavour]
        found += cases(own, [one for one in verdicts if one.flavour == flavour])
    return found


def test_each_flavour_has_a_line_the_least_mean_first(world: World) -> None:
    ordinary = [of_flavour(world.record(world.boot(seed=seed, high_us=190.0)), "generic") for seed in (1, 2)]
    real_time = of_flavour(world.record(world.boot(high_us=40.0, samples=500)), "preempt_rt")
    (table,) = flavour_tables(reports(*ordinary, real_time))
    assert "latency, idle" == table.title
    assert ["preempt_rt", "generic"] == [line.case.flavour for line in table.lines]
    assert [500, 4000] == [line.samples for line in table.lines]
    first, second = (line.cells for line in table.lines)
    assert ("preempt_rt", "cyclictest", "1", "500") == first[:4]
    assert ("40.0", "6.12.107, tree at candidate, image aaaaaaaaaaaa") == first[-2:]
    assert ("2", "4,000", "190.0") == (second[2], second[3], second[-2])


def test_tools_of_one_load_stand_together(world: World) -> None:
    ordinary = of_flavour(world.record(world.boot()), "generic")
    cobalt = of_flavour(world.record(world.boot(case="latency/xenomai-latency:idle", high_us=20.0)), "xenomai")
    loaded = of_flavour(world.record(world.boot(case="latency/cyclictest:hackbench")), "generic")
    tables = flavour_tables(reports(ordinary, cobalt, loaded))
    assert [("latency, hackbench", 1), ("latency, idle", 2)] == [(one.title, len(one.lines)) for one in tables]
    assert ["xenomai-latency", "cyclictest"] == [line.case.tool for line in tables[1].lines]


@pytest.mark.parametrize("status", [Status.ERROR, Status.MISS])
def test_an_invalid_measurement_has_no_figures(world: World, status: Status) -> None:
    good = of_flavour(world.record(world.boot()), "preempt_rt")
    bad = of_flavour(world.record(world.boot(high_us=10.0)), "generic")
    doubt = world.verdict(status, Kind.VALIDITY, "seed 1: page faults", flavour="generic")
    (table,) = flavour_tables(reports(good, bad, verdicts=(doubt,)))
    assert ["", "seed 1: page faults"] == [line.doubt for line in table.lines]
    assert {"-"} == set(table.lines[1].cells[3:-1])
    document = as_document([table])["latency, idle"]
    assert isinstance(document, list)
    assert document[1]["max"] is None
    assert "generic: no figures, as seed 1: page faults" in page.flavours([table])


@pytest.mark.parametrize("kind", [Kind.FLAVOUR, Kind.BOOT, Kind.HANG, Kind.FAULT])
def test_a_kernel_that_died_or_lost_its_flavour_has_no_figures(world: World, kind: Kind) -> None:
    record = of_flavour(world.record(world.boot()), "preempt_rt")
    (table,) = flavour_tables(reports(record, verdicts=(world.verdict(Status.FAIL, kind, "seed 2: it died"),)))
    assert "seed 2: it died" == table.lines[0].doubt
    assert table.picture is None


def test_a_broken_limit_is_no_doubt(world: World) -> None:
    record = of_flavour(world.record(world.boot(high_us=131.4)), "preempt_rt")
    (table,) = flavour_tables(reports(record, verdicts=(world.over_limit(),)))
    assert "131.4" == table.lines[0].cells[-2]


def test_without_any_figure_there_is_no_picture(world: World) -> None:
    record = of_flavour(world.record(world.boot()), "preempt_rt")
    (table,) = flavour_tables(reports(record, verdicts=(world.verdict(Status.ERROR, Kind.VALIDITY, "broken"),)))
    assert table.picture is None
    assert "<img" not in page.flavours([table])


@pytest.mark.parametrize(
    ("field", "value"),
    [("cpus", "4"), ("soc", "RK3588"), ("cpu_model", "cortex-a76"), ("instruction_ns", "4"), ("memory_mib", "1024")],
)
def test_another_machine_is_refused(world: World, field: str, value: str) -> None:
    ordinary = of_flavour(world.record(world.boot()), "generic")
    other = of_flavour(world.record(world.boot(board="other")), "preempt_rt", **{field: value})
    with pytest.raises(ConfigError, match=f"^{field} is .* on virt-arm64 and {value} on other: .* one machine$"):
        flavour_tables(reports(ordinary, other))


def test_two_kernels_of_one_flavour_are_refused(world: World) -> None:
    record = world.record(world.boot())
    with pytest.raises(ConfigError, match=r"two kernels have the flavour preempt_rt: name one of each"):
        flavour_tables([*cases([record], []), *cases([record], [])])


def test_without_a_latency_there_is_nothing_to_show(world: World) -> None:
    with pytest.raises(ConfigError, match="no case has a histogram of latencies"):
        flavour_tables(reports(world.record(world.boot(state="hang"))))


def test_what_else_differs_is_told_and_not_what_a_flavour_is(world: World) -> None:
    ordinary = of_flavour(world.record(world.boot()), "generic", release="6.1.0", config_sha256="d" * 64)
    other = of_flavour(world.record(world.boot(board="other")), "preempt_rt", command_line="quiet")
    found = differences(flavour_tables(reports(ordinary, other)))
    assert {"command_line"} == set(found)
    assert {"generic": ordinary.environment.command_line, "preempt_rt": "quiet"} == found["command_line"]


def test_a_tail_has_the_digits_of_its_histogram(world: World) -> None:
    place = COLUMNS.index("p99.9")
    virtual, real = (
        flavour_tables(reports(of_flavour(world.record(world.boot(seed=seed)), "preempt_rt")))[0].lines[0]
        for seed in (1, None)
    )
    assert virtual.tail
    assert real.tail
    assert f"{virtual.tail.value / 1000:.1f}" == virtual.cells[place]
    assert f"{real.tail.value:.0f}" == real.cells[place]


def test_the_page_is_safe_and_whole(world: World) -> None:
    evil = "<script>alert(1)</script>\x1b[31m"
    first = of_flavour(world.record(world.boot()), "generic")
    other = of_flavour(world.record(world.boot()), "preempt_rt", release=evil, command_line=evil)
    shown = page.flavours(flavour_tables(reports(first, other)))
    assert "<script>" not in shown
    assert "\x1b" not in shown
    assert 1 == shown.count('src="data:image/png;base64,')
    assert '<th class="text">command_line</th>' in shown
    for name in TEXTS:
        assert f'<th class="text">{name}</th>' in shown
