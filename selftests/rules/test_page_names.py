# SPDX-License-Identifier: MIT
"""What the pages name exists: files, modules, commands with their options, targets of make."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from rtgate.cli.main import parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
)
# Directories of the repository that pages name files of.
_TOP = ("bench", "boards", "ci", "docs", "kernel-configs", "lava-jobs", "selftests", "src", "target", "tests")
_PATH = re.compile(rf"(?<![\w./~-])(?:{'|'.join(_TOP)})/[\w./-]*\w")
_MODULE = re.compile(r"(?<![\w./-])rtgate(?:\.[a-z_]\w*)+(?![\w/-])")
# What only a site has, and what a recipe for contributors lets its reader make.
_ELSEWHERE = ("lava-jobs/health-checks", "boards/x.yaml")
_MADE = re.compile(r"napper|load_pipe|taint")
# Words that begin like names of ours: a file, a key, a group of entry points, the mark on a disk; and targets of the
# kernel's make.
_OTHERS = {"rtgate.tar", "rtgate.order", "rtgate.loads", "rtgate scratch"}
_OF_KERNEL = {"mrproper", "olddefconfig"}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def code(page: str) -> Iterator[str]:
    """Yield the code of a page: what stands in back-ticks, and the lines of examples, continued ones as one."""
    text = text_of(page)
    fence = re.compile(r"^\s*(?:```|~~~)[^\n]*\n(.*?)^\s*(?:```|~~~)\s*$", re.MULTILINE | re.DOTALL)
    blocks = [match[1] for match in fence.finditer(text)]
    prose = fence.sub("", text)
    blocks += re.findall(r"^ {4,}(?![-*\d ]).*$", prose, re.MULTILINE)
    for block in blocks:
        yield from re.sub(r"\\\n\s*", " ", block).splitlines()
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose))


def missing_path(name: str) -> bool:
    """Return whether no file has this name; capitals stand for any name."""
    pattern = re.sub(r"\b[A-Z][A-Z_]*\b|(?<=_)[A-Z](?=\.)", "*", name)
    if name.startswith(_ELSEWHERE) or _MADE.search(name):
        return False
    return not any((ROOT / base / name).exists() for base in ("", "src/rtgate")) and not any(ROOT.glob(pattern))


def missing_module(name: str) -> bool:
    """Return whether there is neither such a module nor such a definition in one."""
    path = ROOT / "src" / name.replace(".", "/")
    if name in _OTHERS or _MADE.search(name) or path.is_dir() or path.with_suffix(".py").is_file():
        return False
    module = path.parent.with_suffix(".py")
    defined = rf"^(?:def|class) {path.name}\b|^{path.name}\b.*="
    return not (module.is_file() and re.search(defined, module.read_text(encoding="utf-8"), re.MULTILINE))


def _below(command: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    actions = command._actions
    return next((dict(one.choices) for one in actions if isinstance(one, argparse._SubParsersAction)), {})


def _options(command: argparse.ArgumentParser) -> set[str]:
    own = {name for action in command._actions for name in action.option_strings}
    return own.union(*(_options(one) for one in _below(command).values()))


@cache
def global_options() -> Mapping[str, bool]:
    """Return the options before a command, and whether a value follows."""
    return {name: action.nargs != 0 for action in parser()._actions for name in action.option_strings}


@cache
def commands() -> Mapping[str, set[str]]:
    """Return the options of each command, those of all commands included."""
    return {name: _options(command) | {*global_options()} for name, command in _below(parser()).items()}


def without_global_options(words: list[str]) -> list[str]:
    """Return what follows `rtgate` and its own options; an unknown one stays."""
    while words and (name := words[0].partition("=")[0]) in global_options():
        words = words[2 if global_options()[name] and name == words[0] else 1 :]
    return words


def wrong_command(line: str) -> str:
    """Return what a line of code has that `rtgate` has not; empty if nothing."""
    for part in re.split(r"&&|;|\||(?:^|\s)#", line):
        words = part.replace("'", " ").replace("[", " ").replace("]", " ").split()
        words = words[1:] if words[:1] == ["$"] else words
        if words[:1] != ["rtgate"] or part in _OTHERS:
            continue
        command, *own = without_global_options(words[1:]) or [""]
        if not re.fullmatch(r"(?:--)?[a-z][\w-]+", command):
            continue
        if command not in commands():
            return f"no command {command!r}: {line}"
        own = own[: own.index("--")] if "--" in own else own  # the rest is another command's
        unknown = [word for word in own if re.match(r"--[a-z]", word)]
        unknown = [word for word in unknown if word.partition("=")[0].rstrip(",.)") not in commands()[command]]
        if unknown:
            return f"rtgate {command} has no {', '.join(unknown)}: {line}"
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_files_and_modules_exist(page: str) -> None:
    lines = list(code(page))
    paths = {name for line in lines for name in _PATH.findall(line) if missing_path(name)}
    modules = {name for line in lines for name in _MODULE.findall(line) if missing_module(name)}
    assert (paths, modules) == (set(), set())


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_that_are_named(page: str) -> None:
    assert list(filter(None, map(wrong_command, code(page)))) == []


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {match[1] for page in PAGES for line in code(page) if (match := re.match(r"make ([a-z][a-z-]*)\b", line))}
    assert {"gate", "demo"} <= named
    assert named <= targets | _OF_KERNEL


def test_dead_names_are_found() -> None:
    assert missing_path("src/rtgate/judge/phases.py")
    assert missing_path("boards/NAME.txt")
    assert not missing_path("boards/NAME.yaml")
    assert missing_module("rtgate.judge.phases")
    assert missing_module("rtgate.judge.compare.phases.no_such_function")
    assert not missing_module("rtgate.judge.compare.phases.shifts")
    assert wrong_command("rtgate measures --board x").startswith("no command 'measures'")
    assert wrong_command("rtgate --site my-lab measures").startswith("no command 'measures'")
    assert wrong_command("rtgate --site=my-lab gate --no-such-option") != ""
    assert wrong_command("rtgate --sight my-lab gate").startswith("no command '--sight'")
    assert wrong_command("rtgate --site my-lab gate --board x") == ""
    assert wrong_command("make x && rtgate gate --board x --no-such-option") != ""
    assert wrong_command("$ rtgate gate --board x --profile=mr   # --no-such-option") == ""


def test_quoted_limits_stand_in_the_line_that_is_named() -> None:
    limits = (ROOT / "thresholds.yaml").read_text(encoding="utf-8").splitlines()
    quoted = [
        (" ".join(match[1].split()), int(match[2]))
        for page in PAGES
        for match in re.finditer(r"\((largest of [^()]*);\s+(?:my-)?thresholds\.yaml:(\d+)\)", text_of(page))
    ]
    assert len(quoted) >= 2
    assert [(source, line) for source, line in quoted if source not in limits[line - 1]] == []
