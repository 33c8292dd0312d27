# SPDX-License-Identifier: MIT
"""Boot media of a board in a lab: hashed over the console, and restored where somebody changed them.

The work is done by `boot_media.sh` on the board, in the background: whatever happens to the line, it goes on, and
nothing that is typed interrupts a write. We look at its state, which arrives with its checksum: a damaged digit must
not make a good medium look bad, and have it written. Only a whole image with the right hash is written, and the
medium is read back afterwards.
"""

from __future__ import annotations

import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.board.media import Region
from rtgate.console.frames import cksum
from rtgate.console.shell import UNKNOWN, Shell
from rtgate.deadline import Deadline
from rtgate.errors import InfrastructureError, TargetError
from rtgate.lava.lab.health_result import HealthResult
from rtgate.lava.results.plain import phrase

_SCRIPT = Path(__file__).with_name("boot_media.sh")
_COMMAND_S = 60.0
_ANSWER_S = 180.0
_START_S = 60.0  # of each step, whatever its size
_LOOK_S = 1.0  # between two looks at the state
_TELL_S = 10.0  # between two lines of progress; who follows a job takes silence for a hang
_STALL_S = 120.0  # without progress: a step of 1 MiB takes flash memory 20 s
_WHOLE_S = 4 * 3600.0  # to read a device of which nobody has said how large it is; a stall ends it sooner
_NETWORK_S = 120.0  # an address for each of a few interfaces
# Bytes a second that each step makes at least: read and hashed, fetched, written; raw flash memory is slower.
_READ, _FETCH, _WRITE = 2 << 20, 1 << 20, 1 << 20
_FLASH_READ, _FLASH_WRITE = 256 << 10, 64 << 10
_ANSWER = re.compile(rb"media:([^\r\n]*):([0-9]+) ([0-9]+):")
_ENDS = ("hashed", "restored", "failed")
_SHOWN = 12  # digits of a hash

Tell = Callable[[str], None]


def hash_s(region: Region) -> float:
    """Return the seconds that reading a region may take."""
    if not region.length:
        return _WHOLE_S
    return _START_S + region.length / (_FLASH_READ if region.flash else _READ)


def restore_s(region: Region) -> float:
    """Return the seconds that restoring a region may take: an image larger than the board's RAM is fetched twice."""
    write = region.length / (_FLASH_WRITE if region.flash else _WRITE)
    return _NETWORK_S + _START_S + 2 * region.length / _FETCH + 2 * write


def seconds(regions: Sequence[Region]) -> int:
    """Return the seconds that `proved` may take."""
    whole = sum(hash_s(one) + (restore_s(one) + hash_s(one) if one.image else 0) for one in regions)
    return round(whole) + (60 if regions else 0)


@dataclass(frozen=True, slots=True)
class Hashed:
    """What was read: the hash of a region, its length, and of its device the size in bytes and the model."""

    sha256: str
    length: int
    size: int
    model: str


class _NotDoneError(Exception):
    """The board says why it could not; `written` bytes of the medium have changed."""

    def __init__(self, why: str, written: int) -> None:
        super().__init__(why)
        self.written = written


