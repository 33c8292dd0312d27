# SPDX-License-Identifier: MIT
"""The shipped builds, asked of real kernels: the pinned one, Debian's newest and 6.1, those of $RTGATE_TREES (a:b)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from selftests.debian_kernels import newest_kernel, real_time_series
from selftests.integration.conftest import CACHE, build_kernel, rtgate, verdicts_of

from rtgate import site
from rtgate.arches import ARCHES
from rtgate.errors import ConfigError
from rtgate.kernel.device_tree import overlaid
from rtgate.kernel.source import default_tree, open_tree
from rtgate.kernel.toolchain import Toolchain
from rtgate.kernel.version import KernelVersion
from rtgate.workflow.kernels import find_description

PINNED = "the pinned tree"
NEWEST, OLDEST = "sid", "bookworm"  # the suites of Debian with the newest line, and with 6.1
TREES = [PINNED, NEWEST, OLDEST, *filter(None, os.environ.get("RTGATE_TREES", "").split(":"))]
SOCS = ("nuc-j3455", "rk3528", "rk3562", "rk3568", "rk3572", "rk3576", "rk3588", "rk3588s")
NOT_IN_MAINLINE = {"rk3572"}
NOT_IN_6_12 = {"rk3528", "rk3562", "rk3576", "rk3588s", *NOT_IN_MAINLINE}
WITHOUT_DEVICE_TREE = {OLDEST: {"rk3588", *NOT_IN_6_12}, PINNED: NOT_IN_6_12, NEWEST: NOT_IN_MAINLINE}
"""SoCs of which a board's device tree is missing; found by looking into 6.1.176, 6.12.117 and 7.2.13."""


@pytest.fixture(params=TREES)
def tree(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTGATE_CACHE", str(CACHE))
    if request.param in {NEWEST, OLDEST}:
        return newest_kernel(request.param, CACHE / "self-tests" / "sources")
    return default_tree().path if request.param == PINNED else Path(request.param).resolve()


@pytest.mark.long("Kconfig runs a dozen times, a minute of two cores for each tree")
def test_a_kernel_takes_every_configuration(tree: Path) -> None:
    words = [] if tree == default_tree().path else ["--tree", tree]
    done = rtgate("build", "--check-config", "--all", *words, timeout=3000, RTGATE_CACHE=str(CACHE))
    arches = "|".join(ARCHES)
    rows = {line.split()[0]: line for line in done.stdout.split("\n") if re.match(rf"\S+ +({arches}) ", line)}
    assert set(rows) == set(site.names("kernel-configs"))
    without = {name for name in rows if find_description(name).unsupported(tree).startswith("no device tree")}
    unpatched = {name for name, row in rows.items() if row.endswith("no place for its patch")}  # that is asked first
    assert {find_description(name).flavour for name in unpatched} <= {"jailhouse"}
    assert {name for name, row in rows.items() if "no device tree" in row} == without - unpatched
    lost = set(re.findall(r"^  CONFIG_(\w+): asked", done.stdout, re.MULTILINE))
    if open_tree(tree).version < KernelVersion(6, 12):  # without its RT series
        assert (done.returncode, lost) == (1, {"PREEMPT_RT", "PREEMPT_TRACER"})  # the second needs preemption
        losers = {name for name, row in rows.items() if re.search(r" [1-9]\d*$", row)}
        assert {find_description(name).flavour for name in losers} == {"preempt_rt"}
    else:
        assert (done.returncode, lost) == (0, set())


@pytest.mark.long("sources of three kernels")
@pytest.mark.parametrize(("tree", "without"), WITHOUT_DEVICE_TREE.items(), indirect=["tree"])
def test_each_soc_has_its_device_trees_or_waits_for_a_kernel_that_has(tree: Path, without: set[str]) -> None:
    """Otherwise a mistyped name would be `not for this tree`, which is no failure."""
    builds = ((soc, find_description(f"{soc}-{flavour}")) for soc in SOCS for flavour in ("preempt_rt", "generic"))
    assert {soc for soc, description in builds if description.unsupported(tree)} == without


@pytest.mark.long("a kernel of its own, and the device trees of all Rockchip boards")
def test_a_boards_kernel_comes_with_modules_and_every_device_tree_that_this_tree_has(
    tree: Path, tmp_path: Path
) -> None:
    if open_tree(tree).version < KernelVersion(6, 12):
        pytest.skip("this kernel has no device tree of the RK3588 EVB1")
    words = [] if tree == default_tree().path else ["--tree", tree]
    made = build_kernel(tmp_path / "rk3588", "rk3588-preempt_rt", *words)
    assert (made / "Image").is_file()
    names = _members(made / "dtbs.tar.xz")
    for soc in SOCS:
        description = find_description(f"{soc}-preempt_rt")
        if not description.unsupported(tree):
            assert {f"{name}.dtb" for name in description.device_trees} <= {
                "/".join(name.split("/")[-2:]) for name in names
            }
    modules = {name.rsplit("/", 1)[-1] for name in _members(made / "modules.tar.xz")}
    assert "dmatest.ko" in modules
    _check_overlays(made / "dtbs.tar.xz", tmp_path / "dtbs")


@pytest.mark.long("a kernel is built for each board: without a full compiler cache, five minutes of two cores each")
@pytest.mark.parametrize("board", ["virt-arm64", "virt-x86_64"])
@pytest.mark.parametrize("tree", [name for name in TREES if name not in {PINNED, OLDEST}], indirect=True)
def test_a_kernel_of_another_line_boots_and_keeps_the_limits(tree: Path, board: str, tmp_path: Path) -> None:
    words = ("gate", "--board", board, "--tree", tree, "-o", tmp_path / "report")
    done = rtgate(*words, timeout=3000, RTGATE_CACHE=str(CACHE))
    assert done.returncode == 0, done.stdout
    verdicts = verdicts_of(tmp_path / "report")
    assert {one["case"] for one in verdicts} == {
        f"latency/cyclictest:{load}" for load in ("idle", "hackbench", "stress-ng")
    }
    assert {one["status"] for one in verdicts} == {"PASS"}


@pytest.mark.long("a kernel is built: without a full compiler cache, five minutes of two cores")
@pytest.mark.parametrize("tree", [OLDEST], indirect=True)
def test_a_kernel_before_preempt_rt_was_merged_boots_as_generic(tree: Path, tmp_path: Path) -> None:
    made = build_kernel(tmp_path / "generic", "virt-arm64-generic", "--tree", tree)
    words = ("--kernel", made, "--profile", "smoke", "-k", "idle", "--allow-unjudged", "-o", tmp_path / "report")
    done = rtgate("gate", "--board", "virt-arm64", *words)
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "report" / "verdict.json").read_text())
    assert {one["status"] for one in report["verdicts"]} == {"DONE"}  # no limits of `generic`
    assert " 6.1." in done.stdout


