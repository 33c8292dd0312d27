# SPDX-License-Identifier: MIT
"""Boot media on a real shell: a file, or a loop device, stands for the medium, and a server here for the lab's."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest
from selftests.faults.lines import Line, flips

from rtgate.board.media import Region
from rtgate.console.frames import cksum
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import ProgramTransport, Transport
from rtgate.deadline import Deadline
from rtgate.errors import InfrastructureError
from rtgate.lava.lab import boot_media
from rtgate.lava.lab.health_result import HealthResult

BUSYBOX = shutil.which("busybox")
KIB = 1024
OFFSET, LENGTH = 32 * KIB, 3 * KIB * KIB + 64 * KIB
SIZE = 4 * KIB * KIB
GOOD = random.Random(1).randbytes(LENGTH)
HASH = hashlib.sha256(GOOD).hexdigest()


@dataclass
class Server:
    """Serves images by name as a lab's web server does, and counts what was asked for."""

    images: dict[str, Callable[[int], bytes]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    def url(self, name: str, image: bytes | Callable[[int], bytes], length: int | None = None) -> str:
        """Serve an image, which may depend on how often it was asked for; `length` is what the server claims."""
        self.images[name] = image if callable(image) else lambda _: image
        if length is not None:
            self.lengths[name] = length
        return f"http://127.0.0.1:{self.port}/{name}"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/")
            made.asked.append(name)
            if name not in made.images:
                self.send_error(404)
                return
            data = made.images[name](made.asked.count(name))
            self.send_response(200)
            self.send_header("Content-Length", str(made.lengths.get(name, len(data))))
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                return  # the board has seen enough

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        made.port = listening.server_address[1]
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield made
        listening.shutdown()
        thread.join()


@dataclass
class Target:
    """A board: a shell, a medium, and what its kernel tells in /sys and /proc."""

    root: Path
    path: str
    said: list[str] = field(default_factory=list)
    change: Callable[[Transport], Transport] = lambda transport: transport

    @property
    def medium(self) -> Path:
        return self.root / "dev" / "mmcblk0"

    @property
    def block(self) -> Path:
        return self.root / "sys/class/block/mmcblk0"

    @property
    def proc(self) -> Path:
        return self.root / "proc"

    def region(self, **changes: object) -> Region:
        facts = {"name": "loader", "device": str(self.medium), "offset": OFFSET, "length": LENGTH, "sha256": HASH}
        return Region(**{**facts, **changes})  # type: ignore[arg-type]

    def program(self, name: str, script: str) -> None:
        """Put a program in front of the one of this name, which it finds as $real."""
        real = shutil.which(name, path=self.path)
        file = self.root / "bin" / name
        file.unlink(missing_ok=True)
        file.write_text(f"#!/bin/sh\nreal={real}\n{script}\n")
        file.chmod(0o755)

    @contextmanager
    def media(self, **environment: str) -> Iterator[boot_media.Media]:
        known = {"RTGATE_MEDIUM": "file", "RTGATE_SYS": str(self.root / "sys"), "RTGATE_PROC": str(self.proc)}
        variables = [f"{name}={value}" for name, value in {**known, **environment}.items()]
        transport = ProgramTransport(["env", "-i", f"PATH={self.root}/bin:{self.path}", *variables, "/bin/sh"])
        shell = Shell(self.change(transport), threading.Event(), waits=Waits(answer=1.0, quiet=1.0))
        try:
            shell.find(Deadline.after(10))
            shell.plain(Deadline.after(10))
            with boot_media.media(shell, str(self.root / "run"), self.said.append) as found:
                yield found
        finally:
            transport.close()

    def proved(self, *regions: Region, **environment: str) -> list[HealthResult]:
        with self.media(**environment) as media:
            return list(boot_media.proved(media, regions))

    def holds(self, data: bytes = GOOD) -> bool:
        """Whether the region holds this, and nothing beside it was touched."""
        whole = self.medium.read_bytes()
        return whole == b"\xaa" * OFFSET + data + b"\xbb" * (SIZE - OFFSET - LENGTH)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Return a directory in RAM where there is one: what is written to a medium is waited for."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="rtgate-media-") as name:
        yield Path(name)


# Boards have BusyBox; some have a distribution's shell and programs.
both = pytest.mark.parametrize("target", ["busybox", "sh"], indirect=True)


@pytest.fixture
def target(request: pytest.FixtureRequest, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    if BUSYBOX is None:
        pytest.skip("busybox is not installed")
    monkeypatch.setattr(boot_media, "_LOOK_S", 0.1)
    for name in ("bin", "dev", "run", "applets", "proc/self", "proc/net", "proc/sys/vm", "sys/class/block/mmcblk0"):
        (directory / name).mkdir(parents=True)
    path = os.environ["PATH"]
    if getattr(request, "param", "busybox") == "busybox":
        subprocess.run([BUSYBOX, "--install", "-s", str(directory / "applets")], check=True)
        path = str(directory / "applets")
        # Debian's busybox has none.
        (directory / "bin" / "cksum").symlink_to(shutil.which("cksum") or "")
    (directory / "bin" / "wget").symlink_to(BUSYBOX)
    # All disks of this machine have nothing to do with it.
    (directory / "bin" / "sync").symlink_to(shutil.which("true") or "")
    made = Target(directory, path)
    (made.block / "size").write_text(f"{SIZE // 512}\n")
    (made.block / "dev").write_text("179:0\n")
    (made.block / "ro").write_text("0\n")
    (made.block / "device").mkdir()
    (made.block / "device" / "name").write_text("BJTD4R\n")
    (made.proc / "meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable:   900000 kB\n")
    (made.proc / "self/mountinfo").write_text("21 1 0:20 / /proc rw - proc proc rw\n")
    (made.proc / "net/route").write_text("Iface\tDestination\neth0\t00000000\n")
    (made.proc / "swaps").write_text("Filename\tType\n")
    (made.proc / "sys/vm/drop_caches").write_text("")
    made.medium.write_bytes(b"\xaa" * OFFSET + GOOD + b"\xbb" * (SIZE - OFFSET - LENGTH))
    return made


def changed(target: Target, at: int = 1000, data: bytes = b"an untrusted kernel was here") -> bytes:
    """Change the medium as an untrusted kernel would, and return what the region then holds."""
    with target.medium.open("r+b") as file:
        file.seek(OFFSET + at)
        file.write(data)
    return GOOD[:at] + data + GOOD[at + len(data) :]


@both
def test_a_medium_as_it_was_is_good_and_left_alone(target: Target) -> None:
    before = target.medium.stat().st_mtime_ns
    (found,) = target.proved(target.region(size=SIZE, model="BJTD4R"))
    assert found == HealthResult(
        "media.loader", True, float(LENGTH), "bytes", f"{target.medium} has {HASH[:12]}, must have {HASH[:12]}"
    )
    assert target.medium.stat().st_mtime_ns == before
    assert not list((target.root / "run").iterdir())
    assert (target.proc / "sys/vm/drop_caches").read_text() == "3\n"


def test_a_changed_medium_without_an_image_fails_and_is_left_alone(target: Target) -> None:
    now = changed(target)
    (found,) = target.proved(target.region())
    assert not found.good
    assert hashlib.sha256(now).hexdigest()[:12] in found.sentence
    assert "changed, and nobody said where its image is" in found.sentence
    assert target.holds(now)


@both
def test_a_changed_medium_is_restored_and_only_what_differed_is_written(target: Target, server: Server) -> None:
    changed(target)
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert found.good, found.sentence
    assert found.sentence.endswith(f"must have {HASH[:12]}: restored, {KIB * KIB} bytes written")
    assert any("restoring it" in line for line in target.said)
    assert target.holds()


@both
def test_an_image_that_does_not_fit_into_ram_is_fetched_twice_and_written_in_pieces(
    target: Target, server: Server
) -> None:
    now = changed(target, at=LENGTH - 5, data=b"12345")
    assert target.holds(now)
    changed(target, at=0)
    (target.proc / "meminfo").write_text("MemAvailable: 4200 kB\n")  # half of it, less one step: one piece of 1 MiB
    (found,) = target.proved(target.region(image=server.url("pieces", GOOD)))
    assert found.good, found.sentence
    assert server.asked.count("pieces") == 2
    assert target.holds()


@pytest.mark.parametrize(
    ("name", "image", "length", "why"),
    [
        ("short", GOOD[:-512], None, f"the image ends at byte {LENGTH - 512} of {LENGTH}"),
        ("cut", GOOD[: 2 * KIB * KIB], LENGTH, f"the image ends at byte {2 * KIB * KIB} of {LENGTH}"),
        ("long", GOOD + b"\0", None, f"the image is longer than the region's {LENGTH} bytes"),
        ("wrong", GOOD[:-1] + b"\0", None, f"not to {HASH[:12]}"),
        ("empty", b"", None, f"the image ends at byte 0 of {LENGTH}"),
    ],
)
def test_an_image_that_is_not_right_is_never_written(
    target: Target, server: Server, name: str, image: bytes, length: int | None, why: str
) -> None:
    now = changed(target)
    for memory in ("900000", "4200"):
        (target.proc / "meminfo").write_text(f"MemAvailable: {memory} kB\n")
        (found,) = target.proved(target.region(image=server.url(name, image, length)))
        assert not found.good
        assert "not restored, nothing was written" in found.sentence
        assert why in found.sentence
        assert target.holds(now)


def test_a_server_that_has_no_image_is_told(target: Target) -> None:
    now = changed(target)
    (found,) = target.proved(target.region(image="http://127.0.0.1:1/loader.img"))
    assert "nothing was written" in found.sentence
    assert "refused" in found.sentence
    assert target.holds(now)


def test_an_image_that_changes_between_two_fetches_is_not_written(target: Target, server: Server) -> None:
    now = changed(target)
    (target.proc / "meminfo").write_text("MemAvailable: 4200 kB\n")
    other = server.url("changes", lambda turn: GOOD if turn % 2 else bytes(LENGTH))
    (found,) = target.proved(target.region(image=other))
    assert not found.good
    assert "the image changed meanwhile" in found.sentence
    assert target.holds(now)


def _set(path: str, text: str) -> Callable[[Target], None]:
    return lambda target: _write(target.root / path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_set("sys/class/block/mmcblk0/ro", "1\n"), "is read-only"),
        (_set("proc/self/mountinfo", "30 1 179:0 / /mnt rw - ext4 /dev/mmcblk0 rw\n"), "is mounted"),
        (_set("sys/class/block/mmcblk0/holders/dm-0", ""), "is in use by dm-0"),
        (_set("proc/meminfo", "MemAvailable: 2000 kB\n"), "no memory for the image"),
        (_set("proc/meminfo", ""), "no memory for the image"),
    ],
    ids=["read-only", "mounted", "device mapper", "little memory", "unknown memory"],
)
def test_a_medium_that_must_not_or_cannot_be_written_is_not(
    target: Target, server: Server, spoil: Callable[[Target], None], why: str
) -> None:
    now = changed(target)
    spoil(target)
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert not found.good
    assert "nothing was written" in found.sentence
    assert why in found.sentence
    assert target.holds(now)