@dataclass(slots=True)
class Media:
    """The boot media behind a plain shell that was found.

    Attributes:
        directory: of the board, in RAM; everything lies there.
        told: gets a line of progress now and then.
    """

    shell: Shell
    directory: str
    told: Tell
    _turn: int = field(default=0, init=False)

    def hashed(self, region: Region) -> Hashed:
        """Hash a region on the board. Raises _NotDoneError and as `Shell.sure`."""
        said = self._ended(region, "hash", hash_s(region))
        found = re.fullmatch(r"hashed ([0-9a-f]{64}) ([0-9]+) ([0-9]+) ?(.*)", said)
        if found is None:
            raise _NotDoneError(f"the board says {phrase(said)!r}", 0)
        return Hashed(found[1], int(found[2]), int(found[3]), phrase(found[4]))

    def restored(self, region: Region) -> int:
        """Write a region's image to it, and return how many bytes had to be written. Raises as `hashed`."""
        said = self._ended(region, "restore", restore_s(region), region.sha256, region.image)
        found = re.fullmatch(r"restored ([0-9]+)", said)
        if found is None:
            raise _NotDoneError(f"the board says {phrase(said)!r}", 0)
        return int(found[1])

    def _ended(self, region: Region, action: str, allowed_s: float, *more: str) -> str:
        """Have something done to a region, and return the last state."""
        self._turn += 1
        work = f"{self.directory}/{self._turn}"
        facts = (region.device, region.offset, region.length, region.size, region.model)
        argv = shlex.join(["sh", f"{self.directory}/media.sh", work, action, *map(str, facts), *more])
        # The directory is made once, however often the line has this repeated. Without job control what runs in the
        # background is out of reach of Ctrl-C.
        begin = f"mkdir {work} 2>/dev/null && {{ {argv} >{work}/said 2>&1 & }}; [ -d {work} ]"
        # Where nothing came back it may have begun all the same.
        if self.shell.sure(begin, Deadline.after(_COMMAND_S))[0] not in {0, UNKNOWN}:
            raise _NotDoneError(f"the board cannot make {work}", 0)
        state = self._watched(region, work, Deadline.after(allowed_s))
        if state.startswith("failed"):
            _, _, rest = state.partition(" ")
            written, _, why = rest.partition(" ")
            raise _NotDoneError(phrase(why), int(written) if written.isdecimal() else 0)
        self.shell.sure(f"rm -rf {work}", Deadline.after(_COMMAND_S))
        return state

    def _watched(self, region: Region, work: str, deadline: Deadline) -> str:
        """Look until the state is a last one. Raises InfrastructureError, and as `Shell.sure`."""
        last, moved, told = "", time.monotonic(), time.monotonic()
        while not (state := self._state(work)).startswith(_ENDS):
            now = time.monotonic()
            if state != last:
                last, moved = state, now
            if now - told >= _TELL_S:
                told = now
                self.told(f"media.{region.name}: {_progress(state, region)}")
            if deadline.expired or now - moved > _STALL_S:
                self._stop(region, work, last)
            wait = Deadline.after(_LOOK_S)
            while not wait.expired:
                self.shell.read()
        return state

    def _stop(self, region: Region, work: str, last: str) -> None:
        """End what takes too long, between two steps of it. Raises InfrastructureError."""
        end = f": >{work}/stop; kill $(cat {work}/fetching) 2>/dev/null; true"
        self.shell.sure(end, Deadline.after(_COMMAND_S))
        if last.startswith("writing"):
            raise InfrastructureError(f"writing to {region.device} does not end ({last}): it may be half-written")
        raise InfrastructureError(f"the board does not get on with {region.device} ({phrase(last) or 'no word'})")

    def _state(self, work: str) -> str:
        """Return the state, asked for until it arrives undamaged; empty before there is one."""
        deadline = Deadline.after(_ANSWER_S)
        while True:
            # Little work for the board, which is busy: the answer is there already.
            code, said = self.shell.sure(f"cat {work}/shown 2>/dev/null", deadline)
            for state, total, size in reversed(_ANSWER.findall(said)):
                if (int(total), int(size)) == (cksum(state), len(state)):
                    return bytes(state).decode("utf-8", errors="replace")
            if code == 1:
                return ""
            if deadline.expired:
                raise InfrastructureError(f"for {_ANSWER_S:.0f} s the board has not told undamaged how far it is")


def _progress(state: str, region: Region) -> str:
    doing, _, at = state.partition(" ")
    at = at.partition(" ")[0]
    if not at.isdecimal():
        return "starting"
    of = f" of {region.length / 1e6:.1f}" if region.length else ""
    return f"{doing}, {int(at) / 1e6:.1f}{of} MB"


