# SPDX-License-Identifier: MIT
"""From a tool's raw output to measurements: when it is measured, and again when the record is judged.

How the output was read (the tool's options, the setting) stands in the record, so that the same code reads the same
files again. A figure that was changed since differs from what they say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rtgate import files as regular_file
from rtgate.errors import ChangedError, ConfigError, ParseError
from rtgate.records.codec import decode, encode, reject_unknown_fields
from rtgate.records.record import Record, read_all
from rtgate.tools import Output, Setting, Tool, companions, registry
from rtgate.tools.measurement import Measurement
from rtgate.validity.registry import failed_edit_checks

_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
_PARTS = {"histogram": "samples", "better": "direction"}
_MOST = 3  # differences that are told; one changed histogram has many


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How raw output becomes measurements.

    Attributes:
        tool: with its options.
        load: its name.
        companion: the load as a tool with its options, if it is one that measures.
        setting: what the tool was run with.
        cpu_classes: CPUs by the name of their kind, on a board that has several.
    """

    tool: Tool
    load: str
    setting: Setting
    cpu_classes: Mapping[str, tuple[int, ...]]
    companion: Tool | None = None

    def measurements(self, files: Mapping[str, bytes]) -> tuple[Measurement, ...]:
        """Return what the files say. Raises ParseError."""
        measurements = self.tool.parse(_output(files, self.setting))
        if self.companion is not None:
            output = _output(files, companions.companion_setting(self.setting))
            measurements = (*measurements, *companions.read_measurements(self.companion, output))
        return tuple(self._label_cpu_kind(measurement) for measurement in measurements)

    def _label_cpu_kind(self, measurement: Measurement) -> Measurement:
        """Return the measurement labelled with the kind of its CPU, on a board that has several kinds."""
        cpu = measurement.labels.get("cpu", "")
        kinds = [kind for kind, members in self.cpu_classes.items() if cpu.isdigit() and int(cpu) in members]
        return replace(measurement, labels={**measurement.labels, "class": kinds[0]}) if kinds else measurement

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in a record: of a load that measures, the options that are not its own ones."""
        beside = registry.changed_options(self.companion) if self.companion else {}
        return {
            "tool": self.tool.name,
            "options": registry.options(self.tool),
            "load": self.load,
            "setting": encode(self.setting),
            "cpu_classes": encode(self.cpu_classes),
            **({"load_options": beside} if beside else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """Return what `as_json` made. Raises ConfigError, KeyError, TypeError, ValueError or AttributeError."""
        reject_unknown_fields(data, ("tool", "options", "load", "load_options", "setting", "cpu_classes"))
        load, load_options = data["load"], data.get("load_options", {})
        measures = load in registry.COMPANIONS
        return cls(
            tool=registry.with_options(data["tool"], data["options"]),
            companion=registry.with_options(load, load_options) if measures else None,
            load=load,
            setting=decode(data["setting"], Setting),
            cpu_classes=decode(data["cpu_classes"], dict[str, tuple[int, ...]]),
        )


def verify(record: Record) -> Record:
    """Return the record with what its files contradict as `discrepancies`."""
    return replace(record, discrepancies=discrepancies(record)) if record.directory is not None else record


def read_verified(records: Path) -> list[Record]:
    """Return the records below a directory, in order of their paths, none of which was changed since it was written.

    Raises:
        ConfigError: as `records.record.read`.
        ChangedError: the files of one say something else than its record.json, as judging it would find.
    """
    all_records = [verify(record) for record in read_all(records)]
    for record in all_records:
        failures = [check.failure_in(record.boot) for check in failed_edit_checks(record)] if record.has_results else []
        if failures:
            raise ChangedError(f"{record.directory}: {'; '.join(failures)}: measure again, or remove its directory")
    return all_records


def discrepancies(record: Record) -> tuple[str, ...]:
    """Return where a record and the files beside it say different things, one sentence each."""
    assert record.directory is not None
    files, problems = _sources(record, record.directory)
    if not record.has_results or problems:
        return tuple(problems[:_MOST])
    raw = {name.removeprefix("raw/"): data for name, data in files.items() if name.startswith("raw/")}
    if not raw:
        # A record without raw output: its own figures are held against its histogram.
        unlisted = any((record.directory / "raw").glob("*"))
        return ("record.json does not list the raw output that lies beside it",) if unlisted else ()
    try:
        measurements = Reading.from_json(record.reading).measurements(raw)
    except ConfigError as error:
        return (f"the raw output cannot be read again: {error}",)
    except _DAMAGE as error:
        return (f"record.json does not say how its raw output was read: {regular_file.damage(error)}",)
    except ParseError as error:
        return (f"record.json has measurements, and the raw output cannot be read: {error}",)
    return _differences(record.measurements, measurements)


def _sources(record: Record, directory: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that a record was made from, and what is wrong with them."""
    files: dict[str, bytes] = {}
    problems: list[str] = []
    for name, digest in sorted(record.sources.items()):
        if name != "console.log" and Path(name).parts != ("raw", Path(name).name):
            problems.append(f"record.json names a file outside its directory: {name!r}")
            continue
        try:
            files[name] = regular_file.read_bytes(directory / name, regular_file.RAW_LIMIT)
        except FileNotFoundError:
            problems.append(f"{name} is missing, and record.json was made from it")
        except (OSError, ValueError, ConfigError) as error:
            problems.append(f"{name}, which record.json was made from, cannot be read: {error}")
        else:
            if hashlib.sha256(files[name]).hexdigest() != digest:
                problems.append(f"{name} was changed after record.json was made from it")
    if record.has_results and "raw/tool.rc" not in record.sources and files.keys() - {"console.log"}:
        problems.append("record.json does not list raw/tool.rc, the exit code of its tool")
    return files, problems


