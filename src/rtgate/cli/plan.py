# SPDX-License-Identifier: MIT
"""`rtgate plan`: how many samples, minutes and boots an answer takes on a board."""

from __future__ import annotations

import argparse
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rtgate import durations
from rtgate.board import boards
from rtgate.cli import command_options, plan_phases
from rtgate.errors import ConfigError
from rtgate.history import queries
from rtgate.history.database import History
from rtgate.history.pairing import borrow
from rtgate.history.queries import BootFilter
from rtgate.history.url import history_url
from rtgate.judge import distributions
from rtgate.judge.compare.paired import Prior
from rtgate.judge.learn.planning import Change, ShareLimit, pairs_needed, plan_share, smallest_detectable, span, spreads
from rtgate.measure.raw_output import read_verified
from rtgate.records.record import Record
from rtgate.report.notices import say
from rtgate.units import Quantity, Unit

DESCRIPTION = """\
Say how many samples, minutes and boots it takes on a board to prove that a share is within a limit (--share), or to
find a change of a metric (--detect), from the board's own noise: records of several boots of one kernel (--records),
the boots of good kernels that a history has of the board (--history), or the standard deviation of the metric's
natural logarithm between boots (--sd). Boots on virtual time differ by their phase: of them --detect says what
placebos.yaml lets through, and how many boots of each kernel find the change.

examples:
  rtgate plan --share 1e-6 --over 70us --confidence 0.99 --rate 4000/s
  rtgate plan --share 0.0000833% --over 70us --board rk3568-evb1 --measured 2min
  rtgate plan --detect +20% --power 0.9 --records night/records
  rtgate plan --detect +20% --board rk3568-evb1 --history sqlite:///history.db
  rtgate plan --detect +20% --metric "1 h return level" --sd 0.07 --tests 96
"""
_DEFAULTS = {"confidence": 0.99, "power": 0.9, "boot": "3min", "overhead": "2min"}
_OF_A_SHARE = ("over", "confidence", "rate", "measured")
_OF_A_CHANGE = ("power", "tests", "metric", "records", "history", "device", "sd")
_INTERVAL_S = 1e-3  # of a cyclictest thread, one on each CPU
_MOST_SURELY = 0.90  # that the true variance is below what is planned for


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument("--share", metavar="S", help="prove that at most this share is late: 1e-6, or 0.0001%%")
    question.add_argument("--detect", metavar="CHANGE", help="find a metric that became worse by this: +20%%, or x1.2")
    share = parser.add_argument_group("a share")
    share.add_argument("--over", metavar="TIME", help="the level that the share is over, for example 70us")
    share.add_argument("--confidence", type=float, metavar="P", help=_default("confidence"))
    share.add_argument("--rate", metavar="N/s", help="samples in a second, of all threads together")
    share.add_argument("--measured", metavar="TIME", help="say whether a run of this length can tell, too")
    change = parser.add_argument_group("a change")
    change.add_argument("--power", type=float, metavar="P", help=f"how surely ({_default('power')})")
    change.add_argument(
        "--tests",
        type=int,
        metavar="N",
        help="metrics of all its cases (default: those of --records; on virtual time each has two tests)",
    )
    change.add_argument(
        "--metric", metavar="NAME", help="this metric only, for example 'exceedance rate', 'latency p50'"
    )
    change.add_argument("--records", type=Path, metavar="DIR", help="boots of one kernel on the board")
    command_options.history(change)
    change.add_argument("--device", metavar="ID", help="only this one of a lab's boards, of the history")
    change.add_argument("--sd", type=float, metavar="X", help="of the metric's logarithm, from boot to boot")
    board = parser.add_argument_group("the board")
    board.add_argument(
        "--board", metavar="NAME", help="whose rate it is (one cyclictest thread on each CPU), or whose boots"
    )
    board.add_argument("--boot", metavar="TIME", help=f"measured in each boot ({_default('boot')})")
    board.add_argument("--overhead", metavar="TIME", help=f"a boot costs beside ({_default('overhead')})")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    options = frozenset(name for name, value in vars(arguments).items() if value is not None)
    for name in _DEFAULTS.keys() - options:
        setattr(arguments, name, _DEFAULTS[name])
    try:
        cost = _Cost(_minutes(arguments.boot, "--boot"), _minutes(arguments.overhead, "--overhead"))
        if arguments.share is not None:
            _refuse(options, _OF_A_CHANGE, "it belongs to --detect")
            _share(arguments, cost, options)
        else:
            _refuse(options, _OF_A_SHARE, "it belongs to --share")
            _detect(arguments, cost, options)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return 0


def _default(name: str) -> str:
    return f"default: {_DEFAULTS[name]}"


def _refuse(options: Container[str], names: Sequence[str], why: str) -> None:
    """Raise ConfigError if one of these options was given: a user who names it believes that it counts."""
    option = next((name for name in names if name in options), None)
    if option:
        raise ConfigError(f"--{option} would do nothing: {why}; leave it out")


