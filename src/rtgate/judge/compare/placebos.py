# SPDX-License-Identifier: MIT
"""`placebos.yaml`, read strictly: how much harmless kernels moved what is compared on virtual-time boards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rtgate.board.boards import FLAVOURS
from rtgate.judge.compare.phases import Placebo
from rtgate.judge.judging import Subject
from rtgate.records.environment import Environment
from rtgate.records.record import Record
from rtgate.strict_yaml import Value, load


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceboModel:
    """What was learnt of one case.

    Attributes:
        command: the tool's command line in those boots; another one measures something else.
        source: who measured what, in words.
        qemu: version that the boots ran on, such as `7.2`; empty if nobody said.
        linux: series of the kernels, such as `6.12`; empty if nobody said.
        compiler: that built the kernels, such as `aarch64-linux-gnu-gcc-12`; empty if nobody said. A gate tells it
            beforehand, and no verdict depends on it.
        figures: by name, as `boot_figures` names them.
    """

    command: str
    source: str
    figures: Mapping[str, Placebo]
    qemu: str = ""
    linux: str = ""
    compiler: str = ""

    def mismatch(self, environment: Environment) -> str:
        """Return what these boots were measured with that harmless changes were not, in words; empty if nothing."""
        return self.differs(environment.emulator, environment.kernel_release)

    def differs(self, emulator: str, release: str) -> str:
        """Return in what a version of QEMU and a kernel's release differ from the placebos', as `mismatch`."""
        pairs = (("QEMU", self.qemu, version(emulator)), ("Linux", self.linux, version(release)))
        return " and ".join(
            f"{name} {there or 'of an unknown version'}, harmless changes were measured on {here}"
            for name, here, there in pairs
            if here and here != there
        )


def version(text: str) -> str:
    """Return the first two numbers of a version: `7.2` of `QEMU emulator version 7.2.22`; empty for none."""
    match = re.search(r"\b(\d+\.\d+)", text)
    return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class Placebos:
    """What was learnt, by board, flavour and case: once for each kernel line and QEMU, the first that fits wins."""

    cases: Mapping[tuple[str, str, str], tuple[PlaceboModel, ...]] = field(default_factory=dict)

    def of(self, board: str, flavour: str, case: str, command: str, emulator: str, release: str) -> PlaceboModel:
        """Return what was learnt of a case, with this QEMU and this kernel line if that was tried.

        Nothing if the tool was told something else then. What was learnt with others says so (`PlaceboModel.differs`).
        """
        models = [model for model in self.cases.get((board, flavour, case), ()) if model.command == command]
        matches = [model for model in models if not model.differs(emulator, release)]
        return next(iter((*matches, *models)), PlaceboModel(command=command, source="", figures={}))

    def model_for(self, record: Record) -> PlaceboModel:
        """Return what was learnt of a record's case, with its QEMU and its kernel line if that was tried."""
        environment = record.environment
        return self.of(
            record.board,
            record.kernel.flavour,
            record.case,
            " ".join(record.argv),
            environment.emulator,
            environment.kernel_release,
        )


def model_of(subject: Subject, placebos: Placebos) -> tuple[PlaceboModel, str]:
    """Return what harmless changes of a case's baseline do, and what sets these boots apart from theirs.

    Of another flavour the candidate is a change of the baseline, too, and none that was tried.
    """
    example = next(record for record in (*subject.records, *subject.baseline) if record.has_results)
    flavour = next((record.kernel.flavour for record in subject.baseline), example.kernel.flavour)
    model = placebos.model_for(replace(example, kernel=replace(example.kernel, flavour=flavour)))
    difference = f"a candidate of another flavour ({example.kernel.flavour}, not {flavour})"
    mismatch = (model.mismatch(example.environment), difference if example.kernel.flavour != flavour else "")
    return model, " and ".join(filter(None, mismatch))


def load_placebos(paths: Iterable[Path], boards: Iterable[str]) -> Placebos:
    """Read files, the winner first: of two entries that fit, that of the first file is taken.

    Raises:
        ConfigError: a file is wrong: unknown boards, flavours or keys, numbers out of range.
    """
    board_names = frozenset(boards)
    cases: dict[tuple[str, str, str], tuple[PlaceboModel, ...]] = {}
    for path in paths:
        for board, entry in load(path).entries().items():
            if board not in board_names:
                entry.key.fail(f"unknown board {board!r} (allowed: {', '.join(sorted(board_names))})")
            for key, models in _board(board, entry.value).items():
                cases[key] = (*cases.get(key, ()), *models)
    return Placebos(cases)


def _board(board: str, value: Value) -> dict[tuple[str, str, str], tuple[PlaceboModel, ...]]:
    cases = {}
    for flavour, by_case in value.entries().items():
        if flavour not in FLAVOURS:
            by_case.key.fail(f"unknown flavour {flavour!r} (allowed: {', '.join(FLAVOURS)})")
        for case, entry in by_case.value.entries().items():
            cases[board, flavour, case] = tuple(_read_model(item) for item in entry.value.items())
    return cases


def _read_model(value: Value) -> PlaceboModel:
    data = value.mapping(("command", "source", "qemu", "linux", "kernels", "boots", "figures"), ("compiler",))
    # None, where no placebo has data of its own: then nothing can be told of rare spikes.
    kernels, boots = data["kernels"].integer(minimum=0), data["boots"].integer(minimum=1)
    figures = {name: _placebo(entry.value, kernels, boots) for name, entry in data["figures"].entries().items()}
    return PlaceboModel(
        command=data["command"].text(),
        source=data["source"].text(),
        figures=figures,
        qemu=_read_version(data["qemu"]),
        linux=_read_version(data["linux"]),
        compiler=data.text("compiler", ""),
    )


def _read_version(value: Value) -> str:
    """Return a version of two numbers, written as text: a number would lose the zero of `6.10`."""
    text = value.text()
    if not re.fullmatch(r"\d+\.\d+", text):
        value.fail(f'{text!r} is not a version (example: "6.12")')
    return text


def _placebo(value: Value, kernels: int, boots: int) -> Placebo:
    data = value.mapping(("move", "spike"), ("move_by", "spike_at"))
    move, spike = data["move"].number(), data["spike"].number()
    if move < 0:
        data["move"].fail(f"{move:g} is out of range (allowed: 0 and more)")
    if spike < 1:
        data["spike"].fail(f"{spike:g} is out of range (allowed: 1 and more: the largest of all over the median)")
    beside = {name: data[name].number() for name in ("move_by", "spike_at") if name in data}
    for name, number in beside.items():
        if number < 0:
            data[name].fail(f"{number:g} is out of range (allowed: 0 and more)")
    return Placebo(move=move, spike=spike, kernels=kernels, boots=boots, **beside)
