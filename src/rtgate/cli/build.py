# SPDX-License-Identifier: MIT
"""`rtgate build`: build a kernel."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from rtgate.cli import command_options
from rtgate.kernel import build as kernel_build
from rtgate.kernel.artefacts import KernelBuild
from rtgate.kernel.configuration import BuildDescription
from rtgate.kernel.source import Tree
from rtgate.report.build_progress import shown
from rtgate.workflow.kernels import find_description, open_tree

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
    limits = command_options.build_limits(arguments)
    with shown(description.name, quiet=arguments.quiet) as listener:
        tree = open_tree(arguments.tree, listener)
        options = kernel_build.Options(jobs=arguments.jobs, patches=arguments.patches, limits=limits, listener=listener)
        if arguments.check_config:
            return _check(description, tree, options)
        output = arguments.output or Path("build") / description.name
        started = time.monotonic()
        made = kernel_build.build(description, tree, output, options)
    _print(made, time.monotonic() - started)
    return 0


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
