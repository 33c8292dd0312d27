# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from selftests.conftest import Golden

from rtgate import site
from rtgate.board import boards
from rtgate.board.serial_console import Login
from rtgate.cli import main
from rtgate.errors import ConfigError
from rtgate.lava.job import template
from rtgate.lava.job.definition import (
    Files,
    JobArm,
    JobRequest,
    Transport,
    console_device,
    family_of,
    printable,
    render,
)
from rtgate.lava.lab import health

URL = "http://192.0.2.1:8080/d41d8cd9"
IDENTITY = json.dumps({"name": "k", "flavour": "preempt_rt", "release": "6.12.1-rt1", "source": "v6.12"})
BOARDS = [name for name in site.names("boards") if boards.board(name).lava]


def arm(name: str, **files: Any) -> JobArm:
    given = {"kernel": f"{URL}/{name}/Image", "ramdisk": f"{URL}/{name}/rootfs.cpio.gz", **files}
    return JobArm(name=name, files=Files(**given), identity=IDENTITY)


def request_for(board: str = "rk3568-evb1", **changes: Any) -> JobRequest:
    made = JobRequest(
        name="merge request 42: latency",
        board=boards.board(board),
        arms=(arm("candidate"),),
        boots=("candidate",),
        suites=("latency",),
        profile="mr",
    )
    return replace(made, **changes)


def job_of(request: JobRequest) -> dict[str, Any]:
    made = yaml.safe_load(render(request))
    assert isinstance(made, dict)
    return made


def steps(job: dict[str, Any]) -> list[str]:
    tests = [action["test"] for action in job["actions"] if "test" in action]
    return [step for test in tests for step in test["definitions"][0]["repository"]["run"]["steps"]]


def files_for(board: str, name: str) -> JobArm:
    """Return an arm with the files that the board's way of booting uses."""
    lava = boards.board(board).lava
    assert lava is not None
    dtb = f"{URL}/{name}/board.dtb" if lava.boot.startswith("uboot") else None
    return arm(name, dtb=dtb, ramdisk=None if lava.boot == "fastboot" else f"{URL}/{name}/rootfs.cpio.gz")


@pytest.mark.parametrize("board", BOARDS)
def test_each_board_s_job_is_as_reviewed(board: str, golden: Golden) -> None:
    """What LAVA's own tools say of these files is tested in selftests/lab."""
    arms = (files_for(board, "baseline"), files_for(board, "candidate"))
    boots = ("baseline", "candidate", "candidate", "baseline")
    metadata = {"rtgate.nonce": "0123456789abcdef", "merge_request": "!42"}
    request = request_for(board, arms=arms, boots=boots, metadata=metadata)
    golden(f"lava/jobs/{board}.yaml", render(request))


@pytest.mark.parametrize("boot", ["uboot-nfs", "ipxe-ramdisk"])
def test_the_other_ways_of_booting_are_as_reviewed(boot: str, golden: Golden) -> None:
    board = boards.board("rk3568-evb1")
    assert board.lava is not None
    files = {"nfsroot": f"{URL}/root.tar.xz"} if boot == "uboot-nfs" else {}
    request = request_for(board=board.name, arms=(arm("candidate", modules=f"{URL}/modules.tar.gz", **files),))
    changed = replace(board, lava=replace(board.lava, boot=boot))
    golden(f"lava/jobs/{boot}.yaml", render(replace(request, board=changed, name=boot)))


@pytest.mark.parametrize(
    ("boot", "name", "place"),
    [
        ("uboot-nfs", "kernel", ("kernel",)),
        ("uboot-nfs", "nfsroot", ("nfsrootfs",)),
        ("uboot-ramdisk", "ramdisk", ("ramdisk",)),
        ("fastboot", "kernel", ("images", "boot")),
    ],
)
def test_each_file_whose_content_is_known_has_its_digest(boot: str, name: str, place: tuple[str, ...]) -> None:
    board = boards.board("rk3568-evb1")
    assert board.lava is not None
    more: dict[str, dict[str, str | None]] = {
        "uboot-nfs": {"nfsroot": f"{URL}/root.tar.xz"},
        "fastboot": {"ramdisk": None},
    }
    own = arm("candidate", **more.get(boot, {}))
    own = replace(own, files=replace(own.files, digests={name: "ab" * 32}))
    request = replace(request_for(arms=(own,)), board=replace(board, lava=replace(board.lava, boot=boot)))
    block = job_of(request)["actions"][0]["deploy"]
    for key in place:
        block = block[key]
    assert block["sha256sum"] == "ab" * 32


