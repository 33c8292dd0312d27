# SPDX-License-Identifier: MIT
"""Options of the suites on pytest's command line, and the run that they ask for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtgate.cli import shared_options
from rtgate.errors import ConfigError
from rtgate.lava.job import environment
from rtgate.measure.profiles import boots
from rtgate.measure.run import Run
from rtgate.records import schedule
from rtgate.target.boot_cache import BootCache
from rtgate.workflow.arms import ArmRequest, make_arms

if TYPE_CHECKING:
    from rtgate.workflow.judging import Criteria

PROFILE = "mr"


def add(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("rtgate", "measuring and judging real-time kernels")
    group.addoption("--board", metavar="NAME", help="the board, from boards/NAME.yaml")
    group.addoption("--kernel", metavar="DIR", help="a kernel's build directory: short for --arm candidate=DIR")
    group.addoption(
        "--arm", action="append", default=[], metavar="NAME=DIR", help="a kernel by arm: baseline=DIR, candidate=DIR"
    )
    shared_options.FLAVOUR.add(group.addoption)
    group.addoption(
        "--profile", metavar="NAME", help="lengths and repetitions (default: mr; with --replay that of the records)"
    )
    shared_options.TUNING.add(group.addoption)
    shared_options.SEEDS.add(group.addoption)
    group.addoption("--boots", metavar="N|A-B", help="boots of any other board, or their numbers, not the profile's")
    shared_options.NO_BOOT_CACHE.add(group.addoption)
    group.addoption(
        "--looks",
        metavar="N:SHARE,...",
        help="the interim analyses that `rtgate gate` plans: pairs of boots, and the share of the false alarms",
    )
    group.addoption("--screen", action="store_true", help="boots that are compared with the history only")
    group.addoption("--records", metavar="DIR", default="records", help="where records go (default: %(default)s)")
    group.addoption("--replay", metavar="DIR", help="judge the records in DIR again; no board is needed")
    group.addoption("--no-judge", action="store_true", help="measure only; no limits")
    shared_options.THRESHOLDS.add(group.addoption)
    group.addoption("--history", metavar="URL", help="of earlier boots: the noise of boards that comparisons need")
    group.addoption("--verdict", metavar="FILE", help="where verdicts go (default: RECORDS/verdict.json)")
    shared_options.POWER_CYCLE.add(group.addoption)
    shared_options.CONSOLE.add(group.addoption)
    shared_options.CASE.add(group.addoption)
    group.addoption(
        "--tell-placebos",
        metavar="OPTIONS",
        help="say what the comparisons know of harmless changes; OPTIONS: of `rtgate placebos learn` for this kernel",
    )
    group.addoption(
        "--also-tell", action="append", default=[], metavar="NAME", help="say it of this board, too, as of --board"
    )
    group.addoption("--cases", metavar="FILE", help="write the cases to FILE; with --collect-only nothing else happens")


def criteria(config: pytest.Config) -> Criteria:
    """Return what records are judged by, as the command line says; a history only if it names one."""
    from rtgate.workflow.judging import Criteria  # noqa: PLC0415 - half a second to load; a gate judges by itself

    thresholds = config.getoption("--thresholds")
    return Criteria(thresholds=Path(thresholds) if thresholds else None, history=config.getoption("--history"))


def run(config: pytest.Config, board: str, records: Path) -> Run:
    """Return what the command line asks for. Raises ConfigError, InfrastructureError."""
    console = config.getoption("--console")
    again = config.getoption("--no-boot-cache")
    request = ArmRequest(
        board=board,
        kernels=kernels(config),
        profile=config.getoption("--profile") or PROFILE,
        console=console,
        tuning=config.getoption("--tuning"),
        flavour=config.getoption("--flavour"),
        power_cycle=config.getoption("--power-cycle"),
        boot_cache=BootCache.open(again=again) if console in {None, "virtual"} else None,
    )
    stop = threading.Event()
    arms = make_arms(request, stop)
    return Run(
        arms=arms,
        seeds=_boots(config, virtual_time=arms[0].virtual_time),
        records=records,
        looks=_looks(config.getoption("--looks")),
        screen=config.getoption("--screen"),
        stop=stop,
    )


def _looks(text: str | None) -> schedule.Steps:
    try:
        return schedule.parse_steps(text) if text else ()
    except ValueError as error:
        raise ConfigError(f"--looks {text}: {error}") from error


def _boots(config: pytest.Config, *, virtual_time: bool) -> tuple[int, ...]:
    """Return the boots that the command line names, or the job's; empty for those of the profile."""
    if config.getoption("--console") == "lava":
        return (environment.read().boot,)
    return boots(config.getoption("--seeds"), config.getoption("--boots"), virtual_time=virtual_time)


def kernels(config: pytest.Config) -> dict[str, Path]:
    """Return the build directory of each arm that the command line names. Raises ConfigError."""
    kernel = config.getoption("--kernel")
    return shared_options.kernels_by_arm([*([f"candidate={kernel}"] if kernel else []), *config.getoption("--arm")])
