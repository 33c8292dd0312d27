# SPDX-License-Identifier: MIT
"""dmatest of Rockchip's kernels: DMA throughput between an endpoint and its root complex, and whether DMA failed.

Facts of pcie-dw-dmatest.c in Rockchip's trees (4.19 to 6.1) that this module depends on:

* Parameters are files; writing `run` to the file `dmatest` runs the test with interruptible waits, reading that file
  prints memory of the handler. With channels 1 or 2 the write returns after the test; with 3 it returns at once, and
  two kernel threads print a line each. Channel 2 alone works at the same addresses, with 3 at both plus `size`.
* Nobody compares data. `is_rc` exists in the middle versions, `is_wired` in the newest, neither in the oldest.
* The endpoint's driver registers it with interrupts on, pcie-rkep with interrupts off, that is polled. The guide's
  figures are polled ones (a patch of one line), and small transfers differ: so rates with interrupts have other names.

Beside another tool the script goes on until the plan has written `uptime.end`, and ends its round. A signal must not
tell it so: one that is not ignored ends the wait for a transfer, and the driver says that it was interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rtgate.board import pcie_limits
from rtgate.errors import ConfigError, ParseError
from rtgate.tools import Count, Expected, Output, Reports, Setting, Tool, count, kernel_log, rate
from rtgate.tools.dmatest_log import (
    DIRECTIONS,
    FAILED,
    FAILURE,
    LINES,
    MISUSED,
    SIZES,
    WRITE,
    Run,
    by_start,
    cycles,
    results,
    size_name,
)
from rtgate.tools.measurement import Better, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.pcie_bar import DEVICE
from rtgate.tools.rt_tests import check_end
from rtgate.tools.shell_script import fill
from rtgate.units import Quantity, Unit

_BY_INTERRUPT = "interrupt."
_BEFORE_ROUNDS = 2  # runs that are always made, to begin with; those that compare need the memory
_KILLED = 128 + 9  # exit code
_RUN = re.compile(r"^run ([0-9]{1,10}) ([0-9]{1,10}) ([12]) ([123])$", re.MULTILINE)
# Lines of /proc/interrupts: a number for each CPU.
_INTERRUPTS = re.compile(r"^ *[0-9]{1,6}:((?: +[0-9]{1,15})+) .*$", re.MULTILINE)
_COMPARED = re.compile(r"^compared (?:([0-9]{1,12}) bytes, ([0-9]{1,12}) differ|no: .{1,200})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dmatest(Tool):
    """Options of dmatest.

    Attributes:
        channel: `chn_en`; 3 is both, each moving as much.
        compared_bytes: how much is compared, where the reserved memory can be read.
    """

    channel: int = 1
    compared_bytes: int = 64 << 10

    module: ClassVar[str] = "pcie_dw_dmatest"
    name: ClassVar[str] = "dmatest"
    suites: ClassVar[tuple[str, ...]] = ("pcie",)
    companion: ClassVar[bool] = True
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test="[ -e /sys/module/pcie_dw_dmatest/parameters/dmatest ]",
            reason="the kernel has no dmatest (Rockchip's CONFIG_PCIE_DW_DMATEST, on the side that has the DMA)",
        ),
        kernel_log.WRITABLE,
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        **{
            f"{completion}{direction}.{size_name(size)}.{what}": reports
            for completion in ("", _BY_INTERRUPT)
            for direction in DIRECTIONS.values()
            for size in SIZES
            for what, reports in (("rate", Reports.RATE), ("share", Reports.RATIO))
        },
        "runs": Reports.COUNT,
        "bytes.compared": Reports.COUNT,
        "failures": Reports.FAILURES,
    }

    def __post_init__(self) -> None:
        """Check the channel. Raises ConfigError."""
        if self.channel not in LINES:
            raise ConfigError(f"channel of {self.name} is {self.channel} (allowed: 1, 2, or 3 for both)")

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line."""
        seconds = {"SECONDS": round(setting.duration_s)}
        values = {
            "MODULE": self.module,
            "CHANNEL": self.channel,
            **{name: fill(text, seconds) for name, text in (_BESIDE if setting.beside else _ALONE).items()},
            "COMPARED": self.compared_bytes,
            "LARGEST": 2 * max(*SIZES, self.compared_bytes),
            "RUNS": "; ".join(f"run {size} {cycles(size)} {direction}" for direction in DIRECTIONS for size in SIZES),
            "MARKS": kernel_log.SHELL,
            "FAILURE": FAILURE,
        }
        return ("sh", "-c", fill(_SCRIPT, values))

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: the driver's threads have no real-time priority.

        Beside another tool at least one round, whose runs, and those that compare, are counted.
        """
        runs = Count(measurement="runs", least=len(DIRECTIONS) * len(SIZES) + _BEFORE_ROUNDS)
        return Expected(threads=(), duration_s=round(setting.duration_s), counts=(runs,) if setting.beside else ())

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return rates by direction and size, and `failures`; with a failure no rate, for none is to be had.

        Where transfers never ended, and the other tool did, only `failures`.

        Raises:
            ParseError: it was not set up, did not end, or log and commands contradict each other.
        """
        other_ended = output.setting.beside and not output.text("tool.deadline").strip()
        output = _as_tool(output) if output.setting.beside else output
        text = output.text("tool.out")
        if "error: " in text:
            raise ParseError(f"dmatest: {text[text.rindex('error: ') + 7 :].splitlines()[0][:300]}")
        endless = _endless_transfers(output)
        if endless and other_ended:
            # No plan waited in vain, so nothing else says that this is the kernel's failure.
            return (count("failures", len(endless), Better.LOWER),)
        _refuse_stopped(output, endless)
        check_end("dmatest", output, codes=(0, 4))
        log = kernel_log.lines("dmatest", output)
        misuses = [line.text for line in log if MISUSED.search(line.text)]
        if misuses:
            raise ParseError(f"dmatest was not set up on the target: {misuses[0][:200]}")
        total, different = _comparison(text)
        failures = [line.text for line in log if FAILED.search(line.text)]
        if not failures and output.exit_code == 4:
            raise ParseError("dmatest gave up after a failure that the kernel's log does not hold")
        counts = (
            count("failures", len(failures) + different, Better.LOWER),
            count("bytes.compared", total, Better.HIGHER),
        )
        if failures or different:
            return counts
        runs = results(log)
        starts = [tuple(map(int, words)) for words in _RUN.findall(text)]
        groups = by_start(runs, starts)
        completion = _BY_INTERRUPT if _by_interrupt(text, runs) else ""
        rates = {
            f"{completion}{DIRECTIONS[direction]}.{size_name(size)}": _rate(groups, size, write=direction == WRITE)
            for direction in DIRECTIONS
            for size in SIZES
        }
        measurements = [rate(f"{name}.rate", value, output.megabytes_per_second) for name, value in rates.items()]
        return (
            *measurements,
            *_shares(measurements, output.setting),
            count("runs", len(starts), Better.HIGHER),
            *counts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DmatestRkep(Dmatest):
    """The same from the root complex, whose driver pcie-rkep has the source included and works the endpoint's DMA."""

    module: ClassVar[str] = "pcie_rkep"
    name: ClassVar[str] = "dmatest-rkep"
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test="[ -e /sys/module/pcie_rkep/parameters/dmatest ]",
            reason="the kernel's pcie-rkep has no dmatest (Rockchip's CONFIG_PCIE_FUNC_RKEP=m with PCIE_DW_DMATEST)",
        ),
        kernel_log.WRITABLE,
    )


