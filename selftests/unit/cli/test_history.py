# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.unit.judge.compare.test_comparing import imaged
from selftests.unit.judge.conftest import asking, record
from selftests.written_records import write

from rtgate.cli import trend
from rtgate.cli.main import main
from rtgate.judge.thresholds import LimitKind, load_thresholds
from rtgate.records.record import Record
from rtgate.units import Quantity, Unit
from rtgate.workflow.limit_profiles import LimitProfiles

LIMITS = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      - {measurement: latency.max, kind: max, limit: 55.5 virtual us, source: "somewhere"}
"""
PROFILE = """\
mine:
  description: two threads
  duration: 10 s
  seeds: 1
  boots: 1
  tools: {cyclictest: {options: {threads: 2}}}
"""


def image(number: int) -> list[Record]:
    """Return five seeds of one kernel image."""
    return [
        imaged(one, f"{number:064d}")
        for seed in range(1, 6)
        for one in [record({30_000 + number: 1999, 50_000 + 1000 * ((number + seed) % 7): 1}, seed=seed)]
    ]


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store twelve good kernels of a virtual board by the commands; return where the history and their records lie."""
    made = tmp_path_factory.mktemp("twelve")
    to = ("--history", f"sqlite:///{made}/history.db")
    for number in range(12):
        for one in image(number):
            write(one, made / f"records-{number}")
        assert main(["history", "add", str(made / f"records-{number}"), "--run", f"kernel-{number}", *to]) == 0
        assert main(["baseline", "promote", f"kernel-{number}", "--unjudged", "a harmless change", *to]) == 0
    return made