def test_arms_are_booted_in_the_order_that_was_asked_for() -> None:
    boots = ("baseline", "candidate", "candidate", "baseline")
    job = job_of(request_for(arms=(arm("baseline"), arm("candidate")), boots=boots))
    assert [next(iter(action)) for action in job["actions"]] == ["deploy", "boot", "test"] * 4
    kernels = [action["deploy"]["kernel"]["url"] for action in job["actions"] if "deploy" in action]
    assert kernels == [f"{URL}/{name}/Image" for name in boots]
    assert [re.findall(r"--arm (\S+) --boot (\S+)", step)[0] for step in steps(job)] == [
        (name, str(number)) for number, name in enumerate(boots, 1)
    ]
    names = [action["test"]["definitions"][0]["name"] for action in job["actions"] if "test" in action]
    assert len(set(names)) == 4


def test_the_step_calls_rtgate_with_what_was_asked_for() -> None:
    request = request_for(suites=("latency", "signal"), tuning="isolated", upload="http://192.0.2.1/up/records.tar")
    (step,) = steps(job_of(request))
    assert step.endswith(
        "rtgate in-job --board rk3568-evb1 --arm candidate --boot 1 --suite latency,signal --profile mr "
        "--tuning isolated --upload http://192.0.2.1/up/records.tar"
    )


def test_limits_go_with_the_job_as_they_are() -> None:
    limits = 'ours: {preempt_rt: {}}  # "quoted" $HOME `id` <LAVA_SIGNAL_X y>\n' * 100
    request = request_for(limits=limits, arms=(arm("baseline"), arm("candidate")), boots=("baseline", "candidate"))
    write, step, *_ = steps(job_of(request))
    assert "LAVA_SIGNAL" not in write
    said = subprocess.run(
        ["sh", "-e", "-c", write.replace(">/tmp/rtgate-limits.yaml", "")], capture_output=True, check=True
    )
    assert said.stdout.decode() == limits
    words = shlex.split(step)[1:]
    read = main.parser(["in-job"]).parse_args(words[1:])
    assert (words[0], read.thresholds, read.compared) == ("rtgate", Path("/tmp/rtgate-limits.yaml"), True)
    assert not main.parser(["in-job"]).parse_args(shlex.split(steps(job_of(request_for()))[0])[2:]).compared


@pytest.mark.parametrize(("family", "device"), [("bsp", "ttyFIQ0"), ("mainline", "ttyS2")])
def test_the_console_s_device_follows_the_kernel_s_family(family: str, device: str) -> None:
    request = request_for(family=family)
    assert job_of(request)["context"]["console_device"] == device
    assert console_device(request.board, family) == device


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ("CONFIG_X=y\nCONFIG_FIQ_DEBUGGER=y\n", "bsp"),
        ("# CONFIG_FIQ_DEBUGGER is not set\n", "mainline"),
        ("", "mainline"),
    ],
)
def test_a_kernel_s_family_is_seen_in_its_configuration(config: str, family: str) -> None:
    assert family_of(config) == family


def test_a_tuning_s_arguments_reach_the_command_line() -> None:
    assert job_of(request_for(tuning="isolated"))["context"]["extra_kernel_args"] == (
        "panic=0 printk.time=1 isolcpus=3 nohz_full=3"
    )
    assert job_of(request_for())["context"]["extra_kernel_args"] == "panic=0 printk.time=1"


def test_newer_keys_are_for_newer_servers_only() -> None:
    def test_of(server: tuple[int, int]) -> dict[str, Any]:
        found = job_of(request_for(server=server))["actions"][2]["test"]
        assert isinstance(found, dict)
        return found

    assert "disconnect_connection" not in test_of((2023, 1))
    assert "disconnect_connection" not in test_of((2025, 10))
    assert test_of((2026, 1))["disconnect_connection"] is True


def test_on_the_board_there_is_no_container_and_lava_adds_its_overlay() -> None:
    request = request_for(transport=Transport.BOARD, steps=(("echo one", "echo two"),))
    job = job_of(request)
    assert steps(job) == ["echo one", "echo two"]
    assert "docker" not in job["actions"][2]["test"]
    assert job["actions"][0]["deploy"]["ramdisk"]["install_overlay"] is True
    assert job_of(request_for())["actions"][0]["deploy"]["ramdisk"]["install_overlay"] is False


