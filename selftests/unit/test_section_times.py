# SPDX-License-Identifier: MIT
"""What `bench/section_times.py` measures: the right gates of the right commits, and no comparison without work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import kernel_repository, section_times
from bench.bench import REPEATS
from bench.figures import Figure, figure, show
from bench.section_times import Commits

from rtgate.explain.sections import BootSections, Call, Context, Kind, Section, Site, Spot
from rtgate.kernel.differing import Differences
from rtgate.records.longer_sections import SectionComparison
from rtgate.workflow.sections import SectionsRequest

PLANNED = SectionComparison(
    baseline_image="1", candidate_image="2", seeds=(1,), boots_digest="", instruction_ns=8, cpus=1
)
GATE = """#!/bin/sh
echo "$RTGATE_KEEP_BOOTS $*" >> {log}
for name in base candidate; do mkdir -p build/$name; echo '{{"seconds": 10.4}}' > build/$name/build.json; done
for last; do :; done
for boot in 001 002 003; do mkdir -p "$last/records/arm/$boot"; touch "$last/records/arm/$boot/record.json"; done
exit {code}
"""


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commits:
    """Return two commits of a small kernel."""
    (tmp_path / "pinned/kernel/time").mkdir(parents=True)
    (tmp_path / "pinned/kernel/time/hrtimer.c").write_text("\tstruct task_struct *task = t->task;\n")
    identity = SimpleNamespace(package="linux-source", package_version="1")
    tree = SimpleNamespace(path=tmp_path / "pinned", identity=identity)
    monkeypatch.setattr(kernel_repository, "default_tree", lambda: tree)
    (tmp_path / "work").mkdir()
    return Commits.at(tmp_path / "work")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Build nothing, and note the commit and the tree that each build would be of."""
    noted: list[tuple[str, str]] = []
    made: set[tuple[str, Path]] = set()

    def build(_build: str, _tree: Path, commit: str, label: str, _options: object, place: Path) -> Path:
        if (commit, place) not in made:  # what is there is not built again, whatever its label
            noted.append((commit, label))
        made.add((commit, place))
        return place / commit

    monkeypatch.setattr(section_times, "build_commit", build)
    return noted


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> Path:
    """Have a gate on PATH that ends at once; return the file where it notes how it was called."""
    log, path = tmp_path / "gates", tmp_path / "bin" / "rtgate"
    path.parent.mkdir()
    path.write_text(GATE.format(log=log, code=code))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    return log


def test_one_file_differs_between_the_commits_and_from_what_was_compiled(commits: Commits) -> None:
    for pair in ("main..base", "base..candidate"):
        assert commits.repository.git("diff", "--name-only", pair) == "kernel/time/hrtimer.c"
    names = commits.repository.git("rev-parse", "base", "candidate")
    assert Commits.at(commits.work).repository.git("rev-parse", "base", "candidate") == names


@pytest.mark.parametrize(("part", "goal"), [("gates", 360), ("plain-gates", None)])
def test_a_gate_builds_both_kernels_and_takes_nothing_from_caches(
    commits: Commits,
    builds: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    goal: int | None,
) -> None:
    monkeypatch.delenv("RTGATE_KEEP_BOOTS", raising=False)
    log = program(tmp_path, monkeypatch, 5)
    idle, hackbench = section_times.PARTS[part](commits.work)
    assert [("3 boots, 21 s of it builds" in one.name, one.runs, one.goal) for one in (idle, hackbench)] == [
        (True, 1, goal)
    ] * 2
    assert builds == 2 * [("main", "base"), ("main", "candidate")]
    calls = log.read_text().splitlines()
    for load, call in zip(("idle", "hackbench"), calls, strict=True):
        words = f"--base base --candidate candidate -k cyclictest and {load} {'--sections ' if goal else ''}-o"
        assert call.startswith("no gate --board virt-arm64 --tree ")
        assert words in call
    assert ("--sections" in idle.name, "idle" in idle.name, "hackbench" in hackbench.name) == (goal == 360, True, True)