def _rate(groups: Sequence[Sequence[Run]], size: int, *, write: bool) -> float:
    """Return bytes in a second over all runs of a size and direction; channels that run at once take time once."""
    mine = [runs for runs in groups if (runs[0].size, runs[0].loops, runs[0].write) == (size, cycles(size), write)]
    if not mine:
        raise ParseError(f"dmatest has no result for {size_name(size)}, {'write' if write else 'read'}")
    byte_count = sum(run.total_bytes for runs in mine for run in runs)
    return byte_count / sum(max(run.us for run in runs) for runs in mine) * 1e6


def _by_interrupt(text: str, runs: Sequence[Run]) -> bool:
    """Return whether transfers ended with an interrupt each: as many came on lines of PCIe as half of them, or more.

    Raises:
        ParseError: the interrupts were not looked at before and after.
    """
    looks = [sum(map(int, counts.split())) for counts in _INTERRUPTS.findall(text)]
    if len(looks) % 2 or text.count("\ninterrupts ") != 2:
        raise ParseError("dmatest does not say how many interrupts came")
    half = len(looks) // 2
    transfers = sum(run.loops * (run.write + run.read) for run in runs)
    return 2 * (sum(looks[half:]) - sum(looks[:half])) >= transfers


def _as_tool(output: Output) -> Output:
    """Return the output of a load as that of a tool; that the plan had to stop the other one is for that to tell."""
    files = {"tool.out": output.files.get("load.out", b""), "dmesg": output.files.get("dmesg", b"")}
    # A load that does not end within the plan's patience is killed.
    deadline = {"tool.deadline": b"when the other tool had ended"} if output.exit_code == _KILLED else {}
    return replace(output, files={**files, **deadline})


