# SPDX-License-Identifier: MIT
"""What commands ask of `workflow`, made from options that several of them have."""

from __future__ import annotations

import argparse

from rtgate import durations
from rtgate.history.url import history_url
from rtgate.kernel.build_limits import BuildLimits
from rtgate.kernel.toolchain import Toolchain
from rtgate.kernel.work import Listener, Options
from rtgate.measure.profiles import DEFAULT
from rtgate.workflow.judging import Criteria
from rtgate.workflow.suite_process import SuiteOptions


def criteria(arguments: argparse.Namespace) -> Criteria:
    """Return what the options of `judging` say."""
    return Criteria(
        thresholds=arguments.thresholds,
        history=history_url(arguments.history),
        allow_unjudged=arguments.allow_unjudged,
    )


def build_options(arguments: argparse.Namespace, listener: Listener) -> Options:
    """Return what the options of `building` say. Raises ConfigError."""
    return Options(
        jobs=arguments.jobs,
        patches=arguments.patches,
        toolchain=Toolchain(arguments.toolchain),
        limits=BuildLimits(time_s=durations.option("--build-time", arguments.build_time)),
        listener=listener,
    )


def suite_options(arguments: argparse.Namespace, *, two: bool) -> SuiteOptions:
    """Return what the options of `board`, `measuring` and `select` say, for one kernel or two."""
    return SuiteOptions(
        board=arguments.board,
        profile=arguments.profile or ("compare" if two else DEFAULT),
        tuning=arguments.tuning,
        console=arguments.console or "",
        flavour=arguments.flavour or "",
        power_cycle=arguments.power_cycle or "",
        seeds=arguments.seeds or "",
        boots=arguments.boots or "",
        select=arguments.select or "",
        boot_cache=not arguments.no_boot_cache,
    )
