# SPDX-License-Identifier: MIT
"""LAVA's own code accepts every job and device type of every board: schema, template engine, dispatcher.

That of Debian 12, 2023.01, which the lab runs, and the newest that Debian has.
"""

from __future__ import annotations

import ast
import copy
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from selftests.lab.lab import ROOT, why_not
from selftests.lava_server import split

from rtgate import site
from rtgate.board import boards
from rtgate.board.boards import Board, Lava
from rtgate.lava.job import multinode, template
from rtgate.lava.job.definition import ARMS, Files, JobArm, JobRequest, Transport, render
from rtgate.lava.lab import check, health

FILES = "file:///mnt/files"
STEPS = ("schema", "device", "dispatcher")
# Programs that a worker has and that LAVA looks for before it starts a job; none is run here.
WORKER = ("in.tftpd", "fastboot", "adb")
# In namespaces of its own: the tree stays as it is, whoever else uses it.
INSIDE = """
tree=$1 directory=$2 validate=$3
shift 3
mount -t proc proc "$tree/proc"
mount -t tmpfs tmpfs "$tree/tmp"
mount -t tmpfs tmpfs "$tree/var/lib/lava"
mount --rbind /dev "$tree/dev"
mount --bind "$directory" "$tree/mnt"
mkdir -p "$tree/tmp/bin" "$tree/var/lib/lava/dispatcher/tmp"
cp "$validate" "$tree/tmp/validate.py"
for program; do ln -s /bin/false "$tree/tmp/bin/$program"; done
exec env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin:/tmp/bin \
    chroot "$tree" /usr/bin/python3 /tmp/validate.py /mnt
"""
NEWEST = (2026, 10)  # in sid
CONNECTION = """\
{% set connection_list = ['uart0'] %}
{% set connection_commands = {'uart0': 'telnet 127.0.0.1 7001'} %}
{% set connection_tags = {'uart0': ['primary', 'shell']} %}
{% set hard_reset_command = '/bin/true' %}
{% set power_on_command = '/bin/true' %}
{% set power_off_command = '/bin/true' %}
{% set fastboot_serial_number = 'rtgate1' %}
{% set adb_serial_number = 'rtgate1' %}
"""
BOARDS = [board for name in site.names("boards") if (board := boards.board(name)).lava]


def lava_of(board: Board) -> Lava:
    assert board.lava is not None
    return board.lava


def booting_by(way: str) -> Board:
    """Return a board of whose way of booting no shipped board makes use."""
    board = boards.board("rk3568-evb1" if way.startswith("uboot") else "lab-virt-x86_64")
    return replace(board, lava=replace(lava_of(board), boot=way))


def files_of(board: Board) -> Files:
    way = template.find(lava_of(board).boot)
    names = {"ramdisk": "rootfs.cpio.gz", "dtb": "board.dtb", "nfsroot": "root.tar.xz", "modules": "modules.tar.xz"}
    used = {*way.required, *way.optional}
    given = {name: f"{FILES}/{file}" for name, file in names.items() if name in used}
    return Files(
        kernel=f"{FILES}/Image",
        ramdisk=given.get("ramdisk"),
        dtb=given.get("dtb"),
        modules=given.get("modules"),
        nfsroot=given.get("nfsroot"),
    )


def job_of(board: Board, transport: Transport, family: str, server: tuple[int, int] = check.TESTED) -> str:
    arms = tuple(JobArm(name=name, files=files_of(board), identity='{"name": "k"}') for name in ARMS)
    request = JobRequest(
        name="merge request 42",
        board=board,
        arms=arms,
        boots=(*ARMS, *reversed(ARMS)),
        suites=("latency", "signal"),
        profile="mr",
        metadata={"rtgate.nonce": "0123456789abcdef", "title": "it's a <test>: {{ x }}"},
        transport=transport,
        server=server,
        family=family,
        tags=("lab-a",),
        visibility="group:rt",
        steps=(("true",),) * 4 if transport is Transport.BOARD else (),
    )
    return render(request)


def two_boards() -> str:
    """Return a job for a root complex and its endpoint."""
    boards_of_job = [boards.board(name) for name in ("rk3588-evb1", "rk3568-evb1")]
    first, second = (
        JobRequest(
            name="merge request 42",
            board=board,
            arms=(JobArm(name="candidate", files=files_of(board), identity='{"name": "k"}'),),
            boots=("candidate",),
            suites=("pcie",),
            profile="mr",
            tags=("pair-1",),
            transport=transport,
            steps=(("true",),) if transport is Transport.BOARD else (),
        )
        for board, transport in zip(boards_of_job, Transport, strict=True)
    )
    return multinode.render(first, multinode.Endpoint(request=second, set_up="true\n"))


def parts_of_two_boards() -> list[tuple[str, Board, str]]:
    """Return role, board and job of each part, as the stand-in makes them: a test below holds it against LAVA."""
    parts = split(yaml.safe_load(two_boards()), 1)
    return [
        (part["protocols"]["lava-multinode"]["role"], boards.board(part["device_type"]), yaml.safe_dump(part))
        for part in parts
    ]


