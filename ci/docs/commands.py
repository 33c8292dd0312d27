# SPDX-License-Identifier: MIT
"""Writes docs/reference/commands.md from the parsers of `rtgate`; `--check` only says whether the page is up to date.

Not argparse's own help: its form differs between versions of Python, and the page must not.
Exit codes: 0 written, or up to date; 1 not up to date (with --check); 2 wrong usage.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from generated import write_or_compare

from rtgate.cli.main import parser

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"
_TOP = """\
# Commands

Every command of `rtgate` with its options, defaults and examples: what `rtgate COMMAND --help` says, on one page to
search. It is made from the program by `make docs`; do not edit it.
"""


def page() -> str:
    """Return the page's text."""
    top = parser()
    commands = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001 - there is no other way in
    parts = [
        _TOP,
        "| command | what it does | group |\n|---|---|---|",
        *(
            f"| [`rtgate {name}`](#rtgate-{name}) | {_cell(line)} | {group} |"
            for group, name, line in _list_commands(top)
        ),
        "\n## Exit codes and options of all commands\n",
        _fence(top.epilog or ""),
        *_table(top),
    ]
    for name, command in commands.choices.items():
        parts += ["", f"## rtgate {name}", "", *_command(f"rtgate {name}", command)]
    return "\n".join(parts).rstrip() + "\n"


def _list_commands(top: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    """Yield the commands that the description lists: group, name, and what it does."""
    group = ""
    for line in (top.description or "").splitlines():
        if heading := re.fullmatch(r"(\w+):", line):
            group = heading[1]
        elif command := re.fullmatch(r"  ([\w-]+) {2,}(\S.*)", line):
            yield group, command[1], command[2]


def _command(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    text, _, rest = (command.description or "").partition("\nexamples:\n")
    # Examples are indented; a paragraph after them is not.
    examples = "".join(re.findall(r"\A(?:[ ][^\n]*\n?|\n(?=[ ]))*", rest))
    yield _fence(" ".join([name, *_usage(command)]))
    if text:
        yield f"\n{_prose(text)}"
    yield from _table(command)
    if examples.strip():
        yield f"\nExamples:\n\n{_fence(examples)}"
    for block in (rest.removeprefix(examples), command.epilog or ""):
        if block.strip():
            yield f"\n{_prose(block)}"
    for below in (action for action in command._actions if isinstance(action, argparse._SubParsersAction)):  # noqa: SLF001
        for word, parser_below in below.choices.items():
            yield f"\n### {name} {word}\n"
            yield from _command(f"{name} {word}", parser_below)


def _usage(command: argparse.ArgumentParser) -> Iterator[str]:
    if any(isinstance(action, argparse._SubParsersAction) for action in command._actions):  # noqa: SLF001
        yield "COMMAND ..."
    for action in _visible_options(command):
        words = _spell(action, 0)
        yield (
            words if action.required or (not action.option_strings and action.nargs not in ("?", "*")) else f"[{words}]"
        )


def _spell(action: argparse.Action, number: int) -> str:
    """Return an option with its value, or a positional argument."""
    metavar = action.metavar or (f"{{{','.join(map(str, action.choices))}}}" if action.choices else action.dest)
    value = " ".join(metavar) if isinstance(metavar, tuple) else str(metavar)
    if not action.option_strings:
        return f"{value} ..." if action.nargs in ("*", "+") else value
    if action.nargs in ("*", "+"):
        value += " ..."
    elif action.nargs == "?":
        value = f"[{value}]"
    if not action.nargs and value == action.dest:
        value = value.upper()
    return action.option_strings[number] if action.nargs == 0 else f"{action.option_strings[number]} {value}"


def _table(command: argparse.ArgumentParser) -> Iterator[str]:
    actions = _visible_options(command)
    if not actions:
        return
    yield "\n| option | meaning |\n|---|---|"
    for action in actions:
        spelled = ", ".join(
            f"`{_spell(action, number)}`" for number in range(max(1, len(action.option_strings)))
        ).replace("|", "\\|")
        help_text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
        yield f"| {spelled} | {_cell(help_text)} |"


def _visible_options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)  # noqa: SLF001 - the same
    return [one for one in command._actions if not isinstance(one, hidden) and one.help != argparse.SUPPRESS]  # noqa: SLF001


def _cell(text: str) -> str:
    """Return text for a table's cell: one line, and nothing that Markdown would take for its own."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", " ".join(text.split()))


def _prose(text: str) -> str:
    """Return a description as Markdown: paragraphs, and what is indented or aligned as it is."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        _fence(block) if re.search(r"^ {2,}|\S {2,}\S", block, re.MULTILINE) else _escape(block) for block in blocks
    )


def _escape(text: str) -> str:
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


def _fence(text: str) -> str:
    return f"```text\n{text.strip(chr(10))}\n```"


def main() -> int:
    """Write the page, or compare it."""
    return write_or_compare(PAGE, page(), what=(__doc__ or "").partition("\n")[0], source="the program's parsers say")


if __name__ == "__main__":
    raise SystemExit(main())
