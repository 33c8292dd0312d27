# SPDX-License-Identifier: MIT
"""Results that a driver prints into the kernel's log: which lines are of this run.

A tool writes a mark to `/dev/kmsg` before and after its run, and prints the mark on its standard output. The plan
collects the log afterwards, with all that stood in it before. A log that has lost the first mark has lost lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rtgate.errors import ParseError
from rtgate.tools import Output
from rtgate.tools.needs import Need

WRITABLE = Need(test="[ -w /dev/kmsg ]", reason="the kernel's log cannot be marked (/dev/kmsg; CONFIG_PRINTK)")

# For scripts: `begin` and `end` mark the log; the mark is different for each run of each boot.
SHELL = r"""mark="rtgate mark $$ $(cut -d ' ' -f 1 /proc/uptime)"
begin() {
    echo "mark: $mark"
    echo "$mark begin" >/dev/kmsg
    dmesg | grep -qF "$mark begin" && return
    echo "error: the kernel takes no marks in its log (printk.devkmsg=on)"
    exit 3
}
end() { echo "$mark end" >/dev/kmsg; }
marked() { dmesg | sed -n "/$mark begin/,\$p"; }
"""

_MARK = re.compile(r"^mark: (rtgate mark [0-9]{1,10} [0-9]{1,12}\.[0-9]{2})$", re.MULTILINE)
_LINE = re.compile(
    r"(?:<[0-9]{1,3}>)?(?:\[ *(?P<time>[0-9]{1,12}\.[0-9]{6})\](?:\[ *[TC][0-9]{1,10}\])? )?(?P<text>.*)"
)


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A line of the kernel's log; `seconds` since boot, None on a kernel that does not print them."""

    seconds: float | None
    text: str


def lines(tool: str, output: Output) -> tuple[KernelLine, ...]:
    """Return what the kernel printed while the tool ran.

    Raises:
        ParseError: the log was not read, or it does not hold both marks in order.
    """
    marks = _MARK.findall(output.text("tool.out"))
    if len(marks) != 1:
        raise ParseError(f"{tool} does not say once how it marked the kernel's log: {output.last_message()}")
    log = [_line(text) for text in output.text("dmesg").splitlines()]
    if not log:
        raise ParseError(f"{tool} reads its results from the kernel's log, which was not read")
    places = {
        word: [number for number, line in enumerate(log) if line.text.endswith(f"{marks[0]} {word}")]
        for word in ("begin", "end")
    }
    if len(places["begin"]) != 1:
        raise ParseError(f"the kernel's log has lost the beginning of {tool}: make it larger (log_buf_len=)")
    if len(places["end"]) != 1 or places["end"] < places["begin"]:
        raise ParseError(f"the kernel's log does not hold the end of {tool}: it did not come to its end")
    return tuple(log[places["begin"][0] + 1 : places["end"][0]])


def since_begin(output: Output) -> tuple[KernelLine, ...]:
    """Return what the kernel printed since a tool that was stopped marked its log; nothing where the mark is gone."""
    marks = _MARK.findall(output.text("tool.out"))
    log = [_line(text) for text in output.text("dmesg").splitlines()]
    begins = [number for number, line in enumerate(log) if marks and line.text.endswith(f"{marks[0]} begin")]
    return tuple(log[begins[0] + 1 :]) if begins else ()


def _line(text: str) -> KernelLine:
    match = _LINE.fullmatch(text)
    assert match is not None  # everything in it is optional
    return KernelLine(float(match["time"]) if match["time"] else None, match["text"])
