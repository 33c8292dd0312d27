# SPDX-License-Identifier: MIT
"""`rtgate modules`: build kernel modules against a build."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtgate import site
from rtgate.cli import command_options
from rtgate.cli.requests import build_options
from rtgate.kernel.modules import build_modules
from rtgate.kernel.toolchain import Toolchain
from rtgate.report.build_progress import show_progress
from rtgate.workflow.kernels import find_description, open_tree

DESCRIPTION = """\
Build kernel modules outside the tree against a build of kernel-configs/, with the same tree, configuration and
compiler; the kernel is built first if it is not. Each module is checked to be of that kernel (vermagic). Without
--modules those of target/modules are built, which count, raise and answer interrupts, and measure a BAR.

examples:
  rtgate modules virt-arm64-pcie                            into build/virt-arm64-pcie-modules
  rtgate modules rk3588 --tree ~/linux -o out               a site's build and tree, into out/
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.building(parser)
    parser.add_argument("--modules", metavar="DIR", type=Path, help="Kbuild and sources (default: target/modules)")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="where (default: build/BUILD-modules)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    description = find_description(arguments.build)
    sources = arguments.modules or site.find("target", "modules")
    suffix = Toolchain(arguments.toolchain).suffix
    output = arguments.output or Path("build") / f"{description.name}{suffix}-modules"
    with show_progress(description.name, quiet=arguments.quiet) as listener:
        tree = open_tree(arguments.tree, listener)
        modules = build_modules(description, tree, sources, output, build_options(arguments, listener))
    for module in modules:
        print(f"{module.path}: {module.info.get('vermagic', '')}")
    return 0