def test_a_mounted_partition_of_the_medium_forbids_writing(target: Target, server: Server) -> None:
    now = changed(target)
    _write(target.block / "mmcblk0p1" / "dev", "179:1\n")
    (target.proc / "self/mountinfo").write_text("30 1 179:1 / /mnt ro - ext4 /dev/root ro\n")
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert "is mounted: nothing is written" in found.sentence
    assert target.holds(now)


def test_swap_on_the_medium_forbids_writing(target: Target, server: Server) -> None:
    now = changed(target)
    (target.proc / "swaps").write_text(f"Filename Type\n{target.medium}p2 partition 1 0 -2\n")
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert "swaps" in found.sentence
    assert target.holds(now)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"size": SIZE + 512}, f"has {SIZE} bytes, not {SIZE + 512}: another device"),
        ({"model": "Other"}, "is 'BJTD4R', not 'Other': another device"),
        ({"offset": SIZE - LENGTH + 32 * KIB}, "the region is behind"),
    ],
)
def test_another_device_is_neither_hashed_nor_written(
    target: Target, server: Server, changes: dict[str, object], why: str
) -> None:
    now = changed(target)
    (found,) = target.proved(target.region(image=server.url("good", GOOD), **changes))
    assert not found.good
    assert "cannot be hashed" in found.sentence
    assert why in found.sentence
    assert target.holds(now)


