# SPDX-License-Identifier: MIT
"""Health checks of a real board's boot medium: changed by somebody, found out, restored from a web server."""

from __future__ import annotations

import functools
import hashlib
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from selftests.lab.conftest import given
from selftests.lab.lab import PROGRAM, Lab

from rtgate.cli.main import main
from rtgate.rootfs import images

pytestmark = pytest.mark.long("a boot medium is written and read back job by job; test_submit has one job of each kind")

MEDIUM = "/var/lib/rtgate-boards/lab-virt-arm64.medium"
DEVICE = "lab-virt-arm64-01"
CHECK = "/etc/lava-server/dispatcher-config/health-checks/lab-virt-arm64.yaml"
MIB = 1 << 20
OFFSET, LENGTH, SIZE = 32 * 1024, 4 * MIB + 64 * 1024, 16 * MIB
GOOD = random.Random(4).randbytes(LENGTH)


@pytest.fixture(scope="session")
def known_good(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the options that name a kernel which sees the medium, and its ramdisk."""
    directory = tmp_path_factory.mktemp("known-good")
    assert main(["build", "virt-arm64-lab", "-o", str(directory)]) == 0
    kernel = given(directory / "Image", "known-good-kernel")
    ramdisk = given(images.image("core", "arm64").path, "known-good.cpio.gz")
    return ["--kernel", f"file://{kernel}", "--ramdisk", f"file://{ramdisk}"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve images from this machine, and return the URL at which boards see it."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://10.0.2.2:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def put(data: bytes, offset: int = 0) -> None:
    """Write to the medium behind the board's back."""
    script = f'dd of={MEDIUM} bs=65536 seek="$1" oflag=seek_bytes iflag=fullblock conv=notrunc status=none'
    subprocess.run([PROGRAM, "exec", "sh", "-c", script, "sh", str(offset)], input=data, check=True)


def held(lab: Lab) -> str:
    """Return the hash of the whole medium."""
    return lab.inside("sha256sum", MEDIUM).split()[0]


def definition(tmp_path: Path, capsys: pytest.CaptureFixture[str], known_good: list[str], **changes: Any) -> str:
    region = {"device": "/dev/nvme0n1", "offset": OFFSET, "length": LENGTH, "size": SIZE, "model": "QEMU NVMe Ctrl"}
    whole = {"media": {"loader": {**region, "sha256": hashlib.sha256(GOOD).hexdigest(), **changes}}}
    (tmp_path / "media.yaml").write_text(yaml.safe_dump(whole))
    argv = ["lab-check", "--health-check", "lab-virt-arm64", "--media", str(tmp_path / "media.yaml"), *known_good]
    capsys.readouterr()
    assert main(argv) == 0
    return capsys.readouterr().out


def told(lab: Lab, job: int) -> dict[str, str]:
    """Return the results of regions by boot and name."""
    found = {key: one["result"] for key, one in lab.results(job).items() if ".media." in key}
    return {key.partition("_rtgate-")[2]: result for key, result in found.items()}


def said(lab: Lab, job: int) -> str:
    return "\n".join(str(line["msg"]) for line in lab.log(job) if line["lvl"] in {"target", "feedback"})


def test_a_changed_boot_medium_is_restored_and_the_second_boot_finds_it_good(
    lab: Lab, known_good: list[str], server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(bytes(SIZE))
    put(GOOD, OFFSET)
    good = held(lab)
    put(b"an untrusted kernel was here", OFFSET + 3 * MIB + 5)
    assert held(lab) != good
    (tmp_path / "loader.img").write_bytes(GOOD)
    text = definition(tmp_path, capsys, known_good, image=f"{server}/loader.img")
    job = lab.submit(yaml.safe_load(text))
    assert lab.wait(job, 600)["health"] == "Complete", said(lab, job)[-3000:]
    assert told(lab, job) == {"1-candidate/board.media.loader": "pass", "2-candidate/board.media.loader": "pass"}
    log = said(lab, job)
    assert f"restored, {MIB} bytes written" in log
    good12 = hashlib.sha256(GOOD).hexdigest()[:12]
    assert f"/dev/nvme0n1 has {good12}, must have {good12}\n" in f"{log}\n"
    assert held(lab) == good


def test_a_medium_that_nobody_can_restore_takes_the_device_out_of_service(
    lab: Lab, known_good: list[str], server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(bytes(SIZE))
    put(GOOD, OFFSET)
    put(b"!", OFFSET)
    changed = held(lab)
    (tmp_path / "loader.img").write_bytes(GOOD[:-1] + b"?")  # not what the list says
    text = definition(tmp_path, capsys, known_good, image=f"{server}/loader.img")
    script = f'mkdir -p "$(dirname {CHECK})"; [ ! -e {CHECK} ] || mv {CHECK} {CHECK}.kept; cat >{CHECK}'
    subprocess.run([PROGRAM, "exec", "sh", "-c", script], input=text.encode(), check=True)
    try:
        lava_begins_health_checks(lab, begins=True)
        before = last_job(lab)
        lab.inside("lava-server", "manage", "devices", "update", "--health", "UNKNOWN", DEVICE)
        job = waited_for(lab, before)
        assert lab.wait(job, 600)["health"] == "Incomplete"
        assert "not restored, nothing was written: the image hashes to" in said(lab, job)
        assert told(lab, job) == {"1-candidate/board.media.loader": "fail"}
        assert lab.ask(f"devices/{DEVICE}/")["health"] == "Bad"
        assert held(lab) == changed
    finally:
        lab.inside("sh", "-c", f"rm -f {CHECK}; [ ! -e {CHECK}.kept ] || mv {CHECK}.kept {CHECK}")
        lava_begins_health_checks(lab, begins=False)
        lab.inside("lava-server", "manage", "devices", "update", "--health", "GOOD", DEVICE)


def lava_begins_health_checks(lab: Lab, *, begins: bool) -> None:
    """Let LAVA begin health checks of the board by itself, or let it be: `make lab` has it leave them to `submit`."""
    program = "from lava_scheduler_app.models import DeviceType as T; "
    program += f"T.objects.filter(name='lab-virt-arm64').update(disable_health_check={not begins})"
    lab.inside("runuser", "-u", "lavaserver", "--", "lava-server", "manage", "shell", "-c", program)


def last_job(lab: Lab) -> int:
    """Return the number of the newest job, 0 without any."""
    found = lab.ask("jobs/?ordering=-id&limit=1")["results"]
    return int(found[0]["id"]) if found else 0


def waited_for(lab: Lab, before: int) -> int:
    """Wait until LAVA has begun a job of its own, the health check, and return it."""
    limit = time.monotonic() + 120
    while (job := last_job(lab)) <= before:
        assert time.monotonic() < limit, "LAVA begins no health check"
        time.sleep(1)
    return job
