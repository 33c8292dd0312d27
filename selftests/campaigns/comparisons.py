# SPDX-License-Identifier: MIT
"""Changes of a kernel whose worth is known, and what was measured of them (`selftests/data/comparisons`).

A comparison of two kernels is tested with changes that do nothing (placebos) and changes that do harm. `changes` lists
them; `records` returns the boots that were measured of one, without booting anything.
"""

from __future__ import annotations

import copy
import hashlib
import json
import lzma
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

from rtgate.kernel import harmless
from rtgate.kernel.harmless import KernelChange
from rtgate.kernel.patches import load_series
from rtgate.records import record as records_file
from rtgate.records.record import Record
from rtgate.strict_yaml import Entry, Value, load

DATA = Path(__file__).resolve().parents[1] / "data" / "comparisons"
MEASURED = DATA / "measured"
"""Has one directory for each campaign: kernels with one root file system, which gives all boots their phases.

Those of another build than `BUILD` are below a directory of its name, those with another QEMU below one of its version.
"""
UNPATCHED = harmless.UNPATCHED
FORMAT = 1
BUILD = "virt-arm64-preempt_rt"
"""The build of places that name none."""
EMULATORS = {"7.2": "Debian 12", "10.0": "Debian 13"}
"""Versions of QEMU with which there are campaigns, and whose they are."""
EMULATOR = "7.2"

Place = tuple[str, str]
"""A board and a case."""
IDLE = ("virt-arm64", "latency/cyclictest:idle")
"""The place in which every change is measured, but harm that must show in a place of another build."""