@pytest.fixture
def url(twelve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a history of twelve good kernels, of this test alone."""
    shutil.copytree(twelve, tmp_path, dirs_exist_ok=True)
    found = f"sqlite:///{tmp_path}/history.db"
    monkeypatch.setenv("RTGATE_HISTORY", found)
    return found


def test_what_was_added_is_listed(url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["history", "add", str(tmp_path / "records-3")]) == 0
    assert "0 records stored as run records-3-20" in capsys.readouterr().out
    assert main(["history", "list", "--board", "virt-arm64", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [(line["run"], line["boots"], line["valid"], line["of_good_kernels"]) for line in lines[:2]] == [
        ("kernel-0", 5, 5, 5),
        ("kernel-1", 5, 5, 5),
    ]
    assert main(["history", "list", "--board", "nobody"]) == 0
    assert "no such boots" in capsys.readouterr().out


def test_a_directory_without_records_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RTGATE_HISTORY", raising=False)
    assert main(["history", "add", str(tmp_path), "--history", f"sqlite:///{tmp_path}/h.db"]) == 2
    assert "holds no records" in capsys.readouterr().err
    assert main(["history", "list"]) == 2
    assert "which history?" in capsys.readouterr().err


def test_calibrate_writes_limits_that_check_accepts(url: str, tmp_path: Path) -> None:
    before, out = tmp_path / "before.yaml", tmp_path / "proposed.yaml"
    before.write_text(LIMITS.replace("55.5", "86"))
    words = ["calibrate", "--board", "virt-arm64", "--target", "5%", "--thresholds", str(before), "-o", str(out)]
    assert main(words) == 0
    limits = {
        one.measurement: one for one in load_thresholds([out], {"virt-arm64": True}, LimitProfiles().case).entries
    }
    assert set(limits) >= {"latency", "latency.max", "wakeups.lost"}
    assert limits["latency.max"].kind is LimitKind.MAX
    assert limits["latency.max"].limit == Quantity(56.0, Unit.VIRTUAL_US)
    assert "60 boots in 12 sessions" in limits["latency.max"].source
    assert "# latency.max: not looser than 86 virtual us" in out.read_text()


def test_what_is_not_proven_is_a_comment_and_exit_code_5(url: str, tmp_path: Path) -> None:
    before, out = tmp_path / "before.yaml", tmp_path / "proposed.yaml"
    before.write_text(LIMITS)
    words = ["calibrate", "--board", "virt-arm64", "--target", "0.5%", "--thresholds", str(before), "-o", str(out)]
    assert main(words) == 5
    (kept,) = load_thresholds([out], {"virt-arm64": True}, LimitProfiles().case).entries
    assert (kept.limit, kept.source) == (Quantity(55.5, Unit.VIRTUAL_US), "somewhere")
    assert "# not shown: 60 held-out runs cannot show a share of 0.005" in out.read_text()


def test_a_limit_that_stays_keeps_its_kernels(url: str, tmp_path: Path) -> None:
    before, out = tmp_path / "before.yaml", tmp_path / "proposed.yaml"
    before.write_text(LIMITS.replace("source:", 'kernels: ">= 5.0 and < 99.0", source:'))
    words = ["calibrate", "--board", "virt-arm64", "--target", "0.5%", "--thresholds", str(before), "-o", str(out)]
    assert main(words) == 5
    (kept,) = load_thresholds([out], {"virt-arm64": True}, LimitProfiles().case).entries
    assert str(kept.kernels) == ">= 5.0.0 and < 99.0.0"


def test_limits_that_no_proposal_replaces_stay_as_they_are(url: str, tmp_path: Path) -> None:
    """Also those of a class, of another profile, of a section, of what is not proposed, and policies."""
    before, out = tmp_path / "before.yaml", tmp_path / "proposed.yaml"
    keys = (
        "latency.avg, kind: max, limit: 31.25 virtual us",
        "latency.max, kind: max, limit: 14 virtual us, class: big",
    )
    section = "irqsoff, kind: max, limit: 0.1234 virtual us, function: cpu_do_idle"
    others = [f"{{measurement: {key}, source: mine, margin: x2}}" for key in (*keys, section)]
    others += ["{measurement: latency.max, kind: max, limit: 68 virtual us, profile: core-rk3576j, source: mine}"]
    others += ["{kind: fault, fault: warning, policy: report, source: mine}"]
    before.write_text(LIMITS.replace("55.5", "86") + "".join(f"      - {other}\n" for other in others))
    words = ["calibrate", "--board", "virt-arm64", "--target", "5%", "--thresholds", str(before), "-o", str(out)]
    assert main(words) == 0
    old, new = (load_thresholds([path], {"virt-arm64": True}, LimitProfiles().case).entries for path in (before, out))
    stay = {replace(limit, location=None) for limit in new if limit.source == "mine"}
    assert stay == {replace(limit, location=None) for limit in old[1:]}
    assert old[0].source not in {limit.source for limit in new}
    assert Quantity(56.0, Unit.VIRTUAL_US) in {limit.limit for limit in new}


def test_boots_of_a_profile_with_options_make_its_limits_and_not_those_of_the_suites(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "profiles.yaml").write_text(PROFILE)
    monkeypatch.setenv("RTGATE_SITE", str(lab))
    for number in range(20, 30):
        for one in image(number):
            write(replace(asking(one, options={"threads": 2}), profile="mine"), tmp_path / f"mine-{number}")
        assert main(["history", "add", str(tmp_path / f"mine-{number}"), "--run", f"mine-{number}"]) == 0
        assert main(["baseline", "promote", f"mine-{number}", "--unjudged", "a harmless change"]) == 0
    before, out = tmp_path / "before.yaml", tmp_path / "proposed.yaml"
    before.write_text(LIMITS)
    words = ["calibrate", "--board", "virt-arm64", "--target", "20%", "--thresholds", str(before), "-o", str(out)]
    assert main(words) == 0
    found = load_thresholds([out], {"virt-arm64": True}, LimitProfiles().case).entries
    *mine, suites = found
    assert {(one.profile, one.options["threads"]) for one in mine} == {("mine", 2)}
    assert "50 boots in 10 sessions" in mine[-1].source
    assert (suites.profile, suites.options, suites.source) == ("", {}, "somewhere")
    assert (
        "60 of 110 boots are left out: they were measured with other options than the boot stored last"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(("name", "threads"), [("quick", 2), ("mine", 3)])
def test_options_that_no_profile_asks_for_make_no_limits(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    threads: int,
) -> None:
    """As those of a site's suite: the limits would name a profile that asks for something else."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "profiles.yaml").write_text(PROFILE)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "lab"))
    for one in image(20):
        write(replace(asking(one, options={"threads": threads}), profile=name), tmp_path / "own")
    assert main(["history", "add", str(tmp_path / "own"), "--run", "own"]) == 0
    assert main(["baseline", "promote", "own", "--unjudged", "a harmless change"]) == 0
    assert main(["calibrate", "--board", "virt-arm64"]) == 2
    said = capsys.readouterr().err
    assert f"was measured with threads {threads}, which the profile {name} does not ask for" in said
    assert "put them into a profile of your site, measure with it, and calibrate again" in said


def test_options_name_the_newest_profile_that_asks_for_them(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boots of before, whose profile did not ask for them, count and are nothing to refuse."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "profiles.yaml").write_text(PROFILE)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "lab"))
    for number in range(20, 32):
        run, name = f"own-{number}", "quick" if number < 26 else "mine"
        for one in image(number):
            write(replace(asking(one, options={"threads": 2}), profile=name), tmp_path / run)
        assert main(["history", "add", str(tmp_path / run), "--run", run]) == 0
        assert main(["baseline", "promote", run, "--unjudged", "a harmless change"]) == 0
    out = tmp_path / "proposed.yaml"
    assert main(["calibrate", "--board", "virt-arm64", "--target", "20%", "-o", str(out)]) == 0
    entries = load_thresholds([out], {"virt-arm64": True}, LimitProfiles().case).entries
    proposed = [limit for limit in entries if "60 boots in 12 sessions" in limit.source]
    assert proposed
    assert {limit.profile for limit in proposed} == {"mine"}


def test_the_ratchet(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, out = tmp_path / "before.yaml", tmp_path / "proposed.yaml"
    before.write_text(LIMITS)
    words = ["calibrate", "--board", "virt-arm64", "--target", "5%", "--thresholds", str(before), "-o", str(out)]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "56 virtual us would be looser; kernel-1, " in said
    runs = said.partition("looser; ")[2].partition(" broke")[0].replace(", ", ",")
    assert main([*words, "--looser-because", runs]) == 0
    limits = {
        one.measurement: one for one in load_thresholds([out], {"virt-arm64": True}, LimitProfiles().case).entries
    }
    assert limits["latency.max"].limit == Quantity(56.0, Unit.VIRTUAL_US)
    assert "because of kernel-1" in limits["latency.max"].margin
    assert main([*words, "--looser-because", "kernel-99"]) == 2
    assert "--looser-because: no good boots of kernel-99" in capsys.readouterr().err
    assert main([*words, "--runs", "kernel-1,kernel-99"]) == 2
    assert "--runs: no good boots of kernel-99" in capsys.readouterr().err
    before.write_text(LIMITS.replace("55.5", "86"))
    assert main([*words, "--looser-because", "kernel-1"]) == 2
    assert "kernel-1 keeps every limit" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--target", "60%"], ["--target", "x"], ["--boots", "0"], ["--margin", "0.5"]])
def test_wrong_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["calibrate", "--board", "virt-arm64", *words])


def test_a_board_without_good_boots(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--board", "virt-x86_64"]) == 2
    assert "has no valid boots of good kernels for virt-x86_64, preempt_rt, any case" in capsys.readouterr().err


def drifting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bodies: list[int]) -> None:
    """Keep a history of runs of three seeds each, with these latencies in virtual ns."""
    monkeypatch.setenv("RTGATE_HISTORY", f"sqlite:///{tmp_path}/history.db")
    for number, body in enumerate(bodies):
        for seed in (1, 2, 3):
            one = record({body + 10 * ((7 * number + seed) % 5): 1990, 60_000 + 100 * seed: 10}, seed=seed)
            write(replace(one, boot_id=f"{number} {seed}"), tmp_path / f"run-{number}")
        assert main(["history", "add", str(tmp_path / f"run-{number}"), "--run", f"night-{number}"]) == 0


def test_a_change_for_the_worse_is_found_with_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drifting(tmp_path, monkeypatch, [30_000] * 8 + [33_000] * 6)
    capsys.readouterr()
    assert main(["trend", "--board", "virt-arm64", "-o", str(tmp_path / "trend")]) == 1
    said = capsys.readouterr().out
    (line,) = (line for line in said.splitlines() if " winsorised mean " in line)
    assert "night-8 (6.12.107-rt): +9" in line
    assert "worse" in line
    svg = (tmp_path / "trend" / "latency.cyclictest.idle.svg").read_text()
    assert "night-8" in svg
    assert svg.count('id="change-') == 1
    assert main(["trend", "--board", "virt-arm64", "--json"]) == 1
    body = next(one for one in json.loads(capsys.readouterr().out) if one["metric"] == "winsorised mean")
    assert [one["run"] for one in body["changes"]] == ["night-8"]
    assert len(body["series"]) == 14


@pytest.mark.parametrize(("now", "code"), [(57_000, 1), (31_000, 0)])
def test_a_small_recovery_does_not_hide_a_change_for_the_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: int, code: int
) -> None:
    drifting(tmp_path, monkeypatch, [30_000] * 7 + [60_000] * 7 + [now] * 7)
    assert main(["trend", "--board", "virt-arm64"]) == code


def test_a_change_for_the_better_and_no_change_end_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drifting(tmp_path, monkeypatch, [33_000] * 7 + [30_000] * 7)
    assert main(["trend", "--board", "virt-arm64"]) == 0
    assert "better" in capsys.readouterr().out


def test_a_revoked_kernel_is_in_no_trend_and_of_good_kernels_only_what_was_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drifting(tmp_path, monkeypatch, [30_000] * 7)
    for number in range(7, 13):
        for one in image(number):
            write(one, tmp_path / f"run-{number}")
        assert main(["history", "add", str(tmp_path / f"run-{number}"), "--run", f"mr-{number}"]) == 0
    assert main(["baseline", "promote", "night-0", "--unjudged", "it is in the field"]) == 0
    asked = ["trend", "--board", "virt-arm64", "--json"]
    capsys.readouterr()

    def runs(*words: str) -> list[str]:
        main([*asked, *words])
        body = next(one for one in json.loads(capsys.readouterr().out) if one["metric"] == "winsorised mean")
        return [one["run"] for one in body["series"]]

    nights, others = [f"night-{number}" for number in range(7)], [f"mr-{number}" for number in range(7, 13)]
    assert runs() == [*nights, *others]
    assert runs("--good-kernels") == nights
    assert main(["baseline", "revoke", f"{8:064d}", "--reason", "slow"]) == 0
    capsys.readouterr()
    main(asked)
    told = capsys.readouterr()
    assert "left out, boots: 5: 000000000000 was revoked on " in told.err
    assert "mr-8" not in told.out
    assert "mr-9" in told.out


def test_a_history_without_a_metric_of_comparisons_is_no_good_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drifting(tmp_path, monkeypatch, [30_000])
    monkeypatch.setattr(trend, "summaries", lambda *_: {})  # as of a tool that only passes or fails
    assert main(["trend", "--board", "virt-arm64"]) == 5
    assert "none of 3 boots has a metric of comparisons" in capsys.readouterr().err


def test_the_trend_of_a_retired_board_is_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGATE_HISTORY", f"sqlite:///{tmp_path}/history.db")
    write(replace(record({30_000: 2000}), board="retired"), tmp_path / "run")
    assert main(["history", "add", str(tmp_path / "run")]) == 0
    assert main(["trend", "--board", "retired"]) == 5


def test_limits_are_not_made_from_boots_of_a_revoked_kernel(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, out = tmp_path / "before.yaml", tmp_path / "proposed.yaml"
    before.write_text("{}\n")
    assert main(["baseline", "revoke", f"{5:064d}", "--reason", "slow"]) == 0
    words = ["calibrate", "--board", "virt-arm64", "--target", "5%", "--thresholds", str(before), "-o", str(out)]
    main(words)
    assert "left out, boots: 5: 000000000000 was revoked on " in capsys.readouterr().err
    assert "55 boots in 11 sessions" in out.read_text()


def test_too_few_runs_tell_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drifting(tmp_path, monkeypatch, [30_000] * 4)
    assert main(["trend", "--board", "virt-arm64"]) == 5
    assert "too few runs to tell" in capsys.readouterr().out
    assert main(["trend", "--board", "virt-arm64", "--case", "latency/cyclictest:hackbench"]) == 2
    assert main(["trend", "--board", "nobody"]) == 2