@dataclass(frozen=True, slots=True)
class _Cost:
    """Minutes that a boot measures, and those that it costs beside."""

    measured: float
    overhead: float

    def boots(self, minutes: float) -> int:
        return math.ceil(minutes / self.measured - 1e-9)

    def of(self, boots: int) -> str:
        return span(boots * (self.measured + self.overhead))


def _share(arguments: argparse.Namespace, cost: _Cost, options: Container[str]) -> None:
    if "rate" in options:
        _refuse(options, ["board"], "--rate says how many samples there are")
    if "over" not in options:
        raise ConfigError("--share needs the level that the share is over: --over 70us")
    level, share = _quantity(arguments.over, "--over", Unit.US), _fraction(arguments.share)
    limit = ShareLimit(share, arguments.confidence)
    rate, source = _rate(arguments)
    plan = plan_share(limit)
    rows = [("none over the level", plan.samples)]
    rows += [(f"a kernel {factor} times better passes (90 %)", samples) for factor, samples in plan.likely.items()]
    rows.append(("a kernel 3 times worse fails (90 %)", plan.broken))
    table = Table("", "samples", "measured", "boots", "board")
    for name, samples in rows:
        minutes = samples / rate / 60
        boots = cost.boots(minutes)
        table.add_row(name, str(samples), span(minutes), str(boots), cost.of(boots))
    console = Console()
    console.print(f"a share of at most {share:g} over {level}, with {limit.confidence:g} confidence", highlight=False)
    console.print(table)
    console.print(f"at {rate:g} samples/s ({source}), {span(cost.measured)} in each boot", highlight=False)
    if "measured" in options:
        minutes = _minutes(arguments.measured, "--measured")
        console.print(_sample_advice(limit, plan.samples, int(minutes * 60 * rate), minutes), highlight=False)


def _sample_advice(limit: ShareLimit, minimum: int, samples: int, minutes: float) -> str:
    if samples >= minimum:
        return f"{span(minutes)} are enough: {samples} samples, if none is over the level"
    return (
        f"{span(minutes)} cannot tell: at the limit they have {samples * limit.share:.2g} events over the level, and "
        f"none at all with a chance of {math.exp(-samples * limit.share):.0%}"
    )


def _rate(arguments: argparse.Namespace) -> tuple[float, str]:
    if arguments.rate is not None:
        rate = _quantity(arguments.rate, "--rate", Unit.PER_S).value
        if rate <= 0:
            raise ConfigError(f"--rate {arguments.rate}: it must be more than nothing")
        return rate, "--rate"
    if arguments.board is not None:
        board = boards.board(arguments.board)
        return (
            board.cpus / _INTERVAL_S,
            f"cyclictest every 1 ms on the {board.cpus} CPUs of {board.name}",
        )
    raise ConfigError("how many samples a second? Name the board (--board), or say it (--rate 4000/s)")


def _detect(arguments: argparse.Namespace, cost: _Cost, options: Container[str]) -> None:
    ratio = _ratio(arguments.detect)
    spread = [f"--{name}" for name in ("sd", "records", "history") if name in options]
    if len(spread) > 1:
        raise ConfigError(f"{' and '.join(spread)} say how much boots differ: leave one out")
    if spread and "history" not in options:
        _refuse(options, ["device"], "it chooses among the boots of a history")
    if "sd" in options:
        _refuse(options, ["board"], "--sd says how much boots differ")
    tests = 1 if arguments.tests is None else arguments.tests
    change = Change(ratio=ratio, power=arguments.power, tests=tests)
    virtual = _on_virtual_time(arguments)
    if virtual:
        _refuse(options, ["boot", "overhead"], "what a boot on virtual time costs is in the records")
        plan_phases.show(virtual, change, arguments.metric, counted=arguments.tests is None)
    else:
        _detect_by_pairs(arguments, change, cost)


def _detect_by_pairs(arguments: argparse.Namespace, change: Change, cost: _Cost) -> None:
    variances = _pair_variances(arguments)
    if arguments.tests is None:
        change = replace(change, tests=len(variances))
    priors = {key: prior for key, prior in variances.items() if arguments.metric in {None, key[1]}}
    if not priors:
        have = ", ".join(sorted({metric for _, metric in variances}))
        raise ConfigError(f"the records have no metric {arguments.metric!r} (they have: {have})")
    table = Table()
    table.add_column("case", overflow="fold")
    for name in ("metric", "sd", "pairs", "at most", "board", "12 find"):
        table.add_column(name, no_wrap=True)
    for (case, metric), prior in sorted(priors.items()):
        table.add_row(*_row(case, metric, prior, change, cost))
    console = Console()
    console.print(table)
    console.print(
        f"pairs that find a change of x{change.ratio:g} with a power of {change.power:g}, at {change.alpha:g} false "
        f"alarms in {change.tests} tests, all looked at once; sd: of the logarithm, from boot to boot; at most: if "
        f"that is as large as it may be with {_MOST_SURELY:.0%} confidence; 12 find: the change that 12 pairs find as "
        "surely",
        highlight=False,
    )