@pytest.mark.usefixtures("builds")
def test_a_gate_that_judges_nothing_has_no_time(
    commits: Commits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, monkeypatch, 4)
    with pytest.raises(SystemExit, match="exit code 4"):
        list(section_times.gates(360, (), commits.work))


def section(name: str, longest: int, *calls: Call) -> Section:
    site = Site(Kind.IRQSOFF, Context.THREAD, Spot(name), Spot(name))
    return Section(site, 1, longest, longest, 1, 0, longest, (), calls, (1,))


def test_comparing_is_timed_where_altered_functions_were_called() -> None:
    boots = {
        arm: {seed: BootSections((section("f", 500 + more, Call("g", 90 + more, seed)), section("h", 9)), None)}
        for arm, seed, more in (("baseline", 1, 0), ("candidate", 1, 700))
    }
    made = section_times.time_comparison(PLANNED, boots, frozenset({"g"}))
    assert (made.name, made.runs, made.goal) == ("sections of 1 + 1 boots compared, 2 sites", REPEATS, 2)
    idle = {arm: {1: BootSections((section("f", 500),), None)} for arm in boots}
    with pytest.raises(SystemExit, match="no altered function was called"):
        section_times.time_comparison(PLANNED, idle, frozenset({"g"}))


@dataclass(frozen=True)
class Boots:
    """Boots that have one section each, in which the altered functions were called."""

    kernels: dict[str, Path]
    seeds: Sequence[int]
    altered: frozenset[str] = frozenset()

    @classmethod
    def of(cls, request: SectionsRequest) -> Boots:
        return cls(dict(request.kernels), request.seeds)

    def follow(self) -> dict[str, dict[int, BootSections]]:
        calls = [Call(name, 90, 1) for name in sorted(self.altered)]
        boot = BootSections((section("f", 500, *calls),), None)
        return {arm: dict.fromkeys(self.seeds, boot) for arm in self.kernels}


def test_twelve_boots_of_each_kernel_are_followed_for_the_functions_that_differ(
    commits: Commits, builds: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(section_times, "SectionBoots", Boots)
    monkeypatch.setattr(
        section_times, "kernel_differences", lambda kernels: Differences(added=tuple(kernels), options={})
    )
    (made,) = section_times.PARTS["comparison"](commits.work)
    assert made.name == "sections of 12 + 12 boots compared, 1 sites"
    assert builds == [("base", "base"), ("candidate", "candidate")]
    monkeypatch.setattr(section_times, "kernel_differences", lambda _: Differences(options={}))
    with pytest.raises(SystemExit, match="no altered function was called"):
        list(section_times.PARTS["comparison"](commits.work))


def test_parts_are_chosen_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def part(name: str) -> Any:
        def measure(work: Path) -> Iterator[Figure]:
            assert work.is_dir()
            yield Figure(name, 3.0, 3.0, 3.0, 1, 360 if name == "gates" else None)

        return measure

    monkeypatch.setenv("RTGATE_KEEP_BOOTS", "yes")
    monkeypatch.setattr(section_times, "PARTS", {name: part(name) for name in section_times.PARTS})

    def rows(words: Sequence[str]) -> list[tuple[str, bool]]:
        section_times.main(words)
        lines = capsys.readouterr().out.splitlines()
        return [
            (name, "360 s" in line) for line in lines for name in section_times.PARTS if f" {name} " in f" {line[1:]}"
        ]

    assert rows(["plain-gates", "gates"]) == [("plain-gates", False), ("gates", True)]
    assert [name for name, _ in rows([])] == list(section_times.PARTS)
    with pytest.raises(SystemExit):
        section_times.main(["gate"])
    assert "no such part: gate" in capsys.readouterr().err


def test_figures_of_a_table_are_those_of_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    show([figure("a thing", [3.0, 1.0, 2.25], 2), figure("without a goal", [1.0], None, "times")])
    rows = [line.strip("│ ").split("│") for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["a thing", "2.25 s", "1.00", "3.00", "3", "2 s"],
        ["without a goal", "1.00 times", "1.00", "1.00", "1"],
    ]