def _endless_transfers(output: Output) -> list[str]:
    """Return what the kernel said of transfers that failed in a run that had to be stopped."""
    if not output.text("tool.deadline").strip():
        return []
    return [line.text for line in kernel_log.since_begin(output) if FAILED.search(line.text)]


def _refuse_stopped(output: Output, failures: Sequence[str]) -> None:
    """Refuse a run that the plan had to stop, with what the kernel said of it. Raises ParseError."""
    if failures:
        deadline = output.text("tool.deadline").strip()
        raise ParseError(f"dmatest was stopped {deadline}: transfers never end; the kernel says: {failures[0][:200]}")


def _shares(rates: Sequence[Measurement], setting: Setting) -> tuple[Measurement, ...]:
    """Return rates as shares of what the endpoint's link can carry, where the board's file says how it is trained.

    Raises:
        ParseError: a rate is more than that: the measurement is wrong.
    """
    link = pcie_limits.link_of(setting.pcie.get(DEVICE))
    if link is None or setting.virtual_time:
        return ()
    return tuple(
        Measurement(
            name=measurement.name.removesuffix("rate") + "share",
            better=Better.HIGHER,
            quantity=Quantity(pcie_limits.share(measurement.quantity, link), Unit.RATIO),
        )
        for measurement in rates
        if measurement.quantity is not None
    )


def _comparison(text: str) -> tuple[int, int]:
    """Return bytes compared and bytes that differ; nothing where the memory could not be read."""
    matches = _COMPARED.findall(text)
    if len(matches) != 1:
        raise ParseError("dmatest does not say whether data were compared")
    [(total, different)] = matches
    return int(total or 0), int(different or 0)


