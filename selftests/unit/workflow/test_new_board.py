# SPDX-License-Identifier: MIT
"""A board that is added by answering questions."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
import yaml

from rtgate.board import boards
from rtgate.cli.main import main
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel.configuration import load_description
from rtgate.workflow import references
from rtgate.workflow.new_board import NewBoard

SHIPPED = sorted((Path(__file__).resolve().parents[3] / "boards").glob("*.yaml"))
DESK = """\
description: a board
soc: RK3568
arch: arm64
cpus: 4
memory: 4 GiB
console: {device: ttyS2, baud: 1500000, prompt: "# "}
"""
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
    assert reasons["console"] == "taken from rk3588-evb1, not checked: compare with console= in /proc/cmdline"
    assert {"cpus", "soc", "baud", "command_line"} < reasons.keys()
    assert not {"memory", "device-tree", "description"} & reasons.keys()
    assert "boot delay" in reasons  # as for the other board


def test_a_value_that_was_a_guess_before_stays_one(site: Path) -> None:
    new("a", "rk3588-evb1").write(site)
    lava = boards.board("a").lava
    assert lava is not None
    (memory,) = (one.reason for one in lava.unconfirmed if one.what == "memory")
    assert memory.startswith("taken from rk3588-evb1, not checked: compare with /proc/meminfo (no document gives")


def test_of_a_board_in_no_lab_comments_say_what_was_not_checked(site: Path) -> None:
    (site / "boards").mkdir()
    (site / "boards" / "desk.yaml").write_text(DESK)
    (path,) = new("other", "desk", memory="2 GiB").write(site)
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert "# Not checked: cpus; compare with nproc." in comments
    assert not any("memory" in line for line in comments)


@pytest.mark.parametrize("like", [path.stem for path in SHIPPED])
def test_every_board_can_be_copied(site: Path, like: str) -> None:
    new("copy", like).write(site)
    made, was = boards.board("copy"), boards.board(like)
    asked = {"name", "path", "description", "lava", "build"}
    for field in dataclasses.fields(made):
        if field.name not in asked | {"not_applicable"}:
            assert getattr(made, field.name) == getattr(was, field.name), field.name
    assert {name: one.reason for name, one in made.not_applicable.items()} == {
        name: one.reason for name, one in was.not_applicable.items()
    }
    if was.lava:
        assert made.lava is not None
        assert (made.lava.boot, made.lava.dtbs, made.lava.prompt) == (was.lava.boot, was.lava.dtbs, was.lava.prompt)


def test_lists_of_cpus_do_not_fit_another_number_of_cpus(site: Path) -> None:
    asked = new("half", "rk3568-evb1", cpus="2")
    # That of one isolated CPU, and those with kernel arguments, which may be lists of CPUs.
    assert asked.left_out == ("tuning isolated", "tuning pcie-rc", "tuning pcie-rc-gen2x1")
    asked.write(site)
    made = boards.board("half")
    assert list(made.tunings) == ["default", "pcie-ep"]
    assert made.build == "rk3568-preempt_rt"
    assert new("whole", "rk3588-evb1", cpus="4").left_out[0] == "cpu_classes"


def test_what_another_board_s_hardware_excuses_is_not_copied(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "boards").mkdir()
    more = "work_directory: /data/local/tmp\ninstrument: {port: /dev/ttyS4, pulse: 'gpio3:1', answer: 'gpio3:2'}\n"
    reason = "not_applicable: {load: no counter is there}\n"
    (site / "boards" / "desk.yaml").write_text(DESK + more + reason)
    assert main(["--site", str(site), "new-board", "other", "--like", "desk", "--defaults"]) == 0
    said = capsys.readouterr().out
    assert "left out: not_applicable load of desk: declare it if the new board fails this check, too\n" in said
    made = boards.board("other")
    assert made.not_applicable == {}
    assert (made.work_directory, made.instrument) == ("/data/local/tmp", boards.board("desk").instrument)
    text = made.path.read_text()
    assert "# Not checked: work_directory; compare with the board.\n" in text
    assert "# Not checked: instrument; compare with the board.\n" in text


def test_a_board_of_a_vendor_s_kernel_is_asked_for_its_device_tree(site: Path) -> None:
    written = new("other", "rk3572-evb1", device_tree="rockchip/rk3572-evb2-v10-linux").write(site)
    lava = boards.board("other").lava
    assert lava is not None
    assert lava.dtbs == {"bsp": "rockchip/rk3572-evb2-v10-linux.dtb"}
    assert load_description(written[1]).device_trees.keys() == {"rockchip/rk3572-evb2-v10-linux"}
    asked = {question.key: question for question in new("third", "rk3572-evb1").questions}["device-tree"]
    assert (asked.text, asked.default) == (
        "Device tree, below the vendor kernel's dts directory?",
        "rockchip/rk3572-evb1-v10-linux",
    )
    assert "device-tree" in dict(new("third", "rk3572-evb1").unconfirmed)


def test_a_device_type_of_the_lab_s_own_needs_no_file(site: Path) -> None:
    """It must be known to rtgate all the same, or `rtgate check` could not tell a mistyped one."""
    third = new("third", "rk3588-evb1", device_type="rk3588s-evb1", console="ttyS4", baud="115200")
    assert third.extended_device_type == ""
    (path,) = third.write(site)
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
        ("a", {"cpus": "300"}, "cpus: '300' is not a number from 1 to 256"),
        ("a", {"baud": "300"}, "baud: '300' is not a number from 1200"),
        ("a", {"console": "ttyS'2"}, "console: .* cannot be one"),
        ("a", {"device-type": "mistyped"}, "device-type: 'mistyped' is not known here"),
        ("Rock 5B", {}, "not a name of a board"),
        ("../x", {}, "not a name of a board"),
        ("a", {"colour": "red"}, "'colour' is not asked of a board like rk3588-evb1"),
        ("a", {"memory": "16 GB"}, "memory: '16 GB' is not a size"),
        ("a", {"cpus": "0"}, "cpus: '0' is not a number"),
        ("a", {"device-tree": "../../etc"}, "device-tree: .* cannot be one"),
    ],
)
def test_wrong_answers_are_refused(name: str, answers: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NewBoard(name=name, like=boards.board("rk3588-evb1"), answers=answers)


def test_an_empty_answer_takes_what_the_other_board_has(site: Path) -> None:
    asked = new("a", "rk3588-evb1", soc="", memory="8 GiB")
    asked.write(site)
    assert boards.board("a").soc == "RK3588"
    assert "soc" in dict(asked.unconfirmed)


def test_nothing_stays_behind_when_the_board_is_not_right(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise ConfigError("a: 1:1: not right")

    monkeypatch.setattr(references, "board", refuse)
    with pytest.raises(ConfigError, match="not right"):
        new("a", "rk3588-evb1").write(site)
    assert [path for path in site.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("name", "answers", "hidden"),
    [
        ("rk3588-evb1", {}, "boards/rk3588-evb1.yaml"),
        ("rk3588", {"device-tree": "rockchip/rk3588-rock-5b"}, "kernel-configs/rk3588-preempt_rt.yaml"),
    ],
)
def test_no_other_name_is_hidden(site: Path, name: str, answers: dict[str, str], hidden: str) -> None:
    """Each RK3588 board would be built with this one's device tree."""
    with pytest.raises(ConfigError, match=f"{hidden} has this name: choose another one"):
        NewBoard(name=name, like=boards.board("rk3588-evb1"), answers=answers).write(site)
    assert list(site.iterdir()) == []