def _row(case: str, metric: str, prior: Prior, change: Change, cost: _Cost) -> list[str]:
    pairs = pairs_needed(change, prior)
    worst = pairs
    if prior.degrees and prior.variance > 0:
        most = distributions.variance_at_most(prior.variance, prior.degrees, _MOST_SURELY)
        worst = pairs_needed(change, Prior(most, prior.degrees))
    smallest = smallest_detectable(12, prior, change)
    return [
        case,
        metric,
        f"{math.sqrt(prior.variance / 2):.3g}",
        ">10000" if pairs is None else str(pairs),
        (">10000" if worst is None else str(worst)) if prior.degrees else "",
        "" if pairs is None else cost.of(2 * pairs),
        "" if smallest is None else f"x{smallest:.4g}",
    ]


def _pair_variances(arguments: argparse.Namespace) -> Mapping[tuple[str, str], Prior]:
    """Return the variance of a pair's difference by case and metric, from where the user says."""
    if arguments.sd is not None:
        if not 0 < arguments.sd < 10:
            raise ConfigError(f"--sd {arguments.sd:g}: a standard deviation of logarithms lies between 0 and 10")
        return {("any", arguments.metric or "any"): Prior(2 * arguments.sd**2, 0)}
    if arguments.records:
        return _from_records(arguments.records, arguments.board)
    url = history_url(arguments.history)
    if url:
        return _from_history(url, arguments.board, arguments.device)
    raise ConfigError(
        "how much do boots differ? Name records of one kernel (--records DIR), a history (--history URL), or say it "
        "(--sd 0.1)"
    )


def _from_history(url: str, board: str | None, device: str | None) -> Mapping[tuple[str, str], Prior]:
    """Return what a history lends a comparison on a board today: of each case, boots like the newest one."""
    if board is None:
        raise ConfigError("--history has boots of many boards: name one (--board NAME)")
    priors: dict[tuple[str, str], Prior] = {}
    with History.open(url) as history:
        boot_filter = BootFilter(board=board, device=device, usable=True, good_kernels=True)
        for sentence in queries.left_out(history, boot_filter):
            say(sentence)
        boots = queries.find(history, boot_filter)
        newest = {boot.case: boot for boot in boots}
        for case, like in zip(newest, queries.records(history, newest.values()), strict=True):
            priors |= {(case, metric): prior for metric, prior in borrow(history, like).priors.items()}
        if not priors:
            raise ConfigError(
                f"the history {history.name} has no pair of boots of a good kernel on {board}, on a clock"
                " (boots on virtual time are planned from --records)"
            )
    return priors


def _on_virtual_time(arguments: argparse.Namespace) -> list[Record]:
    """Return the records if they are of virtual time, else none. Raises ConfigError: they are of both kinds."""
    if not arguments.records:
        return []
    records = _load_measured(arguments.records, arguments.board)
    kinds = {record.virtual_time for record in records}
    if len(kinds) > 1:
        raise ConfigError(f"{arguments.records} holds boots on virtual time and on a clock: name a directory of either")
    return records if kinds == {True} else []


def _load_measured(directory: Path, board: str | None) -> list[Record]:
    if not directory.is_dir():
        raise ConfigError(f"--records {directory}: there is no such directory")
    return [record for record in read_verified(directory) if board in {None, record.board} and record.has_results]


def _from_records(directory: Path, board: str | None) -> Mapping[tuple[str, str], Prior]:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in _load_measured(directory, board):
        key = (record.case, record.board, record.environment.device, record.arm, record.kernel.image_sha256)
        groups.setdefault(key, []).append(record)
    pools: dict[tuple[str, str], list[Prior]] = {}
    for (case, *_), boots in groups.items():
        for metric, prior in spreads(boots).items():
            pools.setdefault((case, metric), []).append(prior)
    if not pools:
        where = "" if board is None else f" on {board}"
        raise ConfigError(f"{directory} holds no two boots of one kernel that measured a case{where}")
    return {key: _pool_priors(priors) for key, priors in pools.items()}


def _pool_priors(priors: Sequence[Prior]) -> Prior:
    degrees = sum(prior.degrees for prior in priors)
    return Prior(sum(prior.variance * prior.degrees for prior in priors) / degrees, degrees)


def _quantity(text: str, option: str, unit: Unit) -> Quantity:
    quantity = Quantity.parse(text)
    try:
        quantity.to(Unit.VIRTUAL_US if quantity.unit.virtual and unit is Unit.US else unit)
    except ValueError as error:
        raise ConfigError(f"{option} {text}: {error}") from error
    return quantity


def _minutes(text: str, option: str) -> float:
    if option == "--overhead" and text.strip() in {"0", "0s", "0 s"}:
        return 0.0
    return durations.option(option, text) / 60


def _fraction(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ConfigError(f"--share {text}: not a share (examples: 1e-6, 0.0001%)") from None


def _ratio(text: str) -> float:
    try:
        if text.startswith("x"):
            return float(text[1:])
        if text.endswith("%"):
            return 1 + float(text.removesuffix("%")) / 100
    except ValueError:
        pass
    raise ConfigError(f"--detect {text}: not a change (examples: +20%, x1.2)")