@both
def test_a_device_whose_name_has_backslashes(target: Target) -> None:
    """A shell's echo may end at `\\c`: then the line is not what its checksum is of."""
    (target.block / "device" / "name").write_text("S\\c32G\\n\n")
    (found,) = target.proved(target.region(model="S\\c32G\\n"))
    assert found.good
    (found,) = target.proved(target.region(model="Other"))
    assert "is 'S\\c32G\\n', not 'Other': another device" in found.sentence


def test_a_device_that_is_not_there_fails_and_is_not_made(target: Target, server: Server) -> None:
    target.medium.unlink()
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert (found.good, "is not there" in found.sentence) == (False, True)
    assert not target.medium.exists()


def test_a_file_in_place_of_a_device_is_refused(target: Target) -> None:
    (found,) = target.proved(target.region(), RTGATE_MEDIUM="")
    assert (found.good, "is not there" in found.sentence) == (False, True)


def test_a_medium_that_cannot_be_read_fails(target: Target) -> None:
    target.program("dd", 'case "$*" in *skip=65*) echo "dd: read error" >&2; exit 1 ;; esac; exec "$real" "$@"')
    (found,) = target.proved(target.region())
    assert not found.good
    assert "reading" in found.sentence
    assert "read error" in found.sentence


@both
def test_a_write_that_fails_half_way_is_told_and_mended_by_the_next_check(target: Target, server: Server) -> None:
    changed(target, at=0, data=bytes(2 * KIB * KIB))
    target.program("dd", 'case "$*" in *seek=33*) echo "dd: no space" >&2; exit 1 ;; esac; exec "$real" "$@"')
    region = target.region(image=server.url("good", GOOD))
    later = target.region(name="env", offset=0, length=512, sha256="0" * 64, image=server.url("env", bytes(512)))
    found, other = target.proved(region, later)
    assert not found.good
    assert f"not restored, {2 * KIB * KIB} bytes of it were written" in found.sentence
    assert "no space" in found.sentence
    # One of two copies of a boot loader stays, so nothing else is written.
    assert "not restored, because loader could not be" in other.sentence
    assert target.medium.read_bytes()[:OFFSET] == b"\xaa" * OFFSET

    (target.root / "bin" / "dd").unlink()
    (found,) = target.proved(region)
    assert found.good
    assert target.holds()


