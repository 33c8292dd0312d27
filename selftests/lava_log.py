# SPDX-License-Identifier: MIT
"""Logs of LAVA jobs, put together line by line as a dispatcher of 2023.01 writes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

_CLOCK = itertools.count()


def pass_time(seconds: int) -> str:
    """Let the dispatcher's clock go on; a part of a log that has no line."""
    for _ in range(seconds):
        next(_CLOCK)
    return ""


def line(level: str, message: str | dict[str, Any], namespace: str = "") -> str:
    tick = next(_CLOCK)
    data: dict[str, Any] = {"dt": f"2026-11-21T{12 + tick // 3600 % 12}:{tick // 60 % 60:02}:{tick % 60:02}.{tick:06}"}
    data |= {"lvl": level, "msg": message, **({"ns": namespace} if namespace else {})}
    return f"- {json.dumps(data)}\n"


def start(number: int, action: str) -> str:
    return line("info", f"start: {number} {action} (timeout 00:05:00) [common]")


def end(number: int, action: str) -> str:
    return line("info", f"end: {number} {action} (duration 00:00:05) [common]")


def target(*texts: str) -> str:
    return "".join(line("target", text) for text in texts)


def feedback(*texts: str) -> str:
    return "".join(line("feedback", text, "common") for text in texts)


def result(case: str, outcome: str, **more: Any) -> str:
    return line("results", {"definition": "lava", "case": case, "result": outcome, **more})


def deploy(number: int) -> str:
    return start(number, "tftp-deploy") + end(number, "tftp-deploy") + result("tftp-deploy", "pass")


def boot(number: int, *texts: str) -> str:
    """A boot up to what the board says."""
    return start(number, "uboot-action") + target("U-Boot 2023.01", "=> booti", *texts)


KERNEL = ("Starting kernel ...", "[    0.000000] Linux version 6.12.0 (rtgate) #1 SMP PREEMPT_RT")


def boot_lines(number: int) -> str:
    over = end(number, "uboot-action") + result("auto-login-action", "pass")
    return boot(number, *KERNEL, "root@board:~# ") + over


def shell(number: int, lines: Iterable[str] = (), action: str = "lava-docker-test-shell-retry") -> str:
    step = "+ sh ./go.sh" if action in {ON_BOARD, TOGETHER} else "+ rtgate in-job"
    return start(number, action) + target(step, *lines) + end(number, action)


ON_BOARD = "lava-test-retry"  # the action of a test whose shell is the board's own
TOGETHER = "multinode-test"  # the same in a job of several boards


def end_lines(kind: str = "", message: str = "") -> str:
    """The end of a job: well, or with LAVA's error type and message."""
    more = {"error_type": kind, "error_msg": message} if kind else {}
    finalize = start(99, "finalize") + result("power-off", "pass")
    return finalize + result("job", "fail" if kind else "pass", **more)
