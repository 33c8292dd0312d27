# SPDX-License-Identifier: MIT
"""Records: one case on one arm in one boot, as a directory that measuring writes and judging reads.

`RECORDS/board/arm/case/NNN/record.json` beside `console.log` and `raw/`. The JSON holds everything that judging
needs; `planned.json` beside the boots says which were planned; the raw output is kept so that a person can look, and
so that a better parser can read it again.

Format history: 1, the first; 2, evidence holds every setting as it was before and after, and what a tool had to do may
name several groups of threads. If any, `chunk` of a soak, and `evidence.pcie`, `readings`, `suspends`, `rcu_nocbs`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtgate.environment import Environment
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel_identity import KernelIdentity as KernelIdentity  # noqa: PLC0414 - a part of a record
from rtgate.measurement import Measurement
from rtgate.tools import Bound

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One thread as `/proc/PID/task/TID/stat` showed it: CPU (field 39), real-time priority (40), policy (41)."""

    moment: str
    name: str
    policy: int
    priority: int
    processor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSeen:
    """The load's processes at one moment: how many there were, and their CPU time in clock ticks."""

    moment: str
    processes: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen of the measurement itself, for its validity.

    Attributes:
        asked: what the tool had to do (see `tools.Expected`), as a mapping.
        load_processes: how many processes the load has at least.
        settings: settings of the target by path, as read before and after the measurement; empty if they were not.
        kernel_threads: those whose priority the tuning sets.
        processes: names of all processes, as read after the measurement.
        log: what was read of the kernel's log: `whole`; `late`, if a boot of ours lacks its first lines, or any some
            of the measurement; `some`, of a board that ran before; `new`, since the chunk before; empty for nothing.
        pcie: what files of PCI functions held, by path, before and after the measurement (see `links`).
        readings: what the board told of itself by path, before and after the measurement (see `rtgate.readings`).
        suspends: lines of the kernel's log that tell of a suspend; None where nobody looked for them.
        rcu_nocbs: the CPUs whose RCU callbacks the kernel offloads, as its log tells; None where it does not.
        writes: what settings that were written had to read back as, by path, as regular expressions.
        load_output: the end of what the load printed; `load_ended` its exit code, if it was seen to end by itself.
    """

    asked: Mapping[str, Any] = field(default_factory=dict)
    load: str = "idle"
    load_processes: int = 1
    threads: tuple[Thread, ...] = ()
    load_seen: tuple[LoadSeen, ...] = ()
    elapsed_s: float | None = None
    settings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[str, ...] = ()
    kernel_threads: tuple[Thread, ...] = ()
    log: str = ""
    pcie: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    readings: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    suspends: tuple[str, ...] | None = None
    rcu_nocbs: str | None = None
    load_output: str = ""
    load_ended: int | None = None

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """What the board's file demanded of the measurements. Raises TypeError or KeyError if it is damaged."""
        return tuple(_bound(entry) for entry in self.asked.get("bounds", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A kernel fault: its kind as in `thresholds.yaml`, its first line, its text."""

    kind: str
    line: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Which part of a soak a record is.

    Attributes:
        soak: names the soak.
        number: counts all chunks of a case in one directory of records, from 1.
    """

    soak: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record.

    Attributes:
        case: `suite/tool:load`.
        state: how far the boot came, in the words of `target.outcome.State`.
        message: one sentence, empty when it measured.
        seed: the seed of a virtual-time boot; None elsewhere.
        seconds: host seconds by step.
        line: bytes received, frames damaged, frames repeated.
        machine: what ran the board.
        chunk: which part of a soak it is; None for a measurement of its own.
    """

    case: str
    board: str
    arm: str
    profile: str
    seed: int | None
    boot_id: str
    state: str
    message: str
    argv: tuple[str, ...]
    kernel: KernelIdentity
    environment: Environment
    evidence: Evidence
    measurements: tuple[Measurement, ...]
    faults: tuple[FaultSeen, ...]
    line: Mapping[str, int]
    seconds: Mapping[str, float]
    machine: Mapping[str, str]
    chunk: Chunk | None = None
    directory: Path | None = None

    @property
    def boot(self) -> str:
        """How people name the boot: `seed 3`, `chunk 7`, the boot's id, or its number in a job."""
        if self.chunk is not None:
            return f"chunk {self.chunk.number}"
        known = self.boot_id[:8] or self.machine.get("boot", "unknown")
        return f"seed {self.seed}" if self.seed is not None else f"boot {known}"

    @property
    def virtual_time(self) -> bool:
        """Whether the figures are virtual time."""
        return self.environment.time == "virtual"

    @property
    def pair(self) -> int | None:
        """Which pair of a comparison on a board the boot is of, counted from 1; None if nobody said."""
        named = self.machine.get("pair", "")
        return int(named) if named.isdecimal() else None

    @property
    def screening(self) -> bool:
        """Whether the boot is compared with the history only, and is of no pair."""
        return self.machine.get("stage", "") == "screen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the records of one case on one arm of a board are."""

    records: Path
    board: str
    arm: str
    case: str

    @property
    def directory(self) -> Path:
        """The directory that holds a directory for each boot."""
        return self.records / self.board / self.arm / self.case.replace("/", ".")


def write(record: Record, files: Mapping[str, bytes], console: bytes, records: Path) -> Path:
    """Write a record with its raw output, whole or not at all, and return its directory. Raises InfrastructureError."""
    case = Place(records=records, board=record.board, arm=record.arm, case=record.case).directory
    try:
        case.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=".writing-", dir=case))
        try:
            (staged / "raw").mkdir()
            for name, data in files.items():
                (staged / "raw" / Path(name).name).write_bytes(data)
            (staged / "console.log").write_bytes(console)
            (staged / "record.json").write_text(json.dumps(as_json(record), indent=1) + "\n", encoding="utf-8")
            staged.chmod(0o755)
            return _placed(staged, case, record)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    except OSError as error:
        raise InfrastructureError(f"the record could not be written to {case}: {error}") from error