def test_a_board_whose_root_is_on_a_disk_is_not_measured_by_lava_s_shell_on_it() -> None:
    """The shell never gets there, and a job that waits for it looks like a kernel that hangs."""
    name = "rk3568-evb1-android"
    request = request_for(name, arms=(files_for(name, "candidate"),), transport=Transport.BOARD, steps=(("echo one",),))
    refusal = r"android\.yaml: rk3568-evb1-android boots by fastboot: LAVA cannot add its test shell .* by docker"
    with pytest.raises(ConfigError, match=refusal):
        render(request)
    with pytest.raises(ConfigError, match=refusal):
        health.definition(request.board, request.arms[0].files, transport=Transport.BOARD)
    assert "docker" in job_of(replace(request, transport=Transport.DOCKER))["actions"][2]["test"]


def test_files_that_a_job_does_not_have_are_left_out() -> None:
    deploy = job_of(request_for())["actions"][0]["deploy"]
    assert {"kernel", "ramdisk"} <= set(deploy)
    assert not {"dtb", "modules"} & set(deploy)
    assert deploy["ramdisk"]["compression"] == "gz"
    plain = job_of(request_for(arms=(arm("candidate", ramdisk=f"{URL}/rootfs.cpio"),)))["actions"][0]["deploy"]
    assert "compression" not in plain["ramdisk"]
    url = f"{URL}/rootfs.cpio.gz?inline=false"
    asked = job_of(request_for(arms=(arm("candidate", ramdisk=url),)))["actions"][0]["deploy"]["ramdisk"]
    assert (asked["url"], asked["compression"]) == (url, "gz")


@pytest.mark.parametrize("boot", site.names("lava-jobs"))
def test_a_compressed_kernel_is_unpacked_before_a_boot_loader_gets_it(boot: str) -> None:
    board = boards.board("rk3568-evb1")
    assert board.lava is not None
    board = replace(board, lava=replace(board.lava, boot=boot))

    def compressions(suffix: str) -> list[str | None]:
        way = template.find(boot)
        there = {*way.required, *way.optional}
        plain = {"ramdisk": f"{URL}/rootfs.cpio", "nfsroot": f"{URL}/root.tar.xz"}
        files = {**plain, "kernel": f"{URL}/Image{suffix}", "dtb": f"{URL}/board.dtb{suffix}"}
        own = arm("candidate", **{"ramdisk": None, **{name: url for name, url in files.items() if name in there}})
        deploy = job_of(replace(request_for(arms=(own,)), board=board))["actions"][0]["deploy"]
        blocks = [deploy["images"]["boot"]] if boot == "fastboot" else [deploy["kernel"], deploy.get("dtb", {})]
        return [block.get("compression") for block in blocks if block]

    assert set(compressions("")) == {None}
    assert set(compressions(".gz")) == {"gz"}
    assert set(compressions(".zst")) == {"zstd"}


def test_the_job_ends_after_all_of_its_parts_and_not_before() -> None:
    job = job_of(request_for(arms=(arm("baseline"), arm("candidate")), boots=("baseline", "candidate"), test_s=600))
    parts = [action[name]["timeout"] for action in job["actions"] for name in action]
    units = {"seconds": 1, "minutes": 60}
    total = sum(number * units[unit] for part in parts for unit, number in part.items())
    assert total == 2 * (600 + 300 + 600)
    assert total + 300 <= job["timeouts"]["job"]["minutes"] * 60 < total + 400


