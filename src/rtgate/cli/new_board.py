# SPDX-License-Identifier: MIT
"""`rtgate new-board`: add a board by answering questions."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rtgate.board import boards
from rtgate.errors import ConfigError
from rtgate.report.notices import silence
from rtgate.workflow.new_board import NewBoard, Question, ask

DESCRIPTION = """\
Add a board to a site directory (--site or RTGATE_SITE) that is like one that is there: its file, a LAVA device type if
the lab has none for it, and a build if its kernel needs another device tree. What cannot be known is asked; an empty
answer takes what the other board has, and the new file lists it as not confirmed.

examples:
  rtgate --site my-lab new-board rock-5b --like rk3588-evb1
  rtgate --site my-lab new-board small-riscv --like virt-riscv64 --answer memory='256 MiB' --defaults
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("name", help="of the new board")
    parser.add_argument("--like", required=True, metavar="BOARD", help="the board that is nearest to it")
    parser.add_argument(
        "--answer",
        action="append",
        default=[],
        metavar="KEY=TEXT",
        help="answer a question here (description, soc, cpus, memory, console, baud, device-tree, device-type)",
    )
    parser.add_argument("--defaults", action="store_true", help="ask nothing more: take the rest from the other board")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    directory = os.environ.get("RTGATE_SITE")
    if not directory:
        raise ConfigError("a board is added to a site directory: name it (rtgate --site DIR new-board ...)")
    new = NewBoard(name=arguments.name, like=boards.board(arguments.like), answers=_answers(arguments.answer))
    if not arguments.defaults:
        new.require_free_names()
        print(
            f"{new.name} will be like {new.like.name}. Enter takes what stands in brackets, and marks it as not "
            "confirmed: type the value if you have seen it on the board."
        )
        with silence():  # a reminder would stand in the answer
            new = ask(new, _reply)
    paths = new.write(Path(directory))
    for path in paths:
        print(f"wrote {path}")
    for key, where in new.unconfirmed:
        value = f" is {new.answer(key)}" if new.answer(key) else ""
        print(f"not confirmed: {key}{value}, as of {new.like.name} (compare with {where})")
    for name in new.left_out:
        print(f"left out: {name} of {new.like.name}, which has another number of CPUs")
    for name in new.left_out_checks:
        print(f"left out: not_applicable {name} of {new.like.name}: declare it if the new board fails this check, too")
    if new.extended_device_type:
        print(f"the LAVA server needs {new.extended_device_type}.jinja2, too: the new device type extends it")
    print(f"next: rtgate --site {directory} check")
    return 0


def _answers(words: list[str]) -> dict[str, str]:
    answers = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise ConfigError(f"--answer {word}: write KEY=TEXT")
        answers[key] = text
    return answers


def _reply(question: Question) -> str:
    """Ask at the terminal until there is an answer that can be one."""
    hint = f"; see {question.where}" if question.where else ""
    while True:
        try:
            answer = input(f"{question.text} [{question.default}{hint}] ")
            if answer.strip():
                question.check(answer.strip())
        except EOFError:
            raise ConfigError("input ended, nothing was written: a script gives --answer and --defaults") from None
        except ValueError as error:
            print(error, file=sys.stderr)
        else:
            return answer
