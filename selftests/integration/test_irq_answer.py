# SPDX-License-Identifier: MIT
"""The driver that answers an instrument's pulses: a module with lines of gpio-sim, and built in with those of a PL061.

A gpio-sim sleeps, so only a threaded handler can answer by it. A PL061 does not: QEMU's `virt` wires line 3 of its own
to its power button, and each `system_powerdown` raises it (QEMU 7.2, hw/arm/virt.c and hw/gpio/gpio_key.c).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from selftests.integration.conftest import boot_plan, build_kernel, rtgate, site_of_builds

from rtgate.console import faults
from rtgate.kernel.modules import information
from rtgate.target.qemu import Monitor

pytestmark = pytest.mark.long("two kernels of its own, with GPIO: minutes without a cache")

LOADED, BUILT_IN = "virt-arm64-gpio", "virt-arm64-gpio-answer"
DESCRIPTION = """\
arch: arm64
flavour: preempt_rt
base: tinyconfig
fragments: [realtime, preempt_rt, userspace, diagnosis, tracing, virt-arm64, gpio]
"""
FRAGMENT = """\
CONFIG_GPIOLIB=y
CONFIG_GPIO_PL061=y
CONFIG_GPIO_SIM=y
CONFIG_CONFIGFS_FS=y
"""
SIM = """
file=/dev/rtgate_irq_answer
insmod /rtgate/rtgate_irq_answer.ko; echo "insmod: $?"
# try NAME TEXT: open the driver's file, write a line, give it back.
try() { (exec 4<>$file; echo "$2" >&4; echo "$1: $?"); }
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/gpio-sim && mkdir -p sim/bank && echo 8 >sim/bank/num_lines && echo board >sim/bank/label
echo 1 >sim/live
pull=/sys/devices/platform/$(cat sim/dev_name)/$(cat sim/bank/chip_name)/sim_gpio2/pull
cd /
try sleeps "hard board:2 board:3"
try chip "threaded nowhere:2 board:3"
try line "threaded board:2 board:8"
try same "threaded board:2 board:2"
try number "threaded board:2 board:x"
try context "both board:2 board:3"
try words "threaded board:2"
exec 4<>$file
echo "threaded board:2 board:3" >&4; echo "threaded: $?"
echo 1 >/sys/kernel/tracing/events/gpio/gpio_value/enable
echo "threaded board:4 board:5" >&4; echo "twice: $?"
(exec 5<>$file) || echo "opened twice: no"
for edge in 1 2 3 4 5; do
    echo pull-up >$pull; sleep 0.05; echo pull-down >$pull; sleep 0.05
done
grep rtgate_irq_answer /proc/interrupts
cat <&4
exec 4>&-
echo 0 >/sys/kernel/tracing/events/gpio/gpio_value/enable
grep -c 'gpio_value: .* set 1' /sys/kernel/tracing/trace | sed 's/^/rising: /'
grep -c 'gpio_value: .* set 0' /sys/kernel/tracing/trace | sed 's/^/falling: /'
echo pull-up >$pull
try again "threaded board:2 board:3"
rmmod rtgate_irq_answer; echo "rmmod: $?"
"""
BUTTON = """
exec 4<>/dev/rtgate_irq_answer
echo "@CONTEXT@ 9030000.pl061:3 9030000.pl061:4" >&4; echo "taken: $?"
echo "press"
sleep 4
grep rtgate_irq_answer /proc/interrupts
cat /proc/[0-9]*/comm | grep rtgate | sed 's/^/thread: /'
cat <&4
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site directory with builds that have GPIO."""
    builds = {LOADED: DESCRIPTION, BUILT_IN: f"{DESCRIPTION}built_in: [rtgate_irq_answer]\n"}
    return site_of_builds(tmp_path_factory.mktemp("site"), builds, {"gpio": FRAGMENT})


def _press(directory: Path) -> None:
    """Press the power button seven times when the plan asks for it."""
    deadline = time.monotonic() + 60
    console = directory / "console"
    while not (console.exists() and b"\npress" in console.read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    monitor = Monitor(directory / "qmp")
    for _ in range(7):
        assert monitor.ask("system_powerdown") == {}
        time.sleep(0.1)
    monitor.close()


def test_a_threaded_handler_answers_by_a_chip_that_sleeps(site: Path, tmp_path: Path) -> None:
    kernel = build_kernel(tmp_path / LOADED, LOADED, RTGATE_SITE=str(site))
    assert rtgate("--site", site, "modules", LOADED, "-o", tmp_path / "modules").returncode == 0
    module = tmp_path / "modules" / "rtgate_irq_answer.ko"
    assert information(module)["license"] == "GPL"
    log = boot_plan(kernel, tmp_path, SIM, files={f"rtgate/{module.name}": module.read_bytes()})
    said = dict(re.findall(r"^([a-z ]+): ([0-9a-z]+)$", log, re.MULTILINE))
    assert {name for name, code in said.items() if code == "0"} == {"insmod", "threaded", "again", "rmmod"}
    for reason in (
        "a line of a chip that sleeps cannot be used in hard-interrupt context: choose threaded",
        "pulse: no line nowhere:2: -19",
        "answer: no line board:8: -22",
        "answer: no line board:2: -16",
        "board:x is not a line (LABEL:LINE, as gpio3:12)",
    ):
        assert f"rtgate_irq_answer: {reason}" in log
    assert said["opened twice"] == "no"
    assert "\nanswered 5\n" in log
    assert (said["rising"], said["falling"]) == ("5", "5")
    assert not faults.scan(log)


def test_real_interrupts_are_answered_in_both_contexts(site: Path, tmp_path: Path) -> None:
    kernel = build_kernel(tmp_path / BUILT_IN, BUILT_IN, RTGATE_SITE=str(site))
    for context in ("hard", "threaded"):
        (tmp_path / context).mkdir()
        log = boot_plan(kernel, tmp_path / context, BUTTON.replace("@CONTEXT@", context), meanwhile=_press)
        assert "\ntaken: 0\n" in log
        assert "\nanswered 7\n" in log
        assert re.search(r"^ *[0-9]+: +7 .* rtgate_irq_answer$", log, re.MULTILINE)
        assert len(re.findall(r"^thread: irq/", log, re.MULTILINE)) == (context == "threaded")
        assert not faults.scan(log)