def test_a_login_is_made_where_the_board_asks_for_one() -> None:
    board, request = boards.board("rk3568-evb1"), request_for()
    lava = board.lava
    assert lava is not None
    assert "auto_login" not in job_of(request)["actions"][1]["boot"]

    def boot_of(login: Login) -> Any:
        return job_of(replace(request, board=replace(board, lava=replace(lava, login=login))))["actions"][1]["boot"]

    name = {"login_prompt": "login:", "username": "root"}
    assert boot_of(Login(user="root"))["auto_login"] == name
    boot = boot_of(Login(user="root", password="secret"))
    assert boot["auto_login"] == {**name, "password_prompt": "[Pp]assword:", "password": "secret"}
    assert boot["prompts"] == ["target# "]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"board": "virt-arm64"}, "virt-arm64 has no `lava:`"),
        ({"arms": (arm("candidate", ramdisk=None),)}, "booting by uboot-ramdisk needs a ramdisk, and none is given"),
        ({"arms": (arm("candidate", nfsroot=f"{URL}/r.tar.xz"),)}, "has no use for a nfsroot"),
        ({"arms": (arm("candidate", modules=f"{URL}/modules.tar"),)}, "does not end in the name of a compression"),
        ({"arms": (arm("other"),), "boots": ("other",)}, "a job's kernels are baseline and candidate"),
        ({"arms": (arm("candidate"),) * 2}, "each at most once"),
        ({"boots": ()}, r"the boots \(none\) do not use the kernels \(candidate\) exactly"),
        ({"boots": ("baseline", "candidate")}, "do not use the kernels"),
        ({"arms": (arm("baseline"), arm("candidate"))}, "do not use the kernels"),
        ({"suites": ()}, "measures nothing"),
        ({"suites": ("latency; reboot",)}, "allowed are letters"),
        ({"profile": "$(id)"}, "allowed are letters"),
        ({"tuning": "turbo"}, "has no tuning 'turbo'"),
        ({"tags": ("a b",)}, "allowed are letters"),
        ({"priority": "101"}, "unknown priority '101'"),
        ({"priority": "urgent"}, "unknown priority 'urgent'"),
        ({"visibility": "group:a b"}, "allowed are letters"),
        ({"visibility": "secret"}, "unknown visibility 'secret'"),
        ({"transport": Transport.BOARD}, "needs a script for each boot: 1 boots, 0 scripts"),
        ({"arms": (arm("candidate", ramdisk=f"{URL}/ramdisk"),)}, "does not say how it is compressed"),
        ({"family": "vendor"}, "unknown kernel family 'vendor'"),
        ({"image": "rtgate:1;id"}, "not a name of a container image"),
        ({"metadata": {"a\nb": "x"}}, "allowed are letters"),
        ({"upload": "http://192.0.2.1/r.tar?token=abc"}, "no user, password or query"),
        ({"arms": (replace(arm("candidate"), identity="{"),)}, "the kernel's identity is not JSON"),
        ({"arms": (replace(arm("candidate"), identity="[]"),)}, "not a JSON object"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], message: str) -> None:
    board = changes.pop("board", "rk3568-evb1")
    with pytest.raises(ConfigError, match=message):
        render(request_for(board, **changes))


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1/a;reset",
        "http://192.0.2.1/a b",
        "http://192.0.2.1/a${x}",
        "http://192.0.2.1/a'b",
        "http://192.0.2.1/a%3Breset",
        "http://192.0.2.1/",
        "http://192.0.2.1/a\nb",
        "ftp://192.0.2.1/Image",
        "Image",
    ],
)
def test_a_url_that_a_boot_loader_would_take_for_more_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a URL|not end in a plain file name"):
        render(request_for(arms=(arm("candidate", kernel=url),)))


def test_an_upload_goes_below_a_directory() -> None:
    """No boot loader gets its name."""
    assert "--upload https://h/records/" in render(request_for(upload="https://h/records/"))
    with pytest.raises(ConfigError, match="no user, password or query"):
        render(request_for(upload="https://h/records?sig=x"))


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="name or password") as caught:
        render(request_for(arms=(arm("candidate", kernel="http://me:hunter2@192.0.2.1/Image"),)))
    assert "hunter2" not in str(caught.value)


HOSTILE = st.text(max_size=60) | st.sampled_from(
    [
        "'; reboot; '",
        "$(reboot)",
        "`reboot`",
        "x\n- boot: {}",
        "{{ 7 * 7 }}",
        "{% raw %}",
        "!!python/object:os.system {}",
        "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=x RESULT=pass>",
        "\x1b]0;title\x07",
        "${kernel_addr_r}",
        "\udcff",
    ]
)


@given(HOSTILE, HOSTILE)
def test_no_text_of_a_merge_request_changes_the_job(name: str, source: str) -> None:
    calm = job_of(request_for(metadata={"title": "t"}))
    identity = json.dumps({"name": name, "source": source})
    hostile = replace(arm("candidate"), identity=identity)
    text = render(request_for(name=name, metadata={"title": source}, arms=(hostile,)))
    job = yaml.safe_load(text)
    assert text.isascii()
    assert (job["job_name"], job["metadata"]["title"]) == (printable(name, 200), printable(source))
    assert set(job) == set(calm)
    for before, after in zip(calm["actions"][:2], job["actions"][:2], strict=True):
        assert before == after
    (step,) = steps(job)
    assert "<" not in step
    assert step.count("'") == 2
    assert step.partition("' ")[2] == steps(calm)[0].partition("' ")[2]