def test_a_medium_that_forgets_what_was_written_fails(target: Target, server: Server) -> None:
    now = changed(target)
    target.program("dd", 'case "$*" in *of=*) exit 0 ;; esac; exec "$real" "$@"')
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert not found.good
    assert f"and now it has {hashlib.sha256(now).hexdigest()[:12]}" in found.sentence


def test_caches_that_cannot_be_dropped_prove_nothing(target: Target) -> None:
    (target.proc / "sys/vm/drop_caches").unlink()
    (target.proc / "sys/vm").rmdir()
    (found,) = target.proved(target.region())
    assert (found.good, "the page cache cannot be dropped" in found.sentence) == (False, True)


@both
def test_a_boot_partition_is_opened_for_writing_only_and_closed_again(target: Target, server: Server) -> None:
    changed(target)
    guard = target.block / "force_ro"
    guard.write_text("1\n")
    target.program("dd", f'case "$*" in *of=*) cat {guard} >>{target.root}/seen ;; esac; exec "$real" "$@"')
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert found.good, found.sentence
    assert guard.read_text() == "1\n"
    assert set((target.root / "seen").read_text().split()) == {"0"}
    # Also after a write that fails.
    changed(target)
    target.program("dd", 'case "$*" in *of=*) exit 1 ;; esac; exec "$real" "$@"')
    (found,) = target.proved(target.region(image=server.url("good", GOOD)))
    assert not found.good
    assert guard.read_text() == "1\n"


def test_a_board_that_lacks_a_program_says_which(target: Target) -> None:
    changed(target)
    (target.root / "applets" / "head").unlink()
    (found,) = target.proved(target.region(image="http://127.0.0.1:1/x.img"))
    assert "the board lacks head" in found.sentence


@pytest.fixture
def flash(target: Target) -> Target:
    """Return a board with NOR flash memory: `mtd0` to read, `mtdblock0` to write."""
    facts = target.root / "sys/class/mtd/mtd0"
    for name, text in (("size", SIZE), ("type", "nor"), ("flags", "0xc00"), ("erasesize", 32 * KIB), ("name", "spi0")):
        _write(facts / name, f"{text}\n")
    shutil.copytree(target.block, target.root / "sys/class/block/mtdblock0")
    (target.root / "dev/mtd0").symlink_to(target.medium)
    (target.root / "dev/mtdblock0").symlink_to(target.medium)
    return target