def test_a_site_that_cannot_be_written_is_the_lab_s(site: Path) -> None:
    (site / "boards").write_text("")
    with pytest.raises(InfrastructureError, match="cannot be written: "):
        new("a", "virt-riscv64").write(site)


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
    assert "input ended, nothing was written" in capsys.readouterr().err
    assert list(site.iterdir()) == []


def test_a_script_gives_its_answers(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--answer", "memory=8 GiB", "--answer", "cpus=8", "--defaults"]
    assert main(["--site", str(site), "new-board", "b", "--like", "rk3588-evb1", *words]) == 0
    said = capsys.readouterr().out
    assert "not confirmed: soc is RK3588, as of rk3588-evb1 (compare with the board's manual)\n" in said
    assert "left out" not in said
    assert "the LAVA server needs rk3588-evb1.jinja2, too: the new device type extends it\nnext: " in said
    assert main(["new-board", "c", "--like", "rk3588-evb1", "--answer", "memory"]) == 2
    assert "write KEY=TEXT" in capsys.readouterr().err


def test_without_a_site_directory_there_is_no_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RTGATE_SITE", raising=False)
    assert main(["new-board", "b", "--like", "rk3588-evb1"]) == 2
    assert "a board is added to a site directory" in capsys.readouterr().err


def test_a_name_that_is_taken_is_said_before_anything_is_asked(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new("a", "virt-riscv64").write(site)
    assert main(["--site", str(site), "new-board", "a", "--like", "virt-riscv64"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{site}/boards/a.yaml is there already: remove it, or choose another name" in said.err


def test_the_same_device_tree_needs_no_build_of_its_own(site: Path) -> None:
    written = new("a", "rk3588-evb1", device_tree="rockchip/rk3588-evb1-v10").write(site)
    assert [path.name for path in written] == ["a.yaml", "a.jinja2"]
    assert boards.board("a").build == "rk3588-preempt_rt"