@pytest.mark.long("a kernel is built: without a full compiler cache, ten minutes of two cores")
@pytest.mark.parametrize("tree", [OLDEST], indirect=True)
def test_a_kernel_before_preempt_rt_was_merged_gets_it_by_its_series(tree: Path, tmp_path: Path) -> None:
    series = real_time_series(OLDEST, tree)
    made = build_kernel(tmp_path / "rt", "virt-arm64-preempt_rt", "--tree", tree, "--patches", series)
    built = json.loads((made / "build.json").read_text())
    assert (built["flavour"], built["release"].startswith("6.1.")) == ("preempt_rt", True)
    done = rtgate("gate", "--board", "virt-arm64", "--kernel", made, "-o", tmp_path / "report")
    assert done.returncode == 0, done.stdout
    verdicts = verdicts_of(tmp_path / "report")
    assert {(one["case"], one["status"]) for one in verdicts} == {
        (f"latency/cyclictest:{load}", "PASS") for load in ("idle", "hackbench", "stress-ng")
    }


@pytest.mark.long("a kernel is built for each board: without a full compiler cache, five minutes of two cores each")
@pytest.mark.skipif(not all(map(shutil.which, Toolchain.CLANG.programs("arm64"))), reason="Clang is not installed")
@pytest.mark.parametrize("board", ["virt-arm64", "virt-x86_64"])
def test_clang_makes_a_kernel_that_boots_and_keeps_the_limits(board: str, tmp_path: Path) -> None:
    made = build_kernel(tmp_path / "clang", f"{board}-preempt_rt", "--toolchain", "clang")
    assert json.loads((made / "build.json").read_text())["toolchain"].startswith("Debian clang version ")
    done = rtgate("gate", "--board", board, "--kernel", made, "-o", tmp_path / "report")
    assert done.returncode == 0, done.stdout
    verdicts = verdicts_of(tmp_path / "report")
    assert {one["status"] for one in verdicts} == {"PASS"}


def _check_overlays(archive: Path, place: Path) -> None:
    """Both ends of a cable are made of one device tree, as docs/how-to/measure-two-boards.md says."""
    place.mkdir()
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    (board,) = place.glob("**/rk3588-evb1-v10.dtb")
    trees = [board]
    for side in ("srns", "ep"):
        (place / side).mkdir()
        trees.append(overlaid(board, [board.with_name(f"rk3588-rock-5b-pcie-{side}.dtbo")], place / side))
    assert [_status(tree, "pcie@fe150000") for tree in trees] == ["okay", "okay", "disabled"]
    assert [_status(tree, "pcie-ep@fe150000") for tree in trees] == ["disabled", "disabled", "okay"]


def _status(tree: Path, node: str) -> str:
    argv = ["fdtget", str(tree), f"/{node}", "status"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def _members(archive: Path) -> set[str]:
    with tarfile.open(archive) as file:
        return set(file.getnames())


def test_a_kernel_without_a_boards_device_tree_is_refused_at_once() -> None:
    done = rtgate("build", "rk3572-preempt_rt", RTGATE_CACHE=str(CACHE))
    assert done.returncode == ConfigError.exit_code
    assert "no device tree rockchip/rk3572-evb1-v10.dts (mainline has none of this SoC up to 7.2" in done.stderr
    assert "this build waits for it" in done.stderr
