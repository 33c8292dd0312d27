# SPDX-License-Identifier: MIT
"""`rtgate repeat`: prove that a virtual-time board repeats itself bit by bit."""

from __future__ import annotations

import argparse
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rtgate.board.boot import State
from rtgate.cli import command_options
from rtgate.errors import ConfigError
from rtgate.measure.case import Arm, Case
from rtgate.measure.case_record import measure
from rtgate.measure.profiles import seeds
from rtgate.records.record import digest_source
from rtgate.report.text import plain_text
from rtgate.workflow.arms import ArmRequest, make_arms
from rtgate.workflow.slowest import find_case

DESCRIPTION = """\
Boot the same kernel with the same seed several times, at once on all cores, and compare every sample of every
histogram and every byte of the console. Identical: exit code 0. Any difference: exit code 4, with what differs. With
the case and the profile of a gate its very boots are made.

examples:
  rtgate repeat --board virt-arm64 --kernel build/virt-arm64-preempt_rt --seeds 1 --times 3
  rtgate repeat --board virt-arm64-smp2 --kernel build/virt-arm64-preempt_rt --seeds 1-4 --case signal/signaltest:idle
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--board", required=True, help="a virtual board")
    parser.add_argument("--kernel", required=True, type=Path, metavar="DIR", help="a kernel's build directory")
    parser.add_argument(
        "--seeds", default="1", metavar="A-B", help="one seed, or several like 1-4 (default: %(default)s)"
    )
    parser.add_argument("--times", type=int, default=3, help="how often to boot each seed (default: %(default)s)")
    parser.add_argument(
        "--case", default="latency/cyclictest:idle", metavar="CASE", help="SUITE/TOOL:LOAD (default: %(default)s)"
    )
    command_options.profile(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.times < 2:
        raise ConfigError("--times must be at least 2: one run repeats nothing")
    case = find_case(arguments.case, arguments.profile)
    kernels = {"candidate": arguments.kernel}
    request = ArmRequest(board=arguments.board, kernels=kernels, profile=arguments.profile, tuning=case.tuning)
    stop = threading.Event()
    (arm,) = make_arms(request, stop)
    if not arm.virtual_time:
        raise ConfigError(f"{arguments.board} is not a virtual board: only virtual time repeats itself")
    boot_seeds = [seed for seed in seeds(arguments.seeds) for _ in range(arguments.times)]
    pool = ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)))
    try:
        digests = list(pool.map(lambda seed: _digests(case, arm, seed), boot_seeds))
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return _compare(digests)


def _digests(case: Case, arm: Arm, seed: int) -> tuple[int, str, str, str]:
    record, outcome = measure(case, arm, seed)
    samples = _short(digest_source(record).encode())
    print(f"seed {seed}: {samples} {record.state} {plain_text(record.message)}".rstrip(), flush=True)
    return seed, samples, _short(outcome.console), record.state


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _compare(digests: list[tuple[int, str, str, str]]) -> int:
    numbers = sorted({seed for seed, *_ in digests})
    different = 0
    for seed in numbers:
        mine = [entry for entry in digests if entry[0] == seed]
        histograms, consoles = {entry[1] for entry in mine}, {entry[2] for entry in mine}
        states = [entry[3] for entry in mine if entry[3] != State.MEASURED]
        if states:
            different += 1
            print(
                f"seed {seed}: {len(states)} of {len(mine)} boots were not measured: {', '.join(sorted(set(states)))}"
            )
        elif len(histograms) > 1 or len(consoles) > 1:
            different += 1
            variants = f"{len(histograms)} histograms and {len(consoles)} consoles"
            print(f"seed {seed}: DIFFERENT: {variants} in {len(mine)} boots")
        else:
            print(f"seed {seed}: identical in {len(mine)} boots: samples {mine[0][1]}, console {mine[0][2]}")
    if len(numbers) > 1:
        print(f"{len({entry[1] for entry in digests})} different histograms over {len(numbers)} seeds")
    return 4 if different else 0
