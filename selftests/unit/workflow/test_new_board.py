# SPDX-License-Identifier: MIT
"""A board that is added by answering questions."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.errors import ConfigError
from rtgate.kernel.configuration import load_description
from rtgate.workflow.new_board import NewBoard

ROCK_5B = {
    "description": "Radxa ROCK 5B",
    "memory": "16 GiB",
    "device-tree": "rockchip/rk3588-rock-5b",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lab").mkdir()
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "lab"))
    return tmp_path / "lab"


def new(name: str, like: str, **answers: str) -> NewBoard:
    return NewBoard(
        name=name, like=boards.board(like), answers={key.replace("_", "-"): answers[key] for key in answers}
    )


def test_a_board_with_its_own_device_tree_has_its_own_build(site: Path) -> None:
    written = NewBoard(name="rock-5b", like=boards.board("rk3588-evb1"), answers=ROCK_5B).write(site)
    assert {str(path.relative_to(site)) for path in written} == {
        "boards/rock-5b.yaml",
        "kernel-configs/rock-5b-preempt_rt.yaml",
        "lava-jobs/device-types/rock-5b.jinja2",
    }
    made, like = boards.board("rock-5b"), boards.board("rk3588-evb1")
    assert (made.description, made.memory_mib, made.soc, made.cpus) == ("Radxa ROCK 5B", 16384, "RK3588", 8)
    assert made.lava is not None
    assert like.lava is not None
    assert (made.lava.device_type, made.lava.dtbs) == ("rock-5b", {"mainline": "rockchip/rk3588-rock-5b.dtb"})
    assert made.tunings.keys() == like.tunings.keys()
    build, others = (
        load_description(written[1]),
        load_description(like.path.parents[1] / "kernel-configs" / "rk3588-preempt_rt.yaml"),
    )
    assert build.device_trees.keys() == {"rockchip/rk3588-rock-5b"}
    assert (build.options, build.targets, build.flavour) == (others.options, others.targets, others.flavour)
    assert "{% extends 'rk3588-evb1.jinja2' %}" in written[2].read_text()


def test_what_nobody_answered_is_not_confirmed(site: Path) -> None:
    NewBoard(name="rock-5b", like=boards.board("rk3588-evb1"), answers=ROCK_5B).write(site)
    lava = boards.board("rock-5b").lava
    assert lava is not None
    reasons = {one.what: one.reason for one in lava.unconfirmed}
    assert reasons["console"] == "taken from rk3588-evb1: console= in /proc/cmdline says it"
    assert {"cpus", "soc", "baud"} < reasons.keys()
    assert not {"memory", "device-tree", "description"} & reasons.keys()
    assert "boot delay" in reasons  # as for the other board


def test_lists_of_cpus_do_not_fit_another_number_of_cpus(site: Path) -> None:
    new("half", "rk3588-evb1", cpus="4").write(site)
    made = boards.board("half")
    assert made.cpu_classes == {}
    assert list(made.tunings) == ["default"]
    assert made.build == "rk3588-preempt_rt"


def test_a_device_type_of_the_lab_s_own_needs_no_file(site: Path) -> None:
    """It must be known to rtgate all the same, or `rtgate check` could not tell a mistyped one."""
    (path,) = new("third", "rk3588-evb1", device_type="rk3588s-evb1", console="ttyS4", baud="115200").write(site)
    data = yaml.safe_load(path.read_text())
    assert data["lava"]["device_type"] == "rk3588s-evb1"
    assert data["console"] == {"device": "ttyS4", "baud": 115200, "prompt": "target# "}
    assert "consoles" not in data["lava"]


def test_a_virtual_board_has_no_lab(site: Path) -> None:
    asked = new("small", "virt-riscv64", memory="256 MiB")
    assert [one.key for one in asked.questions] == ["description", "cpus", "memory"]
    assert asked.unconfirmed == ()
    asked.write(site)
    made, like = boards.board("small"), boards.board("virt-riscv64")
    assert (made.qemu, made.memory_mib, made.firmware) == (like.qemu, 256, like.firmware)


@pytest.mark.parametrize(
    ("name", "answers", "message"),
    [
        ("Rock 5B", {}, "not a name of a board"),
        ("../x", {}, "not a name of a board"),
        ("a", {"colour": "red"}, "'colour' is not asked of a board like rk3588-evb1"),
        ("a", {"memory": "16 GB"}, "memory: '16 GB' is not a size"),
        ("a", {"cpus": "0"}, "cpus: '0' is not a number"),
        ("a", {"device-tree": "../../etc"}, "device-tree: .* does not name a device tree"),
    ],
)
def test_wrong_answers_are_refused(name: str, answers: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NewBoard(name=name, like=boards.board("rk3588-evb1"), answers=answers)


def test_nothing_stays_behind_when_answers_do_not_fit(site: Path) -> None:
    with pytest.raises(ConfigError, match="unknown device type 'mistyped'"):
        new("a", "rk3588-evb1", device_type="mistyped").write(site)
    assert [path for path in site.rglob("*") if path.is_file()] == []


def test_nothing_is_written_over(site: Path) -> None:
    new("a", "virt-riscv64").write(site)
    before = (site / "boards" / "a.yaml").read_text()
    with pytest.raises(ConfigError, match="is there already"):
        new("a", "virt-arm64").write(site)
    assert (site / "boards" / "a.yaml").read_text() == before


def test_questions_are_asked_again_until_the_answer_fits(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("A small board\n\nmuch\n256 MiB\n"))
    assert main(["--site", str(site), "new-board", "small", "--like", "virt-riscv64"]) == 0
    said = capsys.readouterr()
    assert said.err == "'much' is not a size (allowed: a number and MiB or GiB, for example 512 MiB)\n"
    assert said.out.endswith(
        f"wrote {site}/boards/small.yaml\nnext: rtgate --site {site} check\n",
    )
    assert boards.board("small").description == "A small board"


def test_an_end_of_the_answers_writes_nothing(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("A small board\n"))
    assert main(["--site", str(site), "new-board", "small", "--like", "virt-riscv64"]) == 2
    assert "nothing was written (--answer and --defaults ask nothing)" in capsys.readouterr().err
    assert list(site.iterdir()) == []


def test_a_script_gives_its_answers(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--answer", "memory=8 GiB", "--answer", "cpus=8", "--defaults"]
    assert main(["--site", str(site), "new-board", "b", "--like", "rk3588-evb1", *words]) == 0
    assert "not confirmed: soc is RK3588 (see the board's manual)" in capsys.readouterr().out
    assert main(["new-board", "c", "--like", "rk3588-evb1", "--answer", "memory"]) == 2
    assert "write KEY=TEXT" in capsys.readouterr().err


def test_without_a_site_directory_there_is_no_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RTGATE_SITE", raising=False)
    assert main(["new-board", "b", "--like", "rk3588-evb1"]) == 2
    assert "a board is added to a site directory" in capsys.readouterr().err