@contextmanager
def media(shell: Shell, directory: str, told: Tell) -> Iterator[Media]:
    """Put the script into a directory of its own below `directory` of the board, and remove it at the end.

    Raises:
        InfrastructureError, HangError, KernelFaultError, Interrupted: as `Shell.upload`.
    """
    own = f"{directory}/media-{secrets.token_hex(4)}"
    if shell.sure(f"mkdir -p {own}", Deadline.after(_COMMAND_S))[0] != 0:
        raise InfrastructureError(f"the board cannot make the directory {own}")
    shell.upload(_SCRIPT.read_text(encoding="utf-8"), f"{own}/media.sh", Deadline.after(120))
    yield Media(shell, own, told)
    shell.sure(f"rm -rf {own}", Deadline.after(_COMMAND_S))


def hashed(media: Media, regions: Sequence[Region]) -> tuple[Region, ...]:
    """Return regions as they are on the board now, with hashes, lengths, and their devices' sizes and models.

    Raises:
        InfrastructureError: one cannot be read; and as `media`.
    """
    found = []
    for region in regions:
        try:
            now = media.hashed(replace(region, size=0, model=""))
        except _NotDoneError as error:
            raise InfrastructureError(f"{region.name} cannot be hashed: {error}") from error
        found.append(replace(region, sha256=now.sha256, length=now.length, size=now.size, model=now.model))
    return tuple(found)


def proved(media: Media, regions: Sequence[Region]) -> Iterator[HealthResult]:
    """Compare regions with what must be there, and restore those that have an image and differ.

    One after the other, and none after one that could not be restored: of two copies of a boot loader one stays.

    Raises:
        InfrastructureError: the board died, or writing does not end: the medium may be half-written.
        HangError, KernelFaultError, InfrastructureError, Interrupted: as `media`, while nothing is written.
    """
    broken = ""
    for region in regions:
        found = _proved(media, region, broken)
        if not found.good and region.image:
            broken = broken or region.name
        yield found


def _proved(media: Media, region: Region, broken: str) -> HealthResult:
    try:
        before = media.hashed(region).sha256
    except _NotDoneError as error:
        return _result(region, f"{region.device} cannot be hashed: {error}", good=False)
    text = f"{region.device} has {before[:_SHOWN]}, must have {region.sha256[:_SHOWN]}"
    if before == region.sha256:
        return _result(region, text, good=True)
    if not region.image:
        return _result(region, f"{text}: changed, and nobody said where its image is", good=False)
    if broken:
        return _result(region, f"{text}: not restored, because {broken} could not be", good=False)
    media.told(f"media.{region.name}: {text}: restoring it")
    return _restored(media, region, text)


def _restored(media: Media, region: Region, text: str) -> HealthResult:
    try:
        written = media.restored(region)
    except _NotDoneError as error:
        state = f"{error.written} bytes of it were written" if error.written else "nothing was written"
        return _result(region, f"{text}: not restored, {state}: {error}", good=False)
    except (TargetError, InfrastructureError) as error:
        raise InfrastructureError(f"{text}: while it was restored: {error}") from error
    try:
        after = media.hashed(region).sha256
    except _NotDoneError as error:
        return _result(region, f"{text}: {written} bytes written, and it cannot be hashed: {error}", good=False)
    if after != region.sha256:
        return _result(region, f"{text}: {written} bytes written, and now it has {after[:_SHOWN]}", good=False)
    return _result(region, f"{text}: restored, {written} bytes written", good=True)


def _result(region: Region, sentence: str, *, good: bool) -> HealthResult:
    return HealthResult(f"media.{region.name}", good, float(region.length), "bytes", sentence)


def on_board(regions: Sequence[Region]) -> tuple[str, ...]:
    """Return lines of LAVA's test shell that hash regions on the board itself, and restore nothing.

    LAVA runs them with `sh -e`.
    """
    lines: list[str] = []
    for one in regions:
        counted = f"skip={one.offset // one.block} count={one.length // one.block}"
        lines += (
            f"sum=$(dd if={one.device} bs={one.block} {counted} 2>/dev/null | sha256sum)",
            f'if [ "${{sum%% *}}" = {one.sha256} ]; then result=pass; else result=fail; bad=1; fi',
            f'lava-test-case board.media.{one.name} --result "$result" --measurement {one.length} --units bytes',
        )
    return tuple(lines)