def rewrite(record: Record, files: Mapping[str, bytes]) -> None:
    """Write a record anew in its directory, with further files beside it. Raises InfrastructureError."""
    assert record.directory is not None
    try:
        for name, data in files.items():
            (record.directory / Path(name).name).write_bytes(data)
        staged = record.directory / ".record.json.writing"
        staged.write_text(json.dumps(as_json(record), indent=1) + "\n", encoding="utf-8")
        staged.replace(record.directory / "record.json")
    except OSError as error:
        raise InfrastructureError(f"the record in {record.directory} could not be written: {error}") from error


def _placed(staged: Path, case: Path, record: Record) -> Path:
    """Rename to the number of the seed or chunk, in place of an older record of it, or to the next free number."""
    named = record.seed if record.chunk is None else record.chunk.number
    if named is not None:
        target = case / f"{named:03d}"
        if target.exists():
            shutil.rmtree(target)
        return staged.rename(target)
    number = 1
    while True:
        try:
            return staged.rename(case / f"{number:03d}")
        except OSError:
            if not (case / f"{number:03d}").exists():
                raise
            number += 1


def read(directory: Path) -> Record:
    """Read the record in a directory.

    Raises:
        ConfigError: it is missing, damaged, or of a newer format.
    """
    path = directory / "record.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=int)  # no NaN
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{path}: damaged record: {type(error).__name__} {error}") from error
    return from_json(data, str(path), directory)


def from_json(data: dict[str, Any], origin: str, directory: Path | None = None) -> Record:
    """Return the record of `as_json`. Raises ConfigError, naming `origin`: it is damaged or of another format."""
    try:
        if data["format"] != FORMAT:
            raise ConfigError(f"{origin}: record format {data['format']}, this rtgate reads {FORMAT}")
        return _decoded(data, directory)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{origin}: damaged record: {type(error).__name__} {error}") from error


def read_all(records: Path) -> Iterator[Record]:
    """Read every record below a directory, in order of their paths. Raises ConfigError as `read`."""
    for path in sorted(records.glob("*/*/*/*/record.json")):
        if not path.parent.name.startswith("."):
            yield read(path.parent)


def digest_source(record: Record) -> str:
    """Return what two runs of one seed must have in common, as text: every measurement with all its samples."""
    return json.dumps([measurement.as_json() for measurement in record.measurements], sort_keys=True)


