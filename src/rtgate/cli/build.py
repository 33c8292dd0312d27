# SPDX-License-Identifier: MIT
"""`rtgate build`: build a kernel."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rtgate import site
from rtgate.cli import command_options
from rtgate.kernel import build as kernel_build
from rtgate.kernel import source
from rtgate.kernel.artefacts import KernelBuild
from rtgate.kernel.configuration import BuildDescription, load_description
from rtgate.kernel.source import Tree
from rtgate.report.notices import heard, reminder, silence
from rtgate.report.progress import estimate

_DESCRIPTION = """\
Build a kernel as kernel-configs/BUILD.yaml describes it, and prove that it has every option that was asked for.
The tree is only read: patches are applied to a copy. Whatever has not changed is not built again.

examples:
  rtgate build virt-arm64-preempt_rt                        Debian's kernel source, into build/virt-arm64-preempt_rt
  rtgate build virt-arm64-preempt_rt --tree ~/linux -o out  a tree of your own, into out/
  rtgate build virt-arm64-preempt_rt --tree ~/linux --check-config
                                                            which options would this tree not take? (seconds)
  rtgate build virt-arm64-preempt_rt --patches kernel-configs/patches/demo-slow-wakeup -o build/slow
"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "build",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command_options.building(parser)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="where it goes (default: build/BUILD)")
    parser.add_argument("--check-config", action="store_true", help="only tell which options this tree would not take")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    description = find_description(arguments.build)
    with shown(description.name, quiet=arguments.quiet) as listener:
        tree = open_tree(arguments.tree, listener)
        options = kernel_build.Options(jobs=arguments.jobs, patches=arguments.patches, listener=listener)
        if arguments.check_config:
            return _check(description, tree, options)
        output = arguments.output or Path("build") / description.name
        started = time.monotonic()
        made = kernel_build.build(description, tree, output, options)
    _print(made, time.monotonic() - started)
    return 0


def build_kernel(
    name: str, tree: Tree | None, output: Path, patches: Path | None = None, *, by_content: bool = False
) -> KernelBuild:
    """Build with progress shown; `tree` None is the pinned Debian source. Raises as `kernel.build.build`.

    With `by_content` the directory's name is `output` with a digest of all that goes into the build.
    """
    description = find_description(name)
    build = kernel_build.build_by_content if by_content else kernel_build.build
    with shown(description.name, quiet=False) as listener:
        options = kernel_build.Options(patches=patches, listener=listener)
        return build(description, tree or open_tree(None, listener), output, options)


def find_description(name: str) -> BuildDescription:
    """Return the build of this name, or of this path if it ends in `.yaml`.

    Raises:
        ConfigError: no such build, or a mistake in it.
    """
    path = Path(name) if name.endswith(".yaml") else site.find("kernel-configs", f"{name}.yaml")
    return load_description(path)


def open_tree(path: Path | None, listener: kernel_build.Listener) -> Tree:
    """Return the source of a build, None for the pinned Debian package; warnings go to standard error."""
    tree = source.open_tree(path) if path else source.default_tree(listener.notice)
    for warning in tree.warnings:
        print(f"rtgate: warning: {warning}", file=sys.stderr)
    return tree


def _check(description: BuildDescription, tree: Tree, options: kernel_build.Options) -> int:
    lost = kernel_build.check_config(description, tree, options)
    asked = len(description.asked(tree.version))
    if not lost:
        print(f"Linux {tree.version} takes all {asked} options of {description.name}")
        return 0
    print(f"Linux {tree.version} does not take {len(lost)} of the {asked} options of {description.name}:")
    for option in lost:
        print(f"  {option}")
    return 1


def _print(made: KernelBuild, seconds: float) -> None:
    print(f"{made.directory}: Linux {made.release} {made.flavour} for {made.arch}, {seconds:.0f} s")


@contextmanager
def shown(name: str, *, quiet: bool) -> Iterator[kernel_build.Listener]:
    """Show how a build goes: a bar on a terminal, else a line now and then."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        yield kernel_build.Listener()
    elif console.is_terminal:
        with _bar(name, console) as listener:
            yield listener
    else:
        lines = _Lines(name, console)
        with reminder(lines.going_on, lines.line):
            yield kernel_build.Listener(lines.notice, lines.progress)


@contextmanager
def _bar(name: str, console: Console) -> Iterator[kernel_build.Listener]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = (TextColumn("{task.fields[left]}"), TextColumn("{task.fields[file]}"))
    with silence(), Progress(*columns, *left, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None, file="", left="")
        began = time.monotonic()

        def progress(done: int, total: int | None, file: str) -> None:
            left = "" if total is None else estimate(time.monotonic() - began, done, total)
            bar.update(task, completed=done, total=total, file=file, left=left)

        def notice(text: str) -> None:
            bar.print(text, markup=False, soft_wrap=True)

        yield kernel_build.Listener(notice, progress)


class _Lines:
    """Progress for logs: a line where nothing was said for a while."""

    def __init__(self, name: str, console: Console) -> None:
        self._console = console
        self._now = f"building {name}", time.monotonic()
        self._first: tuple[float, int] | None = None

    def notice(self, text: str) -> None:
        self._now = text, time.monotonic()
        self.line(text)
        heard()

    def progress(self, done: int, total: int | None, file: str) -> None:
        now = time.monotonic()
        # Files before the first line were made while the build was starting: they say nothing about its speed.
        began, already = self._first or (now, done)
        self._first = began, already
        count = f"{done}" if total is None else f"{done} of {total}"
        left = "" if total is None else estimate(now - began, done - already, total - already)
        self._now = f"{', '.join(filter(None, (count, left)))}: {file}", now

    def going_on(self) -> str:
        text, began = self._now
        return f"{text} ... {time.monotonic() - began:.0f} s"

    def line(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