def test_flash_memory_is_read_by_one_device_and_written_by_another(flash: Target, server: Server) -> None:
    changed(flash)
    region = flash.region(device=f"{flash.root}/dev/mtd0", model="spi0", size=SIZE, image=server.url("good", GOOD))
    (found,) = flash.proved(region)
    assert found.good, found.sentence
    assert flash.holds()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_set("sys/class/mtd/mtd0/type", "nand\n"), "is no NOR flash"),
        (_set("sys/class/mtd/mtd0/flags", "0x800\n"), "is read-only"),
        (_set("sys/class/mtd/mtd0/erasesize", f"{64 * KIB}\n"), f"is erased in blocks of {64 * KIB} bytes"),
        (lambda target: (target.root / "dev/mtdblock0").unlink(), "mtdblock0 to write by"),
    ],
    ids=["NAND", "read-only", "erased beyond the region", "no block device"],
)
def test_flash_memory_that_cannot_be_written_as_a_region_is_not(
    flash: Target, server: Server, spoil: Callable[[Target], None], why: str
) -> None:
    now = changed(flash)
    spoil(flash)
    (found,) = flash.proved(flash.region(device=f"{flash.root}/dev/mtd0", image=server.url("good", GOOD)))
    assert "nothing was written" in found.sentence
    assert why in found.sentence
    assert flash.holds(now)


@both
def test_regions_are_hashed_as_they_are_now(target: Target) -> None:
    now = changed(target)
    whole = target.region(name="all", offset=0, length=0, sha256="")
    with target.media() as media:
        loader, rest = boot_media.hashed(media, (target.region(sha256=""), whole))
    assert loader == target.region(sha256=hashlib.sha256(now).hexdigest(), size=SIZE, model="BJTD4R")
    assert (rest.length, rest.sha256) == (SIZE, hashlib.sha256(target.medium.read_bytes()).hexdigest())


def test_a_region_that_cannot_be_hashed_is_not_printed(target: Target) -> None:
    target.medium.unlink()
    with target.media() as media, pytest.raises(InfrastructureError, match=r"loader cannot be hashed: .* not there"):
        boot_media.hashed(media, (target.region(),))


def test_a_damaged_line_makes_no_good_medium_look_bad(target: Target, server: Server) -> None:
    source = random.Random(7)
    target.change = lambda transport: Line(transport, flips(source, 600), flips(source, 3000))
    region = target.region(image=server.url("good", GOOD))
    (found,) = target.proved(region)
    assert found.sentence == f"{target.medium} has {HASH[:12]}, must have {HASH[:12]}"
    changed(target)
    (found,) = target.proved(region)
    assert found.good, found.sentence
    assert target.holds()


@dataclass
class Answers:
    """A shell that answers what a test wrote down, the last answer again and again."""

    answers: list[bytes]

    def sure(self, *_: object) -> tuple[int, bytes]:
        return 0, self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_a_state_is_asked_for_until_its_checksum_is_right() -> None:
    right = f"media:hashing 512:{cksum(b'hashing 512')} 11:\r\n".encode()
    wrong = right.replace(b"512:", b"912:", 1)
    shell = Answers([b"", wrong, right.replace(b" 11:", b" 12:"), b"[ 1.0] mmc0\r\n" + right + wrong, b"never"])
    assert boot_media.Media(cast("Shell", shell), "/run", print)._state("/run/1") == "hashing 512"
    assert shell.answers == [b"never"]


def test_a_state_that_never_arrives_whole_is_the_line_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_media, "_ANSWER_S", 0.2)
    with pytest.raises(InfrastructureError, match="has not told undamaged how far it is"):
        boot_media.Media(cast("Shell", Answers([b"media:hashed"])), "/run", print)._state("/run/1")


def test_a_server_that_stalls_ends_the_check(target: Target, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_media, "_STALL_S", 2.0)
    monkeypatch.setattr(boot_media, "_TELL_S", 0.5)
    now = changed(target)
    released = threading.Event()

    def slow(_: int) -> bytes:
        released.wait(30)
        return GOOD

    with pytest.raises(InfrastructureError, match=r"while it was restored: .* does not get on .*fetching 0"):
        target.proved(target.region(image=server.url("stalls", slow)))
    released.set()
    assert target.holds(now)
    assert any(line.startswith("media.loader: fetching, 0.0 of 3.2 MB") for line in target.said)