@pytest.mark.parametrize(
    "source", ["'; exit 3; '", '"', "\\", "$HOME `id` $(id)", "a\nb\tc", "é\u2028<LAVA_SIGNAL_X>", "\\u0041"]
)
def test_the_shell_passes_the_kernel_s_identity_on_as_it_is(source: str) -> None:
    identity = {"name": "k", "source": source}
    (step,) = steps(job_of(request_for(arms=(replace(arm("candidate"), identity=json.dumps(identity)),))))
    script = step.replace("rtgate in-job", "printenv RTGATE_KERNEL; :")
    said = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == identity


@pytest.mark.parametrize(
    ("text", "found"), [("a\nb\x1b", "a?b?"), ("x" * 11, "xxxxxxx..."), ("é", "é"), ("\udcff", "?")]
)
def test_text_of_others_is_made_printable(text: str, found: str) -> None:
    assert printable(text, 10) == found


SITE_BOARD = """\
description: a board of a site
soc: none
arch: arm64
cpus: 1
memory: 512 MiB
build: our-build
console: {device: ttyS0, baud: 115200}
lava: {device_type: ours, boot: uboot-ramdisk}
tunings: {isolated: {description: CPU 0 alone, command_line: isolcpus=0, build: our-isolation}}
"""


def write_site(directory: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


OURS = {
    "boards/ours.yaml": SITE_BOARD,
    "kernel-configs/our-build.yaml": "arch: arm64\n",
    "kernel-configs/our-isolation.yaml": "arch: arm64\n",
}


def carry_out_begin(step_list: list[str], place: Path, image: Path, **variables: str) -> str:
    """Carry out what a job's shell does before its last step, with an image's site; return the site after that."""
    script = "\n".join((*step_list[:-1], "echo $RTGATE_SITE"))
    script = script.replace("/tmp/rtgate-site", str(place)).replace("/usr/share/rtgate/site", str(image))
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        ["sh", "-ec", script], capture_output=True, text=True, check=True, env=environment
    ).stdout.strip()


def test_a_board_of_a_site_goes_with_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's container has rtgate's own boards: the job's shell writes this one, and what it names, beside them."""
    write_site(tmp_path / "site", OURS)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    made = steps(job_of(request_for("ours")))
    check = yaml.safe_load(health.definition(boards.board("ours"), arm("known-good").files))
    assert steps(check)[: len(made) - 1] == made[:-1]
    assert " in-job --board ours " in made[-1]
    monkeypatch.delenv("RTGATE_SITE")
    with pytest.raises(ConfigError, match="unknown name 'ours' in boards"):
        boards.board("ours")
    monkeypatch.setenv("RTGATE_SITE", carry_out_begin(made, tmp_path / "job", tmp_path / "none"))
    assert boards.board("ours").description == "a board of a site"
    assert boards.board("ours").build == "our-build"
    assert boards.board("ours").tuning("isolated").build == "our-isolation"


@pytest.mark.parametrize("named", [True, False], ids=["named by RTGATE_SITE", "where the image's rtgate looks"])
def test_the_board_s_file_of_a_job_wins_over_that_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    """Nobody makes an image again for each change of a board; its suites and profiles are still the image's."""
    write_site(tmp_path / "site", {**OURS, "profiles.yaml": "of the submitter's site\n"})
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "site"))
    made = steps(job_of(request_for("ours")))
    old = SITE_BOARD.replace("a board of a site", "an old copy")
    write_site(tmp_path / "image", {**OURS, "boards/ours.yaml": old, "profiles.yaml": "of the image\n"})
    variables = {"RTGATE_SITE": str(tmp_path / "image")} if named else {}
    default = tmp_path / ("none" if named else "image")
    for _ in range(2):  # a container that a worker does not make anew
        monkeypatch.setenv("RTGATE_SITE", carry_out_begin(made, tmp_path / "job", default, **variables))
        assert boards.board("ours").description == "a board of a site"
        assert site.files("profiles.yaml")[0].read_text() == "of the image\n"
    assert (tmp_path / "image/boards/ours.yaml").read_text() == old


def test_a_shipped_board_is_in_every_image() -> None:
    assert len(steps(job_of(request_for()))) == 1
