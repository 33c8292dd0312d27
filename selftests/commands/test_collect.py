# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
import shlex
import time
from pathlib import Path

import pytest
from selftests.commands.conftest import DATA, ECHOING, NONCE, opened, soon
from selftests.faults import lines
from selftests.faults.lines import Line
from selftests.frames import encode

from rtgate.console import collect
from rtgate.console.shell import Shell, Waits
from rtgate.console.transport import ProgramTransport
from rtgate.errors import HangError, ParseError

LONG = 300  # the deadline of a plan is minutes


def test_frames_arrive_on_any_line(any_shell: Shell, frames: str) -> None:
    any_shell.find(soon())
    any_shell.start_plain_shell(soon())
    reader = collect.frames(any_shell, frames, NONCE, 20)
    assert reader.payload() == DATA


@pytest.mark.parametrize("fault", ["drop", "flip", "cut"])
def test_frames_that_are_damaged_are_asked_for_again(frames: str, fault: str) -> None:
    """Damage every line with the nonce with a chance of one in three, the closing one among them."""
    source = random.Random(fault)

    def damage(line: bytes) -> bytes:
        if NONCE.encode() not in line or source.random() > 1 / 3:
            return line
        place = source.randrange(len(line) - 2)
        if fault == "cut":
            return line[:place]
        return line[:place] + (bytes([line[place] ^ 4]) if fault == "flip" else b"") + line[place + 1 :]

    with opened(Line(ProgramTransport(["sh"]), lines.by_line(damage))) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        reader = collect.frames(shell, frames, NONCE, 20)
    assert reader.payload() == DATA
    assert shell.again > 0


@pytest.mark.parametrize(
    "words", [("MRK",), ("MRK", f"{NONCE} end"), (f"{NONCE} end",)], ids=["end mark", "both", "closing frame"]
)
def test_an_end_that_arrives_damaged_does_not_cost_the_deadline(frames: str, words: tuple[str, ...]) -> None:
    last = False
    left = list(words)

    def damage(line: bytes) -> bytes:
        nonlocal last
        last = last or f"{NONCE} end".encode() in line
        for word in list(left):
            if last and word.encode() in line:
                left.remove(word)
                return b"#" + line.replace(word.encode(), b"")
        return line

    with opened(Line(ProgramTransport(["sh"]), lines.by_line(damage))) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        began = time.monotonic()
        reader = collect.frames(shell, frames, NONCE, LONG)
    assert reader.payload() == DATA
    assert left == []
    assert time.monotonic() - began < 10


@pytest.mark.long("waits for seconds; damaged ends are in make test")
def test_a_shell_that_waits_for_the_end_of_a_damaged_question_is_no_hang(frames: str) -> None:
    """The question after the frames arrives with an open quote, and every further one is only more of its text."""
    missed: list[bytes] = []
    opened_quotes: list[bytes] = []

    def miss(line: bytes) -> bytes:
        if f"{NONCE} 2 ".encode() not in line or missed:
            return line
        missed.append(line)
        return b""

    def open_a_quote(data: bytes) -> bytes:
        if frames.encode() not in data or opened_quotes:
            return data
        opened_quotes.append(data)
        return data.replace(b":$r", b":'r", 1)

    waits = Waits(answer=0.2, quiet=0.3, hang=2)
    with opened(Line(ProgramTransport(["sh"]), lines.by_line(miss), open_a_quote), waits) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        reader = collect.frames(shell, frames, NONCE, 3)
    assert reader.payload() == DATA
    assert missed
    assert opened_quotes


def test_a_shell_that_is_back_does_not_cost_the_deadline() -> None:
    """The plain shell dies with its plan, as in a boot that prints nothing but a prompt."""
    with opened(ProgramTransport(["sh", "-c", ECHOING])) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        shell.prompt = b"target# "
        began = time.monotonic()
        reader = collect.frames(shell, '[ -z "$rtgate" ] || kill -KILL $$; :', NONCE, LONG)
    assert not reader.has_closing_line
    assert time.monotonic() - began < 30


def test_nothing_is_typed_while_a_plan_measures(frames: str) -> None:
    typed: list[tuple[float, bytes]] = []

    def spy(data: bytes) -> bytes:
        typed.append((time.monotonic(), data))
        return data

    with opened(Line(ProgramTransport(["sh"]), outward=spy), Waits(answer=0.05, quiet=0.05)) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        began = time.monotonic()
        kernel = "echo '[    9.000000] usb 1-1: new device'"
        plan = f"plan() {{ sleep 0.5; {kernel}; sleep 0.5; echo done; sleep 0.3; {frames} $*; }}; plan"
        reader = collect.frames(shell, plan, NONCE, LONG, over=lambda text: "done" in text)
        ended = time.monotonic()
    assert reader.payload() == DATA
    moments = [moment - began for moment, _ in typed if began < moment < ended]
    assert [moment for moment in moments if 0.2 < moment < 1.0] == []
    assert [moment for moment in moments if 1.0 < moment] != []


def test_a_plan_that_does_not_arrive_is_started_again(frames: str) -> None:
    left = 2

    def lose(data: bytes) -> bytes:
        nonlocal left
        if b"print" in data and left:
            left -= 1
            return data.replace(b"'c", b"c").replace(b"print", b"pr`nt") if left else b""
        return data

    with opened(Line(ProgramTransport(["sh", "-c", ECHOING]), outward=lose), Waits(answer=0.3, hang=1)) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        reader = collect.frames(shell, frames, NONCE, LONG)
    assert reader.payload() == DATA


def test_a_plan_that_noise_has_ended_is_started_again(frames: str, tmp_path: Path) -> None:
    once = f"[ -e {tmp_path}/once ] || {{ : >{tmp_path}/once; (exit 130); }} && {frames}"
    with opened(ProgramTransport(["sh"])) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        (tmp_path / "plan").write_text(f"{once} $*\n")
        reader = collect.frames(shell, f"sh {tmp_path}/plan", NONCE, LONG)
    assert reader.payload() == DATA


def test_two_sets_of_frames_are_not_mixed(tmp_path: Path) -> None:
    sets = [encode(data, NONCE) for data in (DATA, DATA[::-1])]
    for number, one in enumerate(sets):
        (tmp_path / str(number)).write_text("".join(f"{line}\n" for line in one))
    first = "\n".join(sets[0][:5])
    (tmp_path / "first").write_text(f"{first}\n")
    again = 'resend) shift; for n; do sed -n "${n}p" D/1; done;; closing) tail -n 1 D/1;;'
    script = f"case $1 in {again} *) cat D/first D/1;; esac\n"
    (tmp_path / "print").write_text(script.replace("D", shlex.quote(str(tmp_path))))
    with opened(ProgramTransport(["sh"])) as shell:
        shell.find(soon())
        shell.start_plain_shell(soon())
        reader = collect.frames(shell, f"sh {tmp_path}/print", NONCE, LONG)
    assert reader.payload() == DATA[::-1]


def test_a_plan_without_frames_is_not_asked_for_ever(plain_shell: Shell) -> None:
    began = time.monotonic()
    reader = collect.frames(plain_shell, "no-such-program", NONCE, LONG)
    assert time.monotonic() - began < 10
    with pytest.raises(ParseError, match="never ended"):
        reader.payload()


def test_frames_of_a_hanging_target_are_a_hang() -> None:
    with opened(ProgramTransport(["sh"]), Waits(answer=0.1, hang=0.5)) as shell:
        shell.find(soon())
        with pytest.raises(HangError, match=r"no shell answered on the console within 0\.5 s"):
            collect.frames(shell, "exec sleep 60", NONCE, 0.3)
