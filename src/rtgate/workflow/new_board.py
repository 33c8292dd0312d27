# SPDX-License-Identifier: MIT
"""A new board's files, made from those of a board like it and from a few answers.

What nobody answered is taken from the other board, and the new file says so under `lava: unconfirmed`, with where to
look. So whoever reads it later knows what was seen on the hardware and what was not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rtgate import files, site
from rtgate.board import boards
from rtgate.board.boards import Board, Lava
from rtgate.errors import ConfigError
from rtgate.lava.job import template
from rtgate.workflow import references

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,59}")
_BUILDS = "kernel-configs"
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


def _number(text: str) -> None:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError(f"{text!r} is not a number from 1")


def _device_tree(text: str) -> None:
    if not re.fullmatch(r"[a-z0-9-]+/[A-Za-z0-9_-]+", text):
        raise ValueError(f"{text!r} does not name a device tree (an example: rockchip/rk3588-rock-5b)")


def questions(name: str, like: Board) -> tuple[Question, ...]:
    """Return what is asked of a board that is like another one."""
    on_board = not like.virtual  # of a virtual one the file itself decides
    asked = [
        Question(key="description", text="What is it?", default=f"{name}, like {like.name}", where=""),
        Question(
            key="cpus", text="How many CPUs?", default=str(like.cpus), where="nproc" if on_board else "", check=_number
        ),
        Question(
            key="memory",
            text="How much RAM?",
            default=_size(like),
            where="/proc/meminfo" if on_board else "",
            check=boards.memory_mib,
        ),
    ]
    if on_board:
        asked += [Question(key="soc", text="Which SoC?", default=like.soc, where="the board's manual"), *_console(like)]
    if like.lava:
        asked += _lava(name, like.lava)
    return tuple(asked)


def _console(like: Board) -> list[Question]:
    return [
        Question(key="console", text="Console device?", default=like.console.device, where="console= in /proc/cmdline"),
        Question(
            key="baud",
            text="Its baud rate?",
            default=str(like.console.baud),
            where="console= in /proc/cmdline, the boot loader's settings",
            check=_number,
        ),
    ]


def _lava(name: str, lava: Lava) -> list[Question]:
    asked = []
    if tree := lava.dtbs.get("mainline"):
        asked.append(
            Question(
                key="device-tree",
                text="Device tree, below the kernel's dts directory?",
                default=tree.removesuffix(".dtb"),
                where="/proc/device-tree/model, and the same text in the kernel's arch/*/boot/dts",
                check=_device_tree,
            )
        )
    text = "Device type in the lab's LAVA? For the name in brackets a file is written."
    return [*asked, Question(key="device-type", text=text, default=name, where="")]


def _size(board: Board) -> str:
    return f"{board.memory_mib} MiB" if board.memory_mib % 1024 else f"{board.memory_mib // 1024} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBoard:
    """A board that is to be written into a site directory.

    Attributes:
        like: the board that it is like.
        answers: by key of a question; what is missing is taken from that board.
    """

    name: str
    like: Board
    answers: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse what cannot be written. Raises ConfigError."""
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is not a name of a board (allowed: a-z, 0-9, '-', '_', '.')")
        asked = {one.key: one for one in self.questions}
        for key, answer in self.answers.items():
            if key not in asked:
                raise ConfigError(
                    f"{key!r} is not asked of a board like {self.like.name} (allowed: {', '.join(asked)})"
                )
            try:
                asked[key].check(answer)
            except ValueError as error:
                raise ConfigError(f"{key}: {error}") from None

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is asked of it."""
        return questions(self.name, self.like)

    @property
    def unconfirmed(self) -> tuple[Question, ...]:
        """What nobody has answered and somebody should look at."""
        return tuple(one for one in self.questions if one.where and one.key not in self.answers)

    def answer(self, key: str) -> str:
        """Return an answer, or what takes its place; empty if nothing is asked of this name."""
        return self.answers.get(key, next((one.default for one in self.questions if one.key == key), ""))

    def write(self, directory: Path) -> tuple[Path, ...]:
        """Write its files into a site directory, and return which.

        Raises:
            ConfigError: one is there already, or an answer does not fit the others; then nothing stays behind.
        """
        made = {directory / path: text for path, text in self._files().items()}
        for path in made:
            if path.exists():
                raise ConfigError(f"{path} is there already: remove it, or choose another name")
        try:
            for path, text in made.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                files.write_text(path, text)
            references.board(directory / "boards" / f"{self.name}.yaml")
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise
        return tuple(made)

    def _files(self) -> dict[Path, str]:
        """Return what is written, by path below the site directory."""
        written = {Path("boards") / f"{self.name}.yaml": self._board()}
        if self._own_build:
            written[Path(_BUILDS) / f"{self._build}.yaml"] = self._build_description()
        if self.answer("device-type") == self.name:
            assert self.like.lava is not None
            text = _DEVICE_TYPE.format(
                like=self.like.lava.device_type, console=self.answer("console"), baud=self.answer("baud")
            )
            written[Path(template.KIND) / "device-types" / f"{self.name}.jinja2"] = text
        return written

    @property
    def _own_build(self) -> bool:
        """Whether the board needs a build of its own, as its kernel needs another device tree."""
        return bool(self.like.build and self.answers.get("device-tree"))

    @property
    def _build(self) -> str:
        return f"{self.name}-{self.like.build.rpartition('-')[2]}" if self._own_build else self.like.build

    def _build_description(self) -> str:
        data = _plain(site.find(_BUILDS, f"{self.like.build}.yaml"))
        if "device_trees" in data:
            data["device_trees"] = {self.answer("device-tree"): "which kernels have it is not known yet"}
        return _text(data, f"The kernel of {self.name}; like {self.like.build}, with its own device tree.")

    def _board(self) -> str:
        data = _plain(self.like.path)
        data["description"] = self.answer("description")
        data["cpus"], data["memory"] = int(self.answer("cpus")), self.answer("memory")
        if self._build:
            data["build"] = self._build
        if data["cpus"] != self.like.cpus:  # lists of CPUs are for as many as the other board has
            data.pop("cpu_classes", None)
            data.pop("tunings", None)
        if not self.like.virtual:
            data["soc"] = self.answer("soc")
            data["console"] |= {"device": self.answer("console"), "baud": int(self.answer("baud"))}
        if self.like.lava:
            data["lava"] = self._lava(data["lava"])
        return _text(data, f"Like {self.like.name}.")

    def _lava(self, data: dict[str, Any]) -> dict[str, Any]:
        data["device_type"] = self.answer("device-type")
        if "console" in self.answers:
            data.pop("consoles", None)
        if "device-tree" in self.answers:
            data["dtbs"] = {"mainline": f"{self.answers['device-tree']}.dtb"}
        copied = [
            {"what": one.key, "reason": f"taken from {self.like.name}: {one.where} says it"} for one in self.unconfirmed
        ]
        known = {one.key for one in self.questions}
        kept = [one for one in data.get("unconfirmed", ()) if one["what"] not in known]
        data["unconfirmed"] = copied + kept
        return data


def _plain(path: Path) -> dict[str, Any]:
    """Return a file that was read and found right, as plain values."""
    data: dict[str, Any] = yaml.safe_load(files.read_text(path, files.YAML_LIMIT))
    return data


def _text(data: Mapping[str, Any], comment: str) -> str:
    written = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=110)
    return f"# {comment}\n{written}"


def ask(new: NewBoard, reply: Callable[[Question], str]) -> NewBoard:
    """Return the board with the answers that were missing; an empty one takes what the other board has."""
    answers = dict(new.answers)
    for question in new.questions:
        if question.key not in answers and (answer := reply(question).strip()):
            answers[question.key] = answer
    return NewBoard(name=new.name, like=new.like, answers=answers)
