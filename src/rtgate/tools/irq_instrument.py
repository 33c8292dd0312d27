# SPDX-License-Identifier: MIT
"""How late a board answers an interrupt, timed by an instrument outside of it.

The instrument (target/instrument) raises a GPIO line of the board, once in each period. A driver of ours
(target/modules/rtgate_irq_answer.c) answers by another line, and the instrument counts the time from edge to edge. This
module, both programs and their protocol change together. The board talks with the instrument by a serial port of its
own, before and after the measurement: meanwhile both are silent.

Each line of the instrument ends with the checksum of what stands before it and a newline, by POSIX `cksum`. A result
is sent twice, and one whole copy is enough. Anything else that is damaged, missing, repeated or out of its order is
refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar

from rtgate.board.instrument import Instrument
from rtgate.errors import ConfigError, ParseError
from rtgate.files import cksum
from rtgate.tools import Expected, Output, Reports, Setting, Tool, count, time_figures, times_reported
from rtgate.tools.measurement import Better, Histogram, Measurement
from rtgate.tools.needs import Need
from rtgate.tools.rt_tests import check_end
from rtgate.tools.shell_script import fill
from rtgate.units import Unit

RAW = "instrument.out"  # what the instrument sent
DRIVER = "/dev/rtgate_irq_answer"
TICKS_PER_US = 12
BUCKETS = 4000
LEAST_PERIOD_US, MOST_PERIOD_US = 100, 5000
_DAMAGE_S = 15  # a result of 4000 buckets takes 11 s at 115 200 baud
_SILENCE_S = 1  # from `started` to the first pulse, as the firmware waits
_HANDSHAKE_S = 60  # 15 tries of 1 s and three answers of 5 s, and as much again for a board with load

_NUMBER = "[0-9]{1,20}"
_ID = f"id rtgate-instrument 1 clock=crystal ticks_per_s={TICKS_PER_US * 1_000_000} buckets={BUCKETS}"
_SELFTEST = "selftest pass .*"
_FIELDS = ("pulses", "period_us", "answers", "missed", "early", "doubled", "beyond", "min", "max", "sum")
_RESULT = re.compile("result " + " ".join(f"{name}=({_NUMBER})" for name in _FIELDS))
_BUCKET = re.compile(rf"bucket ({_NUMBER}) ({_NUMBER})")
_END = re.compile(rf"end lines=({_NUMBER}) total=({_NUMBER})")
_ANSWERED = re.compile(rf"answered ({_NUMBER})( threaded)?\n")
_CHECK = "check its power, its wires and its firmware (docs/reference/tools/irq-instrument.md)"

# 3 is the port, 4 the driver, which gives the lines back when it is closed. `fail` says what the instrument said last.
# What an earlier run left is over when the instrument says who it is; all that matters comes behind that.
_SCRIPT = r"""for file in @PORT@ @DRIVER@; do
    [ -c $file ] || { echo "$file is not a device" >&2; exit 3; }
done
# A shell that cannot redirect `exec` ends with a code of its own.
(exec 3<>@PORT@ 4<>@DRIVER@) || exit 3
exec 3<>@PORT@ 4<>@DRIVER@
stty raw -echo 115200 cs8 -parenb -cstopb clocal -hupcl -crtscts <&3 || exit 3
: >@RAW@
cat <&3 >>@RAW@ 3>&- 4>&- &
reader=$!
fail() {
    trap '' TERM INT HUP
    echo "$1: $(tail -n 1 @RAW@)" >&2
    printf '\nstop\n' >&3
    kill $reader 2>/dev/null
    exit 4
}
trap 'fail "a signal ended the tool"' TERM INT HUP
lines() { grep -ac "^$1 .*[0-9]$" @RAW@; }
clock() {
    read -r now rest </proc/uptime
    now=${now%.*}
}
# has LINE COUNT SECONDS: wait until there are so many of such lines, or the time is over.
has() {
    clock
    last=$((now + $3))
    until [ "$(lines "$1")" -ge "$2" ]; do
        clock
        if grep -aq -e '^error ' -e '^reset ' @RAW@; then refuse "$1"; fi
        [ $now -le $last ] || return 1
        sleep 0.1
    done
    sleep 0.1
}
refuse() { fail "the instrument on @PORT@ sent no line $1"; }
tries=15
until grep -aq '^id .*[0-9]$' @RAW@; do
    [ $tries -gt 0 ] || fail "the instrument on @PORT@ does not answer"
    tries=$((tries - 1))
    printf '\nstop\nid\n' >&3
    sleep 1