def jobs(server: tuple[int, int] = check.TESTED) -> dict[str, tuple[Board, str]]:
    """Return all jobs for a server of this release by name, each with its board."""
    found = {}
    ways = {lava_of(board).boot for board in BOARDS}
    others = [booting_by(way) for way in site.names(template.KIND) if way not in ways]
    for board in [*BOARDS, *others]:
        name = board.name if board in BOARDS else f"{board.name}-{lava_of(board).boot}"
        for transport in Transport:
            if transport is Transport.BOARD and template.find(lava_of(board).boot).root == "disk":
                continue
            for family in lava_of(board).consoles or ("mainline",):
                found[f"{name}-{transport}-{family}"] = (board, job_of(board, transport, family, server))
            found[f"{name}-{transport}-health"] = (
                board,
                health.definition(board, files_of(board), transport=transport, server=server),
            )
    for role, board, part in parts_of_two_boards():
        found[f"two-boards-{role}"] = (board, part)
    found["probe"] = (boards.board("rk3568-evb1"), health.probe("rk3568-evb1")[0])
    return found


@pytest.fixture(
    scope="module", params=["bookworm", pytest.param("sid", marks=pytest.mark.long("a Debian tree of its own"))]
)
def tree(request: pytest.FixtureRequest) -> Path:
    """Return a tree of a suite of Debian with LAVA in it: 2023.01 in bookworm, the newest in sid."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    argv = [ROOT / "ci" / "lab" / "tree", request.param]
    made = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=1500)
    return Path(made.stdout.strip())


def test_the_tree_has_the_lava_that_it_is_for(tree: Path) -> None:
    asked = ["dpkg-query", f"--admindir={tree}/var/lib/dpkg", "--show", "--showformat=${Version}", "lava-server"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert version.startswith("2023.01") if "bookworm" in tree.name else version >= "2026.10", version


def validated(tree: Path, directory: Path, wanted: dict[str, tuple[Board, str]]) -> dict[str, dict[str, str]]:
    """Return what LAVA says of jobs, by name and step."""
    for name in ("jobs", "devices", "files"):
        (directory / name).mkdir()
    shutil.copytree(ROOT / "lava-jobs" / "device-types", directory / "types")
    for name in ("Image", "rootfs.cpio.gz", "board.dtb", "root.tar.xz", "modules.tar.xz"):
        (directory / "files" / name).write_bytes(b"x")
    (directory / "wholes").mkdir()
    for name, (board, text) in wanted.items():
        if name.startswith("two-boards-"):
            (directory / "wholes" / f"{name}.yaml").write_text(two_boards())
        (directory / "jobs" / f"{name}.yaml").write_text(text)
        dictionary = f"{{% extends '{lava_of(board).device_type}.jinja2' %}}\n{CONNECTION}"
        (directory / "devices" / f"{name}.jinja2").write_text(dictionary)
    namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--")
    paths = [str(path) for path in (tree, directory, Path(__file__).with_name("validate.py"))]
    argv = [*namespaces, "sh", "-ec", INSIDE, "inside", *paths, *WORKER]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def said(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    server = check.TESTED if "bookworm" in tree.name else NEWEST
    return validated(tree, tmp_path_factory.mktemp("jobs"), jobs(server))


@pytest.mark.parametrize("name", jobs())
def test_lava_accepts_the_job_and_its_device_type(said: dict[str, dict[str, str]], name: str) -> None:
    assert said[name] == dict.fromkeys(STEPS, "")


def test_the_stand_in_makes_the_parts_that_lava_makes(tree: Path) -> None:
    """By LAVA's own function alone: its module wants a whole server around it. `roles` is of the scheduler."""
    source = (tree / "usr/lib/python3/dist-packages/lava_scheduler_app/utils.py").read_text()
    found = [one for one in ast.parse(source).body if getattr(one, "name", "") == "split_multinode_yaml"]
    lava: dict[str, Any] = {"copy": copy}
    exec(compile(ast.Module(found, []), "utils.py", "exec"), lava)
    whole = yaml.safe_load(two_boards())
    parts = {part["protocols"]["lava-multinode"]["role"]: [part] for part in split(whole, 1)}
    for (part,) in parts.values():
        del part["protocols"]["lava-multinode"]["roles"]
    assert parts == lava["split_multinode_yaml"](whole, "g")


def test_lava_finds_mistakes(tree: Path, tmp_path: Path) -> None:
    """The test above can fail, in each of its steps."""
    board = boards.board("rk3568-evb1")
    good = job_of(board, Transport.DOCKER, "mainline")
    mistakes = {
        "schema": good.replace("visibility:", "visiblity: x\nvisibility:"),
        "device": good.replace("console_device: ttyS2", "console_device: 'ttyS2\" ['"),
        "dispatcher": good.replace("method: u-boot", "method: barebox"),
    }
    found = validated(tree, tmp_path, {name: (board, text) for name, text in mistakes.items()})
    assert all(found[name][name] for name in STEPS), found
    assert "visiblity" in found["schema"]["schema"]