def as_json(record: Record) -> dict[str, Any]:
    """Return the record as it stands in `record.json`."""
    evidence = record.evidence
    return {
        "format": FORMAT,
        **{name: getattr(record, name) for name in _PLAIN},
        **({"chunk": _slots(record.chunk)} if record.chunk is not None else {}),
        "argv": list(record.argv),
        "kernel": _slots(record.kernel),
        "environment": record.environment.as_mapping(),
        "evidence": {
            "asked": dict(evidence.asked),
            "load": evidence.load,
            "load_processes": evidence.load_processes,
            "threads": [_slots(thread) for thread in evidence.threads],
            "load_seen": [_slots(seen) for seen in evidence.load_seen],
            **({"load_output": evidence.load_output} if evidence.load_output else {}),
            **({"load_ended": evidence.load_ended} if evidence.load_ended is not None else {}),
            "elapsed_s": evidence.elapsed_s,
            "settings": {path: list(values) for path, values in evidence.settings.items()},
            **_states("pcie", evidence.pcie),
            **_states("readings", evidence.readings),
            "writes": dict(evidence.writes),
            "processes": list(evidence.processes),
            "log": evidence.log,
            "kernel_threads": [_slots(thread) for thread in evidence.kernel_threads],
            **({} if evidence.suspends is None else {"suspends": list(evidence.suspends)}),
            **({} if evidence.rcu_nocbs is None else {"rcu_nocbs": evidence.rcu_nocbs}),
        },
        "measurements": [measurement.as_json() for measurement in record.measurements],
        "faults": [_slots(fault) for fault in record.faults],
        "line": dict(record.line),
        "seconds": dict(record.seconds),
        "machine": dict(record.machine),
    }


_PLAIN = {
    **dict.fromkeys(("case", "board", "arm", "profile", "boot_id", "state", "message"), (str,)),
    "seed": (int, type(None)),
}


def _states(name: str, states: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    return {name: {path: list(values) for path, values in states.items()}} if states else {}


def _slots(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def _bound(entry: Mapping[str, Any]) -> Bound:
    labels = _is((dict,), entry["labels"])
    return Bound(
        measurement=_is((str,), entry["measurement"]),
        labels={name: _is((str,), label) for name, label in labels.items()},
        value=float(_is((int, float), entry["value"])),
        source=_is((str,), entry["source"]),
        exact=_is((bool,), entry.get("exact", False)),
    )


def _decoded(data: dict[str, Any], directory: Path | None) -> Record:
    record = _record(data, directory)
    _ = record.evidence.bounds  # damaged ones are no use to anybody
    return record


def _record(data: dict[str, Any], directory: Path | None) -> Record:
    evidence = data["evidence"]
    return Record(
        **{name: _is(kind, data[name]) for name, kind in _PLAIN.items()},
        chunk=Chunk(**data["chunk"]) if "chunk" in data else None,
        argv=tuple(data["argv"]),
        kernel=KernelIdentity(**data["kernel"]),
        environment=Environment.from_mapping({name: _is((str,), text) for name, text in data["environment"].items()}),
        evidence=Evidence(
            asked=_is((dict,), evidence["asked"]),
            load=evidence["load"],
            load_processes=evidence["load_processes"],
            threads=tuple(Thread(**thread) for thread in evidence["threads"]),
            load_seen=tuple(LoadSeen(**seen) for seen in evidence["load_seen"]),
            load_output=_is((str,), evidence.get("load_output", "")),
            load_ended=_is((int, type(None)), evidence.get("load_ended")),
            elapsed_s=evidence["elapsed_s"],
            settings={path: (before, after) for path, (before, after) in evidence["settings"].items()},
            pcie={path: (before, after) for path, (before, after) in evidence.get("pcie", {}).items()},
            readings={path: (before, after) for path, (before, after) in evidence.get("readings", {}).items()},
            writes=_is((dict,), evidence["writes"]),
            processes=tuple(evidence["processes"]),
            log=_is((str,), evidence["log"]),
            kernel_threads=tuple(Thread(**thread) for thread in evidence["kernel_threads"]),
            suspends=tuple(_is((list,), evidence["suspends"])) if "suspends" in evidence else None,
            rcu_nocbs=_is((str, type(None)), evidence.get("rcu_nocbs")),
        ),
        measurements=tuple(Measurement.from_json(entry) for entry in data["measurements"]),
        faults=tuple(FaultSeen(**fault) for fault in data["faults"]),
        line=_is((dict,), data["line"]),
        seconds=_is((dict,), data["seconds"]),
        machine=_is((dict,), data["machine"]),
        directory=directory,
    )


def _is(kinds: tuple[type, ...], value: Any) -> Any:
    if isinstance(value, kinds):
        return value
    raise TypeError(f"{value!r:.40} is not {kinds[0].__name__}")