@both
def test_what_writes_goes_on_when_ctrl_c_is_typed(
    target: Target, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(target)
    target.program("dd", 'case "$*" in *of=*) sleep 2 ;; esac; exec "$real" "$@"')
    with target.media() as media:
        looked = boot_media.Media._state

        def disturbed(media: boot_media.Media, work: str) -> str:
            if not looked(media, work):
                return ""  # nothing has begun
            media.shell.transport.write(b"\x03\n")
            time.sleep(0.3)
            media.shell.find(Deadline.after(10))
            return looked(media, work)

        monkeypatch.setattr(boot_media.Media, "_state", disturbed)
        (found,) = boot_media.proved(media, (target.region(image=server.url("good", GOOD)),))
    assert found.good, found.sentence
    assert target.holds()


@pytest.fixture
def loop(directory: Path) -> Iterator[Path]:
    if os.geteuid() != 0 or BUSYBOX is None:
        pytest.skip("loop devices need root")
    file = directory / "disk"
    file.write_bytes(bytes(SIZE))
    done = subprocess.run(["losetup", "--show", "-f", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device here: {done.stderr.strip()}")
    subprocess.run(["blockdev", "--setrw", done.stdout.strip()], check=True)
    yield Path(done.stdout.strip())
    subprocess.run(["blockdev", "--setrw", done.stdout.strip()], check=True)  # it would stay so
    subprocess.run(["losetup", "-d", done.stdout.strip()], check=True)


@both
def test_a_real_block_device_is_restored(target: Target, loop: Path, server: Server) -> None:
    region = target.region(device=str(loop), size=SIZE, image=server.url("good", GOOD))
    (found,) = target.proved(region, RTGATE_MEDIUM="", RTGATE_SYS="/sys")
    assert found.good, found.sentence
    assert f"restored, {LENGTH} bytes written" in found.sentence
    assert loop.read_bytes() == bytes(OFFSET) + GOOD + bytes(SIZE - OFFSET - LENGTH)
    (found,) = target.proved(region, RTGATE_MEDIUM="", RTGATE_SYS="/sys")
    assert found.sentence == f"{loop} has {HASH[:12]}, must have {HASH[:12]}"


def test_a_real_block_device_that_is_read_only_is_not_written(target: Target, loop: Path, server: Server) -> None:
    subprocess.run(["blockdev", "--setro", str(loop)], check=True)
    region = target.region(device=str(loop), image=server.url("good", GOOD))
    (found,) = target.proved(region, RTGATE_MEDIUM="", RTGATE_SYS="/sys")
    assert (found.good, "is read-only" in found.sentence) == (False, True)
    assert loop.read_bytes() == bytes(SIZE)


def test_time_is_scaled_to_the_size() -> None:
    small = Region(name="a", device="/dev/mmcblk0", offset=0, length=1 << 20)
    large = Region(name="b", device="/dev/mmcblk0", offset=1 << 20, length=1 << 30)
    flash = Region(name="c", device="/dev/mtd0", offset=0, length=16 << 20, image="http://h/x")
    assert boot_media.hash_s(small) < 65
    assert boot_media.hash_s(large) > 500
    assert boot_media.restore_s(flash) > 500
    assert boot_media.seconds(()) == 0
    assert boot_media.seconds((small, large)) > boot_media.hash_s(small) + boot_media.hash_s(large)
    assert boot_media.seconds((flash,)) > boot_media.restore_s(flash) + 2 * boot_media.hash_s(flash)


@both
def test_without_a_container_a_medium_is_hashed_by_lines_of_lava_s_shell(target: Target) -> None:
    good = target.region()
    bad = target.region(name="env", offset=0, length=512)
    (target.root / "bin" / "lava-test-case").write_text("#!/bin/sh\necho CASE $*\n")
    (target.root / "bin" / "lava-test-case").chmod(0o755)
    lines = "\n".join(("bad=0", *boot_media.on_board((good, bad)), 'echo "bad=$bad"'))
    path = f"{target.root}/bin:{target.path}"
    done = subprocess.run(["sh", "-ec", lines], env={"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"CASE board.media.loader --result pass --measurement {LENGTH} --units bytes",
        "CASE board.media.env --result fail --measurement 512 --units bytes",
        "bad=1",
    ]