# Exit codes: 3 with a line `error:`, the test could not be run; 4, a transfer failed and the rest was left out.
# Data are compared in a loop over both directions, because only this side's memory is at hand: the pattern goes out,
# the memory is overwritten, and the pattern must come back.
_SCRIPT = r"""@SIGNALS@
@MARKS@
p=/sys/module/@MODULE@/parameters
fail() {
    [ -z "$old_chn_en" ] || put_back
    echo "error: $*"
    exit 3
}
put() {
    echo "$2" >$p/$1 || fail "cannot write $2 to $p/$1"
    read -r got <$p/$1
    [ "$got" = "$2" ] || fail "$p/$1 is $got after $2 was written"
}
# reserved ADDRESS BYTES: whether nothing but this test uses that memory
reserved() {
    while IFS=' -:' read -r first last name; do
        case $name in *[Rr]eserved*) ;; *) continue ;; esac
        [ $((0x$first)) -le "$1" ] && [ $((0x$last)) -ge $(($1 + $2 - 1)) ] && return 0
    done </proc/iomem
    return 1
}
failed() { marked | grep -Eq '@FAILURE@'; }
results() { marked | grep -c 'pcie dma .* test ('; }
one() {
    put size "$1"
    put cycles_count "$2"
    put rw_test "$3"
    put chn_en "$4"
    before=$(results) waited=0
    echo "run $1 $2 $3 $4"
    echo run >$p/dmatest || fail "$p/dmatest refuses to run: $(dmesg | tail -n 1)"
    # Both channels at once: the write has returned already.
    while [ "$4" = 3 ] && [ $(($(results) - before)) -lt 2 ] && [ $waited -lt 300 ]; do
        sleep 0.1
        waited=$((waited + 1))
    done
    ! failed || give_up
}
run() { one "$1" "$2" "$3" @CHANNEL@; }
give_up() {
    [ -n "$compared" ] || echo "compared no: a transfer failed before"
    put_back
    end
    exit 4
}
put_back() {
    for name in size cycles_count rw_test chn_en; do eval "echo \$old_$name" >$p/$name; done
}
compare() {
    compared=asked
    page=$((local_addr / 4096)) pages=$((@COMPARED@ / 4096))
    dd if=/dev/urandom of=pattern bs=4096 count=$pages 2>/dev/null
    if ! dd if=pattern of=/dev/mem bs=4096 seek=$page conv=notrunc 2>dd.err; then
        echo "compared no: /dev/mem cannot be written at $local_addr: $(tail -n 1 dd.err)"
        return
    fi
    one @COMPARED@ 1 2 1
    # The memory must not hold the pattern any more, or reading nothing would look like reading it back.
    dd if=/dev/zero of=/dev/mem bs=4096 seek=$page count=$pages conv=notrunc 2>/dev/null
    one @COMPARED@ 1 1 1
    if ! dd if=/dev/mem of=back bs=4096 skip=$page count=$pages 2>dd.err; then
        echo "compared no: /dev/mem cannot be read at $local_addr: $(tail -n 1 dd.err)"
        return
    fi
    echo "compared @COMPARED@ bytes, $(cmp -l pattern back 2>&1 | grep -c .) differ"
    rm -f pattern back
}
compared= old_chn_en=
for name in size cycles_count rw_test chn_en local_addr; do
    [ -e $p/$name ] || fail "$p/$name is not there: a dmatest that rtgate does not know"
done
for name in is_rc is_wired test_dev bus_addr local_addr; do
    [ ! -e $p/$name ] || { read -r value <$p/$name && echo "parameter $name $value"; }
done
for name in size cycles_count rw_test chn_en; do read -r value <$p/$name && eval "old_$name=\$value"; done
read -r local_addr <$p/local_addr
reserved $((local_addr)) @LARGEST@ || fail "the memory at $local_addr is not reserved (/proc/iomem): DMA would break \
the kernel; give the device tree a reserved-memory node on both sides"
interrupts() { echo "interrupts $1"; grep -i pcie /proc/interrupts; }
begin
interrupts before
one 64 1 2 1
one 64 1 1 1
compare
now() { cut -d . -f 1 /proc/uptime; }
started=$(now) rounds=0
while [ $rounds = 0 ] || { @MORE@; }; do
    @RUNS@
    rounds=$((rounds + 1))
done
interrupts after
put_back
end
@REST@
"""
_ALONE = {
    "SIGNALS": "",
    "MORE": "[ $rounds -lt 20 ] && [ $(($(now) - started)) -lt @SECONDS@ ]",
    "REST": "while [ $(($(now) - started)) -lt @SECONDS@ ]; do sleep 0.2; done",
}
_BESIDE = {"SIGNALS": "trap '' TERM", "MORE": "[ ! -e uptime.end ]", "REST": ""}