done
sleep 0.5
: >@RAW@
printf '\nid\n' >&3
has id 1 5 || refuse id
printf 'selftest\n' >&3
has 'selftest pass' 1 5 || refuse 'selftest pass'
echo '@LINES@' >&4 || fail "the driver refuses @LINES@, and the kernel's log says why"
printf 'start @PULSES@ @PERIOD@\n' >&3
has started 1 5 || refuse started
sleep @SECONDS@
has end 1 @PATIENCE@
ends=$(lines end)
printf 'result\n' >&3
has end $((ends + 1)) @PATIENCE@
[ "$(lines end)" -gt 0 ] || refuse end
trap - TERM INT HUP
kill $reader
cat <&4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IrqInstrumentHard(Tool):
    """The response of a handler in hard-interrupt context: `IRQF_NO_THREAD`, so PREEMPT_RT makes no thread of it.

    Attributes:
        period_us: from one pulse to the next, 100 to 5000.
    """

    period_us: int = 1000

    def __post_init__(self) -> None:
        """Check the period. Raises ConfigError."""
        if not LEAST_PERIOD_US <= self.period_us <= MOST_PERIOD_US:
            allowed = f"{LEAST_PERIOD_US} to {MOST_PERIOD_US}"
            raise ConfigError(f"period_us of {self.name} is {self.period_us} (allowed: {allowed})")

    context: ClassVar[str] = "hard"
    name: ClassVar[str] = "irq-instrument-hard"
    suites: ClassVar[tuple[str, ...]] = ("irq",)
    instrumented: ClassVar[bool] = True
    needs: ClassVar[tuple[Need, ...]] = (
        Need(
            test=f"[ -c {DRIVER} ]",
            reason="the kernel has no driver rtgate_irq_answer: build it in (`built_in:`), or load the module",
        ),
        Need(test="command -v stty >/dev/null", reason="the target has no stty, which sets the instrument's port"),
    )
    reports: ClassVar[Mapping[str, Reports]] = {
        "response": Reports.TIMES,
        **times_reported("response"),
        "pulses": Reports.COUNT,
        "interrupts": Reports.COUNT,
        "answers": Reports.COUNT,
        "answers.missed": Reports.FAILURES,
        "answers.doubled": Reports.COUNT,
    }

    def argv(self, setting: Setting) -> tuple[str, ...]:
        """Return the command line: a script that talks with the instrument, and sleeps while that measures.

        Without an instrument nothing can run, and the case is skipped.
        """
        if setting.instrument is None:
            return ("false",)
        return ("sh", "-c", self._script(setting, setting.instrument))

    def _script(self, setting: Setting, instrument: Instrument) -> str:
        values = {
            "PORT": instrument.port,
            "DRIVER": DRIVER,
            "RAW": RAW,
            "LINES": f"{self.context} {instrument.pulse} {instrument.answer}",
            "PULSES": setting.periods(self.period_us),
            "PERIOD": self.period_us,
            "SECONDS": f"{self._seconds(setting) + _SILENCE_S:.1f}",
            "PATIENCE": self._patience_s(setting),
        }
        return fill(_SCRIPT, values)

    def undo(self, setting: Setting) -> str:
        """Return the command that stops the instrument: a script that is killed cannot, and pulses would go on."""
        port = "" if setting.instrument is None else setting.instrument.port
        return f"[ ! -c {port} ] || printf '\\nstop\\n' >{port}" if port else ""

    def expected(self, setting: Setting) -> Expected:
        """Return what must be seen while it runs: no thread of the tool's, for as long as the pulses take.

        Its script ends before the deadline also if the instrument is silent, which is not to look like a kernel's hang.
        """
        seconds = self._seconds(setting)
        work_s = _HANDSHAKE_S + _SILENCE_S + seconds + 2 * self._patience_s(setting)
        return Expected(threads=(), duration_s=seconds, work_s=work_s)

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Return `response` (histogram), `response.min`, `.avg`, `.max`, and the counts, in ns: a tick is 83 ns, cut.

        Raises:
            ParseError: the instrument or the driver did not do what it was told; or what they said is missing, damaged,
                or contradicts itself.
        """
        check_end(self.name, output)
        lines = output.text(RAW).split("\n")
        pulses = output.setting.periods(self.period_us)
        _check_head(lines[:3], pulses, self.period_us)
        result = _result(lines[3:])
        _check_result(result, pulses, self.period_us)
        fields, interrupts = result.fields, _interrupts(output.text("tool.out"))
        _check_wires(fields, interrupts)
        return (
            count("pulses", pulses, Better.NEITHER),
            count("interrupts", interrupts, Better.NEITHER),
            count("answers", fields["answers"], Better.HIGHER),
            count("answers.missed", fields["missed"], Better.LOWER),
            count("answers.doubled", fields["doubled"], Better.LOWER),
            *_responses(result),
        )

    def _seconds(self, setting: Setting) -> float:
        return setting.periods(self.period_us) * self.period_us / 1e6

    def _patience_s(self, setting: Setting) -> int:
        """A crystal may be off by 100 in a million, the board's clock too: 1 % is more than both."""
        return _DAMAGE_S + math.ceil(self._seconds(setting) / 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class IrqInstrumentThreaded(IrqInstrumentHard):
    """The response of a threaded handler: a thread at SCHED_FIFO 50, which the interrupt wakes up."""

    context: ClassVar[str] = "threaded"
    name: ClassVar[str] = "irq-instrument-threaded"


def _check_head(lines: Sequence[str], pulses: int, period_us: int) -> None:
    """Check the lines before the measurement: they are three, and nothing else. Raises ParseError."""
    texts = (_ID, _SELFTEST, f"started pulses={pulses} period_us={period_us}")
    for text, line in zip_longest(texts, lines, fillvalue=""):
        if not re.fullmatch(text, _text(line)):
            raise ParseError(f"the instrument sent {line[:80]!r} in place of {text!r}: {_CHECK}")


def _text(line: str) -> str:
    """Return a line of the instrument without its checksum. Raises ParseError: they do not match."""
    if not _intact(line):
        raise ParseError(f"a line of the instrument is damaged, {line[:80]!r}: {_CHECK}")
    return line.rpartition(" ")[0]


def _intact(line: str) -> bool:
    text, _, checksum = line.rpartition(" ")
    return checksum == str(cksum(f"{text}\n".encode()))


@dataclass(frozen=True, slots=True)
class _Result:
    """What an instrument counted, in ticks.

    Attributes:
        fields: by name, as in its line `result`.
        counts: answers by ticks.
    """

    fields: Mapping[str, int]
    counts: Mapping[int, int]


def _result(lines: Sequence[str]) -> _Result:
    """Return the result that the lines behind the head hold, once at least. Raises ParseError."""
    for line in lines:
        if _intact(line) and not line.startswith(("result ", "bucket ", "end ")):
            raise ParseError(f"the instrument began anew, or did not measure to its end, {line[:80]!r}: {_CHECK}")
    problem, results = f"the instrument sent no whole result: {_CHECK}", []
    for start in (number for number, line in enumerate(lines) if line.startswith("result ")):
        ends = (number for number in range(start, len(lines)) if lines[number].startswith("end "))
        try:
            results.append(_read_result(lines[start : next(ends, start) + 1]))
        except ParseError as error:
            problem = str(error)
    if not results:
        raise ParseError(problem)
    if any(result != results[0] for result in results):
        raise ParseError(f"the instrument sent two results that differ: {_CHECK}")
    return results[0]


def _read_result(lines: Sequence[str]) -> _Result:
    texts = [_text(line) for line in lines]
    head, end = _RESULT.fullmatch(texts[0]), _END.fullmatch(texts[-1])
    buckets = [_BUCKET.fullmatch(text) for text in texts[1:-1]]
    whole = (str(len(lines) - 1), str(cksum("".join(f"{line}\n" for line in lines[:-1]).encode())))
    if head is None or end is None or end.groups() != whole or None in buckets:
        raise ParseError(f"lines of the instrument's result are missing or repeated: {_CHECK}")
    pairs = [(int(bucket[1]), int(bucket[2])) for bucket in buckets if bucket]
    return _Result(dict(zip(_FIELDS, map(int, head.groups()), strict=True)), dict(pairs))


def _check_result(result: _Result, pulses: int, period_us: int) -> None:
    """Check that a result is of what was asked for, and agrees with itself. Raises ParseError."""
    fields, counts = result.fields, result.counts
    answers, beyond, low, high = (fields[name] for name in ("answers", "beyond", "min", "max"))
    inside = sum(ticks * number for ticks, number in counts.items())
    outside = fields["sum"] - inside
    agreements = (
        (fields["pulses"], fields["period_us"]) == (pulses, period_us),
        answers + fields["missed"] + fields["early"] == pulses,
        sum(counts.values()) + beyond == answers,
        all(number > 0 and ticks < BUCKETS for ticks, number in counts.items()),
        list(counts) == sorted(counts),
        low == min(counts, default=0) or (not counts and low >= BUCKETS),
        high >= BUCKETS if beyond else high == max(counts, default=0),
        beyond * BUCKETS <= outside <= beyond * high,
        low <= high < period_us * TICKS_PER_US,
    )
    if not all(agreements):
        raise ParseError(f"the instrument's result contradicts itself or the command, {dict(fields)}: {_CHECK}")


def _interrupts(text: str) -> int:
    """Return how many edges the driver answered. Raises ParseError: it did not say, or they were in a thread."""
    match = _ANSWERED.fullmatch(text)
    if match is None:
        raise ParseError(f"the driver rtgate_irq_answer did not say how many edges it answered: {text[:80]!r}")
    if match[2]:
        raise ParseError(
            "the handler did not run in hard-interrupt context, since the GPIO chip's own interrupt has a thread: wire "
            "the pulse to another chip, or measure the threaded handler only"
        )
    return int(match[1])


def _check_wires(fields: Mapping[str, int], interrupts: int) -> None:
    """Check that pulses, interrupts and answers belong together. Raises ParseError: a wire is not what it should be."""
    pulses, answers, early = fields["pulses"], fields["answers"], fields["early"]
    if early:
        raise ParseError(
            f"an answer came within 1 us of a pulse, {early} times: no kernel answers so soon, so check both wires for "
            "crosstalk, loose contacts and noise"
        )
    if not interrupts:
        raise ParseError(
            "no pulse reached the kernel: check the pulse's wire, and `instrument: pulse` of the board; if another "
            "kernel answered by the same wires, GPIO interrupts may not work with this one"
        )
    if interrupts > pulses:
        raise ParseError(f"the kernel saw {interrupts} edges of {pulses} pulses: the pulse's wire is noisy, check it")
    if not answers:
        raise ParseError(
            f"the kernel answered {interrupts} times, and the instrument saw nothing of it: check the answer's wire, "
            "and `instrument: answer` of the board"
        )
    if answers + fields["doubled"] > interrupts:
        raise ParseError(
            f"the instrument saw {answers + fields['doubled']} answers or more, the kernel gave {interrupts}: the "
            "answer's wire is noisy, check it"
        )
    # Each run of the handler gives an edge. A late kernel hides some: two behind the last period, and in a period with
    # several answers two beyond those that are counted. All others must be seen.
    if interrupts - answers - fields["doubled"] > 2 * (1 + fields["doubled"]):
        raise ParseError(
            f"the kernel answered {interrupts} times, the instrument saw {answers + fields['doubled']}: the answer's "
            "wire loses answers, check its contacts and levels"
        )


def _responses(result: _Result) -> tuple[Measurement, ...]:
    fields = result.fields
    histogram = Histogram(
        unit=Unit.NS,
        counts={_ns(ticks): number for ticks, number in result.counts.items()},
        overflow=fields["beyond"],
        limit=_ns(BUCKETS),
    )
    mean = fields["sum"] / fields["answers"] * 1000 / TICKS_PER_US
    return (
        Measurement(name="response", better=Better.LOWER, histogram=histogram),
        *time_figures("response", (_ns(fields["min"]), mean, _ns(fields["max"])), Unit.NS),
    )


def _ns(ticks: int) -> int:
    """Return the beginning of a tick in nanoseconds, cut to a whole one."""
    return ticks * 1000 // TICKS_PER_US
