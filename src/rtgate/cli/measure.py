# SPDX-License-Identifier: MIT
"""`rtgate measure`: boots of built kernels become records."""

from __future__ import annotations

import argparse

from rtgate.cli import command_options, requests
from rtgate.errors import InfrastructureError
from rtgate.report.notices import say, step
from rtgate.workflow.report_directory import lock, replacing, require_report_directory
from rtgate.workflow.suite_process import Batch, prepare_suites

DESCRIPTION = """\
Measure built kernels on a board and keep the records. Nothing is judged: the exit code says whether everything was
measured (0) or not (3), not whether the kernel is good. `rtgate judge DIR/records` judges, `rtgate gate` does it all.

examples:
  rtgate measure --board virt-arm64 --kernel build/mine -o night
  rtgate measure --board rk3568-evb1 --console serial:/dev/ttyUSB0 --boots 3
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command_options.board(parser)
    command_options.kernels(parser)
    command_options.measuring(parser)
    command_options.select(parser)
    command_options.report(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises ConfigError, InfrastructureError."""
    output = arguments.output.absolute()
    require_report_directory(output)
    options = requests.suite_options(arguments, two=arguments.baseline is not None)
    named = {"baseline": arguments.baseline, "candidate": arguments.kernel}
    kernels = {arm: directory for arm, directory in named.items() if directory}
    options.check(kernels)
    with lock(output):
        suites = prepare_suites(options, kernels, output)
        with replacing(output), step("measuring"):
            whole = suites.measure(Batch())
    say(f"records: {suites.records}; next: rtgate judge {suites.records}")
    return 0 if whole else InfrastructureError.exit_code