_GROUPS = ("placebos", "harmful")
_REQUIRED = ("kind", "does", "size")
_HOW = ("command_line", "elsewhere")
_HARM = ("board", "case", "shows")
SHOWS = ("body", "tail", "failure", "limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the pinned kernel.

    Attributes:
        group: `placebos` or `harmful`.
        kind: what sort of change, in a few words.
        does: what it does.
        size: how much, in instructions or virtual time.
        directory: has its patch series or its fragment, if it has either.
        command_line: words for the kernel's command line.
        elsewhere: the unpatched source, built in another directory.
        board: where it must show (harmful ones only), as `case`.
        also: where else.
        shows: `body`, `tail`, `failure` of a tool, or a broken `limit` where nothing is compared.
        function: the function that is to blame; empty where there is none.
    """

    name: str
    group: str
    kind: str
    does: str
    size: str
    directory: Path
    command_line: str = ""
    elsewhere: bool = False
    board: str = ""
    case: str = ""
    shows: str = ""
    also: tuple[Place, ...] = ()
    function: str = ""

    def must_show(self, place: Place) -> bool:
        """Return whether a comparison must find it there; where a limit breaks, nothing is compared."""
        return place in {(self.board, self.case), *self.also} and self.shows != "limit"

    @property
    def patches(self) -> tuple[Path, ...]:
        """The patches, in their order. Raises ConfigError for a series that names what is not there."""
        if not (self.directory / "series").exists():
            return ()
        return tuple(patch.path for patch in load_series(self.directory).patches)

    @property
    def kernel(self) -> KernelChange:
        """The change as rtgate builds and boots it. Raises ConfigError as `patches`."""
        return KernelChange(
            name=self.name,
            command_line=self.command_line,
            fragment=self.fragment,
            patches=self.patches,
            elsewhere=self.elsewhere,
        )

    @property
    def fragment(self) -> Path | None:
        """The options that are added to the build's, or None."""
        path = self.directory / "extra.config"
        return path if path.exists() else None


def changes(path: Path = DATA / "changes.yaml") -> dict[str, Change]:
    """Return all changes by name, placebos first. Raises ConfigError."""
    top = load(path).mapping(_GROUPS, ("places", "builds"))
    found: dict[str, Change] = {}
    for group in _GROUPS:
        for name, entry in top[group].entries().items():
            if name in found or name == UNPATCHED:
                entry.key.fail(f"{name!r} is taken")
            found[name] = _change(name, group, entry, path.parent / group / name)
    return found


def places(path: Path = DATA / "changes.yaml") -> dict[Place, tuple[str, ...]]:
    """Return where changes are measured, and which ones: `IDLE` comes first. Raises ConfigError."""
    return {place: one.changes for place, one in _measurings(path).items()}


def builds(path: Path = DATA / "changes.yaml") -> dict[Place, str]:
    """Return the build (an entry of kernel-configs/) with which each place is measured. Raises ConfigError."""
    return {place: one.build for place, one in _measurings(path).items()}


@dataclass(frozen=True, slots=True)
class _Measuring:
    """What is measured in one place: changes, built as one build."""

    build: str
    changes: tuple[str, ...]


def _measurings(path: Path) -> dict[Place, _Measuring]:
    known, top = changes(path), load(path).mapping((*_GROUPS, "places"), ("builds",))
    found: dict[Place, _Measuring] = {}
    for words, entry in top["places"].entries().items():
        found[_place(words, entry.key, found)] = _Measuring(BUILD, _read_names(entry.value, known))
    for build, entry in (top["builds"].entries() if "builds" in top else {}).items():
        for words, of_place in entry.value.entries().items():
            place = _place(words, of_place.key, found)
            harm = (name for name, one in known.items() if place in {(one.board, one.case), *one.also})
            found[place] = _Measuring(build, (*_read_names(of_place.value, known), *harm))
    elsewhere = {place for place, one in found.items() if one.build != BUILD}
    everywhere = tuple(name for name, one in known.items() if (one.board, one.case) not in elsewhere)
    return {IDLE: _Measuring(BUILD, everywhere), **found}


def _place(words: str, value: Value, taken: Collection[Place]) -> Place:
    board, _, case = words.partition(" ")
    if not case or (board, case) in {IDLE, *taken}:
        value.fail(f"{words!r}: expected another board and case than {' '.join(IDLE)}")
    return board, case


def _read_names(value: Value, known: Collection[str]) -> tuple[str, ...]:
    return tuple(name.text(known) for name in value.items())


def _change(name: str, group: str, entry: Entry, directory: Path) -> Change:
    harmful = group == "harmful"
    required, optional = (_HARM, ("function", "also")) if harmful else ((), ())
    fields = entry.value.mapping((*_REQUIRED, *required), (*_HOW, *optional))
    texts = {key: fields.text(key, "") for key in (*_REQUIRED, "command_line", "board", "case", "function")}
    elsewhere = fields.get("elsewhere")
    return Change(
        name=name,
        group=group,
        directory=directory,
        shows=fields.text("shows", "", SHOWS),
        elsewhere=elsewhere is not None and elsewhere.flag(),
        also=tuple(_place(item.text(), item, ()) for item in fields["also"].items()) if "also" in fields else (),
        **texts,
    )


def of_build(place: Path, build: str) -> Path:
    """Return where below a place what is of a build lies: `BUILD` has no directory of its own."""
    return place if build == BUILD else place / build


def campaign(rootfs: str, build: str = BUILD, emulator: str = EMULATOR) -> Path:
    """Return the directory of what a QEMU shows of a build's kernels with the root file system of this SHA-256."""
    return of_build(_of_emulator(emulator), build) / f"rootfs-{rootfs[:8]}"


def campaigns(emulator: str = EMULATOR) -> tuple[Path, ...]:
    """Return the directories of all campaigns with a QEMU; those of `BUILD` come first."""
    place = _of_emulator(emulator)
    others = (one for one in place.glob("*/rootfs-*") if not one.parent.name.startswith("qemu-"))
    return (*sorted(place.glob("rootfs-*")), *sorted(others))


def all_campaigns() -> tuple[Path, ...]:
    """Return the directories of all campaigns, those of Debian 12's QEMU first."""
    return tuple(chain.from_iterable(map(campaigns, EMULATORS)))


def campaign_name(directory: Path) -> str:
    """Return what tells a campaign from others: the same root file system may be booted by several QEMUs."""
    return "/".join((*(one.name for one in directory.parents if one.name.startswith("qemu-")), directory.name))


def _of_emulator(emulator: str) -> Path:
    return MEASURED if emulator == EMULATOR else MEASURED / f"qemu-{emulator}"


def records(kernel: str, directory: Path) -> tuple[Record, ...]:
    """Return what a campaign measured of a change, or of the `unpatched` kernel. Raises OSError if nothing was."""
    path = directory / f"{kernel}.json.xz"
    return _read(path, path.stat().st_mtime_ns)


@cache
def _read(path: Path, _written_ns: int) -> tuple[Record, ...]:
    """Read a file of records; several tests of a process want the same one."""
    found = (records_file.from_json(_unpack(data), path.name) for data in _document(path)["records"])
    return tuple(map(with_evidence, found))


def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    if document["format"] != FORMAT:
        raise ValueError(f"{path.name}: format {document['format']}, this module reads {FORMAT}")
    return document


def with_evidence(record: Record) -> Record:
    """Return a record with the evidence that nobody kept, as that of a good measurement: it is taken at its word.

    The raw output, digests, page faults and suspends of campaigns are not in the repository, or are newer than they.
    What guards them is that they lie here.
    """
    emulator = hashlib.sha256(record.environment.emulator.encode()).hexdigest()
    threads = tuple(
        replace(one, minor_faults=one.minor_faults or 0, major_faults=one.major_faults or 0)
        for one in record.evidence.threads
    )
    return replace(
        record,
        sources={"raw/tool.rc": "0" * 64, "console.log": "0" * 64, **record.sources},
        machine={"image_sha256": record.kernel.image_sha256, "qemu_sha256": emulator, **record.machine},
        evidence=replace(record.evidence, threads=threads, suspends=record.evidence.suspends or ()),
    )


def keep(kernel: str, found: Iterable[Mapping[str, Any]], directory: Path, only: Collection[Place] = ()) -> Path:
    """Write the records of a kernel (the contents of their `record.json`) into one file of a campaign.

    Args:
        only: only what was measured there is written anew, and what the file has of other places stays; none for all.
    """
    path = directory / f"{kernel}.json.xz"
    packed = [_pack(data) for data in found]
    if only and path.exists():
        packed += [data for data in _document(path)["records"] if (data["board"], data["case"]) not in only]
    document = {"format": FORMAT, "kernel": kernel, "records": packed}
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    directory.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".writing")
    staged.write_bytes(lzma.compress(text.encode(), preset=9))
    return staged.replace(path)


def _pack(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's data without what no judgement reads, its histograms as steps and counts."""
    made = copy.deepcopy(dict(data))
    made["seconds"], made["line"], made["sources"], made["reading"] = {}, {}, {}, {}
    for measurement in made["measurements"]:
        if "histogram" in measurement:
            counts = {int(value): count for value, count in measurement["histogram"]["counts"].items()}
            measurement["histogram"]["counts"] = {"steps": _steps(sorted(counts)), "counts": _in_order(counts)}
    return made


def _unpack(data: dict[str, Any]) -> dict[str, Any]:
    """Give a record's data its histograms back, in place: a copy of all would take most of the time of reading."""
    for measurement in data["measurements"]:
        if "histogram" in measurement:
            packed = measurement["histogram"]["counts"]
            values = accumulate(packed["steps"])
            measurement["histogram"]["counts"] = dict(zip(map(str, values), packed["counts"], strict=True))
    return data


def _steps(values: Sequence[int]) -> list[int]:
    """Return the first value, and how much each further one is more than the one before."""
    return [*values[:1], *(after - before for before, after in pairwise(values))]


def _in_order(counts: Mapping[int, int]) -> list[int]:
    return [counts[value] for value in sorted(counts)]