def _differences(
    record_measurements: tuple[Measurement, ...], raw_measurements: tuple[Measurement, ...]
) -> tuple[str, ...]:
    mine, theirs = _by_name(record_measurements), _by_name(raw_measurements)
    return tuple(
        _difference(name, mine.get(name), theirs.get(name))
        for name in dict.fromkeys((*theirs, *mine))
        if name not in mine or name not in theirs or not _same_measurement(mine[name], theirs[name])
    )[:_MOST] or (("record.json has a measurement twice",) if len(record_measurements) != len(raw_measurements) else ())


def _difference(name: str, mine: Measurement | None, theirs: Measurement | None) -> str:
    """Return in what a measurement differs from the raw output's, as a sentence."""
    texts = _figure(mine), _figure(theirs)
    if mine is None or theirs is None or texts[0] != texts[1]:
        return f"record.json says {name} {texts[0]}, its raw output {texts[1]}"
    before, after = mine.as_json(), theirs.as_json()
    parts = [
        f"value ({before[part]!r} and {after[part]!r})" if part == "value" else _PARTS.get(part, part)
        for part in before
        if before[part] != after[part]
    ]
    return f"record.json says {name} {texts[0]}, which differs from its raw output in its {' and '.join(parts)}"


def _same_measurement(first: Measurement, second: Measurement) -> bool:
    """Return whether two measurements are one in a file; most are equal as they are, which is found out sooner."""
    return first == second or first.as_json() == second.as_json()


def _by_name(measurements: tuple[Measurement, ...]) -> dict[str, Measurement]:
    return {f"{measurement.name} {measurement.label}".strip(): measurement for measurement in measurements}


def _figure(measurement: Measurement | None) -> str:
    if measurement is None:
        return "nothing"
    if measurement.histogram is None:
        return str(measurement.quantity)
    return (
        f"a histogram of {measurement.histogram.total} samples up to "
        f"{max(measurement.histogram.counts, default=0)} {measurement.unit.value}"
    )


def _output(files: Mapping[str, bytes], setting: Setting) -> Output:
    who, name = ("load", "load.rc") if setting.beside else ("tool", "tool.rc")
    code = files.get(name, b"").decode("ascii", errors="replace").strip()
    if not re.fullmatch(r"[0-9]{1,3}", code):
        raise ParseError(f"the {who}'s exit code is {code!r}: the plan did not see it end")
    return Output(files=files, exit_code=int(code), setting=setting)
