# SPDX-License-Identifier: MIT
"""A new board's files, made from those of a board like it and from a few answers.

What nobody answered is taken from the other board, and the new file says so, with where to look: under `lava:
unconfirmed`, or as a comment where the board is in no lab. So its readers know what was seen on the hardware.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtgate import files, site, strict_yaml
from rtgate.board.boards import Board, Lava
from rtgate.errors import ConfigError, InfrastructureError
from rtgate.kernel.configuration import load_description
from rtgate.units import mib
from rtgate.workflow import references

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,59}")
_BUILDS = "kernel-configs"
# What is copied and not asked, as most boards have none of it.
_COPIED = (
    *("command_line", "firmware", "pcie", "nvme", "instrument", "work_directory", "scratch"),
    *("cool_to", "temperature_limit"),
)
_MAINLINE = "mainline"
_CPU_LISTS = ("cpus", "irq_affinity", "command_line")  # of a tuning; `isolcpus=3` is one, too
_DEVICE_TYPE = """\
{{# Like {like}; compare the load addresses with `printenv kernel_addr_r fdt_addr_r ramdisk_addr_r`. #}}
{{% extends '{like}.jinja2' %}}

{{% set console_device = console_device | default('{console}') %}}
{{% set baud_rate = baud_rate | default({baud}) %}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a new board.

    Attributes:
        key: its name in an answer.
        text: what is asked.
        default: of the board like it.
        where: where the answer is found; empty where nobody has to look.
        check: raises ValueError for what cannot be an answer.
    """

    key: str
    text: str
    default: str
    where: str
    check: Callable[[str], object] = str


def _from_to(least: int, most: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(r"[0-9]{1,8}", text) or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not a number from {least} to {most}")

    return check


def _matching(pattern: str, example: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} cannot be one (an example: {example})")

    return check


def questions(name: str, like: Board) -> tuple[Question, ...]:
    """Return what is asked of a board that is like another one."""
    on_board = not like.virtual  # of a virtual one the file itself decides
    board_questions = [
        Question(key="description", text="What is it?", default=f"{name}, like {like.name}", where=""),
        Question(
            key="cpus",
            text="How many CPUs?",
            default=str(like.cpus),
            where="nproc" if on_board else "",
            check=_from_to(1, 256),
        ),
        Question(
            key="memory",
            text="How much RAM is fitted, as 4 GiB?",
            default=_size(like),
            where="/proc/meminfo" if on_board else "",
            check=mib,
        ),
    ]
    if on_board:
        board_questions += [
            Question(key="soc", text="Which SoC?", default=like.soc, where="the board's manual"),
            *_console(like),
        ]
    if like.lava:
        board_questions += _lava(name, like.lava)
    return tuple(board_questions)


def _size(board: Board) -> str:
    return f"{board.memory_mib} MiB" if board.memory_mib % 1024 else f"{board.memory_mib // 1024} GiB"


def _console(like: Board) -> list[Question]:
    return [
        Question(
            key="console",
            text="Console device, without its baud rate?",
            default=like.console.device,
            where="console= in /proc/cmdline",
            check=_matching("[A-Za-z][A-Za-z0-9]*", "ttyS2"),
        ),
        Question(
            key="baud",
            text="Its baud rate?",
            default=str(like.console.baud),
            where="console= in /proc/cmdline and the boot loader's settings",
            check=_from_to(1200, 10_000_000),
        ),
    ]


def _family(lava: Lava) -> str:
    """Return the kernel family whose device tree is asked for, mainline's if the board has one; empty for none."""
    return _MAINLINE if _MAINLINE in lava.dtbs else next(iter(lava.dtbs), "")


def _lava(name: str, lava: Lava) -> list[Question]:
    lab_questions = []
    if family := _family(lava):
        whose = "kernel's" if family == _MAINLINE else "vendor kernel's"
        lab_questions.append(
            Question(
                key="device-tree",
                text=f"Device tree, below the {whose} dts directory?",
                default=lava.dtbs[family].removesuffix(".dtb"),
                where="/proc/device-tree/model, and the same text in the kernel's arch/*/boot/dts",
                check=_matching("[a-z0-9-]+/[A-Za-z0-9_-]+", "rockchip/rk3588-rock-5b"),
            )
        )

    def check_type(text: str) -> None:
        types = site.names(references.DEVICE_TYPES, ".jinja2")
        if text != name and text not in types:
            raise ValueError(f"{text!r} is not known here (allowed: {name}, {', '.join(types)})")

    text = "Device type in the lab's LAVA? For the name in brackets a file is written."
    return [*lab_questions, Question(key="device-type", text=text, default=name, where="", check=check_type)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBoard:
    """A board that is to be written into a site directory.

    Attributes:
        like: the board that it is like.
        answers: by key of a question; what is missing or empty is taken from that board.
    """

    name: str
    like: Board
    answers: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse what cannot be written. Raises ConfigError."""
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is not a name of a board (allowed: a-z, 0-9, '-', '_', '.')")
        by_key = {question.key: question for question in self.questions}
        for key, answer in self.answers.items():
            if key not in by_key:
                raise ConfigError(
                    f"{key!r} is not asked of a board like {self.like.name} (allowed: {', '.join(by_key)})"
                )
            if not answer:
                continue
            try:
                by_key[key].check(answer)
            except ValueError as error:
                raise ConfigError(f"{key}: {error}") from None

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is asked of it."""
        return questions(self.name, self.like)

    @property
    def unconfirmed(self) -> tuple[tuple[str, str], ...]:
        """What is taken from the other board, and where to look whether it is right."""
        places = [
            (question.key, question.where)
            for question in self.questions
            if question.where and not self.answers.get(question.key)
        ]
        if self.like.virtual:
            return tuple(places)
        copied_keys = strict_yaml.load(self.like.path).entries().keys() & set(_COPIED)
        return (*places, *((key, "the board") for key in _COPIED if key in copied_keys))

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the other board has for its own number of CPUs: `cpu_classes`, and tunings by name."""
        data = strict_yaml.load(self.like.path).as_written()
        if int(self.answer("cpus")) == self.like.cpus:
            return ()
        tunings = [name for name, tuning in data.get("tunings", {}).items() if set(_CPU_LISTS) & tuning.keys()]
        return (*(["cpu_classes"] if "cpu_classes" in data else []), *(f"tuning {name}" for name in tunings))

    @property
    def left_out_checks(self) -> tuple[str, ...]:
        """The validity checks that the other board declares not applicable: this hardware may well pass them."""
        return () if self.like.virtual else tuple(self.like.not_applicable)

    @property
    def extended_device_type(self) -> str:
        """The device type that the new one extends, which a server needs beside it; empty where none is written."""
        return self.like.lava.device_type if self.like.lava and self.answer("device-type") == self.name else ""

    def answer(self, key: str) -> str:
        """Return an answer, or what takes its place; empty if nothing is asked of this name."""
        return self.answers.get(key) or self._default(key)

    def _default(self, key: str) -> str:
        return next((question.default for question in self.questions if question.key == key), "")

    def write(self, directory: Path) -> tuple[Path, ...]:
        """Write its files into a site directory, and return which.

        Raises:
            ConfigError: a name is taken, or an answer does not fit the others; then nothing stays behind.
            InfrastructureError: the directory cannot be written.
        """
        self.require_free_names()
        texts = self._files()
        paths = [directory / path for path in texts]
        try:
            for path, text in zip(paths, texts.values(), strict=True):
                path.parent.mkdir(parents=True, exist_ok=True)
                files.write_text(path, text)
            references.board(directory / "boards" / f"{self.name}.yaml")
        except BaseException as error:
            for path in paths:
                with suppress(OSError):
                    path.unlink()
            if isinstance(error, OSError):
                raise InfrastructureError(f"{directory} cannot be written: {error.strerror}") from error
            raise
        return tuple(paths)

    def require_free_names(self) -> None:
        """Refuse names that would hide other files. Raises ConfigError."""
        for path in self._files():
            for layer, file in site.matches(str(path.parent), path.name):
                if layer.origin == "site":
                    raise ConfigError(f"{file} is there already: remove it, or choose another name")
                raise ConfigError(f"{file} has this name: choose another one, as this board's would hide it")

    def _files(self) -> dict[Path, str]:
        """Return what is written, by path below the site directory."""
        texts = {Path("boards") / f"{self.name}.yaml": self._board()}
        if self._own_build:
            texts[Path(_BUILDS) / f"{self._build}.yaml"] = self._build_description()
        if self.extended_device_type:
            text = _DEVICE_TYPE.format(
                like=self.extended_device_type, console=self.answer("console"), baud=self.answer("baud")
            )
            texts[Path(references.DEVICE_TYPES) / f"{self.name}.jinja2"] = text
        return texts

    @property
    def _own_build(self) -> bool:
        """Whether the board needs a build of its own, as its kernel needs another device tree."""
        return bool(self.like.build) and self.answer("device-tree") != self._default("device-tree")

    @property
    def _build(self) -> str:
        return f"{self.name}-{self.like.build.rpartition('-')[2]}" if self._own_build else self.like.build

    def _build_description(self) -> str:
        data: dict[str, Any] = {"extends": self.like.build}
        if load_description(site.find(_BUILDS, f"{self.like.build}.yaml")).device_trees:
            data["device_trees"] = {self.answer("device-tree"): "which kernels have it is not known yet"}
        comment = f"The kernel of {self.name}; like {self.like.build}, with its own device tree."
        return f"# {comment}\n{strict_yaml.dump(data)}"

    def _board(self) -> str:
        data = strict_yaml.load(self.like.path).as_written()
        data["description"] = self.answer("description")
        data["cpus"], data["memory"] = int(self.answer("cpus")), self.answer("memory")
        if self._build:
            data["build"] = self._build
        for name in self.left_out:
            kind, _, tuning = name.partition(" ")
            if tuning:
                del data["tunings"][tuning]
            else:
                del data[kind]
        if not data.get("tunings", True):
            del data["tunings"]
        if self.left_out_checks:
            del data["not_applicable"]
        if not self.like.virtual:
            data["soc"] = self.answer("soc")
            data["console"] |= {"device": self.answer("console"), "baud": int(self.answer("baud"))}
        if self.like.lava:
            data["lava"] = self._in_lab(data["lava"])
        comments = [f"Like {self.like.name}."]
        if not self.like.lava:
            comments += [f"Not checked: {key}; compare with {where}." for key, where in self.unconfirmed]
        return "".join(f"# {comment}\n" for comment in comments) + strict_yaml.dump(data)

    def _in_lab(self, data: dict[str, Any]) -> dict[str, Any]:
        data["device_type"] = self.answer("device-type")
        if self.answers.get("console"):
            data.pop("consoles", None)
        if self.like.lava and self.answers.get("device-tree"):
            data["dtbs"] = {_family(self.like.lava): f"{self.answers['device-tree']}.dtb"}
        of_like = {entry["what"]: entry["reason"] for entry in data.get("unconfirmed", ())}
        answered_keys = {key for key, answer in self.answers.items() if answer}
        mine = {
            key: f"taken from {self.like.name}, not checked: compare with {where}"
            + (f" ({of_like[key]})" if key in of_like else "")
            for key, where in self.unconfirmed
        }
        rest = {what: reason for what, reason in of_like.items() if what not in mine and what not in answered_keys}
        data["unconfirmed"] = [{"what": what, "reason": reason} for what, reason in (mine | rest).items()]
        return data


def ask(new: NewBoard, reply: Callable[[Question], str]) -> NewBoard:
    """Return the board with the answers that were missing; an empty one takes what the other board has."""
    answers = dict(new.answers)
    for question in new.questions:
        if question.key not in answers:
            answers[question.key] = reply(question).strip()
    return NewBoard(name=new.name, like=new.like, answers=answers)
