# SPDX-License-Identifier: MIT
"""`rtgate build`: build a kernel."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rtgate import site
from rtgate.cli import command_options
from rtgate.cli.requests import build_options
from rtgate.errors import ConfigError
from rtgate.kernel import build as kernel_build
from rtgate.kernel.artefacts import KernelBuild
from rtgate.kernel.build_set import build_each, output_in
from rtgate.kernel.config_check import ConfigCheck, check_config, check_configs
from rtgate.kernel.configuration import BuildDescription
from rtgate.kernel.source import Tree
from rtgate.report import build_table, config_table
from rtgate.report.build_progress import show_progress
from rtgate.workflow.kernels import find_description, open_tree

DESCRIPTION = """\
Build a kernel as kernel-configs/BUILD.yaml describes it, and prove that it has every option that was asked for.
The tree is only read: patches are applied to a copy. Whatever has not changed is not built again.

examples:
  rtgate build virt-arm64-preempt_rt                        Debian's kernel source, into build/virt-arm64-preempt_rt
  rtgate build virt-arm64-preempt_rt --tree ~/linux -o out  a tree of your own, into out/
  rtgate build virt-arm64-preempt_rt --tree ~/linux --check-config
                                                            which options would this tree not take? (seconds)
  rtgate build --check-config --all --tree ~/linux          the same of every build (a minute or two)
  rtgate build rk3568-preempt_rt rk3588-preempt_rt --tree ~/linux
                                                            several, one after the other, into build/NAME each
  rtgate build virt-arm64-preempt_rt --toolchain clang -o build/clang
                                                            with Clang and LLVM instead of gcc and binutils
  rtgate build virt-arm64-preempt_rt --patches kernel-configs/patches/demo-slow-wakeup -o build/slow
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.building(parser, several=True)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="where it goes (default: build/BUILD)")
    parser.add_argument("--check-config", action="store_true", help="only tell which options this tree would not take")
    parser.add_argument("--all", action="store_true", help="with --check-config: of every build that has a name")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.all or (arguments.check_config and len(arguments.build) > 1):
        return _check_several(arguments)
    if not arguments.build:
        raise ConfigError("which build? Name one, or check all configurations with --check-config --all")
    if len(arguments.build) > 1:
        return _build_several(arguments)
    description = find_description(arguments.build[0])
    with show_progress(description.name, quiet=arguments.quiet) as listener:
        tree = open_tree(arguments.tree, listener)
        options = build_options(arguments, listener)
        if arguments.check_config:
            return _check(check_config(description, tree, options), tree)
        output = arguments.output or output_in(Path("build"), description, options)
        start = time.monotonic()
        kernel = kernel_build.build(description, tree, output, options)
    _print(kernel, time.monotonic() - start)
    return 0


def _check(check: ConfigCheck, tree: Tree) -> int:
    name = check.description.name
    for unrequested in check.unrequested:
        print(config_table.unrequested_line(unrequested, tree.version))
    if not check.lost:
        print(f"Linux {tree.version} takes all {check.requested} options of {name}")
        return 0
    print(
        f"Linux {tree.version} does not take {len(check.lost)} of the {check.requested} options of {name}{check.hint}:"
    )
    for option in check.lost:
        print(f"  {option}")
    return 1


def _build_several(arguments: argparse.Namespace) -> int:
    """Build each; 1 if one fails, 2 if none does and the tree is not for one of them."""
    if arguments.output:
        raise ConfigError("-o is for one build: several go into build/NAME each")
    descriptions = _distinct(arguments.build)
    with show_progress(f"{len(descriptions)} kernels", quiet=arguments.quiet) as listener:
        tree = open_tree(arguments.tree, listener)
        outcomes = list(build_each(descriptions, tree, Path("build"), build_options(arguments, listener)))
    for line in build_table.lines(outcomes):
        print(line)
    if any(outcome.failure for outcome in outcomes):
        return 1
    return 2 if any(outcome.unsupported for outcome in outcomes) else 0


def _distinct(words: Sequence[str]) -> list[BuildDescription]:
    """Return each named build once. Raises ConfigError: one is not right, or two would go into one directory."""
    by_name: dict[str, BuildDescription] = {}
    for word in words:
        description = find_description(word)
        first = by_name.setdefault(description.name, description)
        if first.path.resolve() != description.path.resolve():
            raise ConfigError(
                f"{first.path} and {description.path} would go into one directory: build each alone, with -o DIR"
            )
    return list(by_name.values())


def _check_several(arguments: argparse.Namespace) -> int:
    if not arguments.check_config or arguments.output or (arguments.all and arguments.build):
        raise ConfigError("--all is for --check-config, without BUILD and -o: kernels to build are named")
    descriptions = [find_description(name) for name in arguments.build or site.names("kernel-configs")]
    with show_progress("configurations", quiet=arguments.quiet) as listener:
        tree = open_tree(arguments.tree, listener)
        checks = list(check_configs(descriptions, tree, build_options(arguments, listener)))
    for line in config_table.lines(checks, tree.version):
        print(line)
    return 1 if any(check.lost or check.failure for check in checks) else 0


def _print(kernel: KernelBuild, seconds: float) -> None:
    print(f"{kernel.directory}: Linux {kernel.release} {kernel.flavour} for {kernel.arch}, {seconds:.0f} s")
