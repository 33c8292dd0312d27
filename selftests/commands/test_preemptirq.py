# SPDX-License-Identifier: MIT
"""preemptirq's script in the shells of targets, on a directory that looks like tracefs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from selftests.unit.tools.test_preemptirq import HANDLE, MODULE, NAMES, SETTING, SITES, TOOL, histogram

from rtgate.tools import Output
from rtgate.tools.preemptirq import KINDS

SHELLS = {"sh": ["sh"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"], "mksh": ["mksh"]}
STEXT = 0xFFFFFFC080010000
EVENTS = ("irq_disable", "irq_enable", "preempt_disable", "preempt_enable")


@pytest.fixture
def tracing(tmp_path: Path) -> Path:
    """Return a directory with the files that the script reads and writes."""
    directory = tmp_path / "tracing"
    for event in EVENTS:
        (directory / "events" / "preemptirq" / event).mkdir(parents=True)
        (directory / "events" / "preemptirq" / event / "trigger").write_text("# Available triggers:\n")
    for kind in KINDS:
        (directory / "events" / "synthetic" / f"rtgate_{kind}").mkdir(parents=True)
        (directory / "events" / "synthetic" / f"rtgate_{kind}" / "hist").write_text(histogram(SITES[kind]))
    (directory / "events" / "power" / "cpu_idle").mkdir(parents=True)
    (directory / "trace_clock").write_text("local [global] counter\n")
    (directory / "synthetic_events").write_text("")
    symbols = sorted((STEXT + offset, name) for offset, name in NAMES.items())
    lines = [f"{address:016x} t {name}" + ("\t[module]" if name == NAMES[MODULE] else "") for address, name in symbols]
    lines += [f"{STEXT:016x} T _stext", f"{STEXT + HANDLE + 4:016x} d not_code"]
    (tmp_path / "kallsyms").write_text("\n".join(lines) + "\n")
    return directory


@pytest.mark.parametrize("shell", SHELLS)
def test_places_get_the_names_of_functions_and_nothing_stays_behind(shell: str, tracing: Path) -> None:
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not installed")
    script = TOOL.argv(SETTING)[2]
    for before, after in (
        ("/sys/kernel/tracing", str(tracing)),
        ("/proc/kallsyms", str(tracing.parent / "kallsyms")),
        ("/tmp/rtgate-sections", str(tracing.parent / "sections")),
        ("sleep 10 &", "cp -r . ../meanwhile &"),
    ):
        assert before in script
        script = script.replace(before, after)
    done = subprocess.run([*SHELLS[shell], "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = TOOL.parse(Output(files={"tool.out": done.stdout.encode()}, exit_code=0, setting=SETTING))
    sites = {one.labels["site"] for one in found if one.labels}
    assert sites >= {"handle_softirqs", "module_function to cpu_do_idle"}
    assert "try_to_wake_up (_raw_spin_lock_irqsave) to schedule (_raw_spin_unlock_irqrestore)" in sites

    meanwhile = tracing.parent / "meanwhile"
    assert (meanwhile / "synthetic_events").read_text().count(" u64 length;") == len(KINDS)
    idle = (meanwhile / "events" / "power" / "cpu_idle" / "trigger").read_text()
    for event in EVENTS:
        kind = event.partition("_")[0]
        armed = (meanwhile / "events" / "preemptirq" / event / "trigger").read_text()
        assert armed.startswith(f"hist:keys=common_cpu:{kind}_")
        assert "=4294967296*caller_offs+parent_offs" in armed
        assert f"{kind}_idle=common_timestamp-${kind}_since:" in idle
        # Opening the file for writing takes the triggers back.
        assert (tracing / "events" / "preemptirq" / event / "trigger").read_text() == ""
    assert idle.count("\n") == len(KINDS)
    assert (tracing / "events" / "power" / "cpu_idle" / "trigger").read_text() == ""
    assert (tracing / "trace_clock").read_text() == "global\n"
    assert (tracing / "synthetic_events").read_text().count("!rtgate_") == 2 * len(KINDS)
    assert not (tracing.parent / "sections").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_run_that_is_ended_takes_its_triggers_back(shell: str, tracing: Path) -> None:
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not installed")
    script = TOOL.argv(SETTING)[2].replace("/sys/kernel/tracing", str(tracing))
    script = script.replace("sleep 10 &", "sleep 60 & echo on")
    with subprocess.Popen(
        [*SHELLS[shell], "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "on\n"
        time.sleep(0.3)  # until it waits
        assert (tracing / "events" / "preemptirq" / "irq_enable" / "trigger").read_text()
        os.killpg(child.pid, signal.SIGTERM)
        child.wait(timeout=20)
    assert (tracing / "events" / "preemptirq" / "irq_enable" / "trigger").read_text() == ""
