# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.frames import encode

from rtgate.console.frames import PAYLOAD, FrameReader
from rtgate.errors import ParseError
from rtgate.files import cksum
from rtgate.target.outcome import unpack

CAPTURED = Path(__file__).resolve().parents[2] / "data" / "console"
NONCE = "F0123abcde"
# Bytes that base64 turns into several frames, the last one short.
DATA = random.Random(1).randbytes(3 * PAYLOAD)
LINES = encode(DATA, NONCE)
# Small enough to damage every byte of it.
SHORT = DATA[:400]
SHORT_LINES = encode(SHORT, NONCE)

KERNEL = b"[   12.345678] sched: RT throttling activated\r\n"


def stream(lines: Sequence[str] = LINES, end: str = "\r\n") -> bytes:
    return "".join(line + end for line in lines).encode()


def reader_of(data: bytes) -> FrameReader:
    reader = FrameReader(NONCE)
    reader.feed(data)
    reader.finish()
    return reader


def check(reader: FrameReader, data: bytes = DATA, lines: Sequence[str] = LINES) -> bool:
    """Return whether the data arrived; it must be exact, or be an error that asking again repairs."""
    try:
        assert reader.payload() == data
    except ParseError:
        repair(reader, lines)
        assert reader.payload() == data
        return False
    return True


def repair(reader: FrameReader, lines: Sequence[str]) -> None:
    if not reader.has_closing_line:
        reader.feed(stream(lines[-1:]))
    assert reader.has_closing_line
    reader.feed(stream([lines[number - 1] for number in reader.missing]))


# --- a good line


def test_frames_look_as_the_design_says() -> None:
    *data, end = LINES
    assert len(data) == 4
    for number, line in enumerate(data, 1):
        assert re.fullmatch(rf"{NONCE} {number} [A-Za-z0-9+/=]{{1,{PAYLOAD}}} \d{{1,10}}", line)
    assert re.fullmatch(rf"{NONCE} end 4 \d{{1,10}} \d{{1,10}}", end)


@given(st.binary(max_size=2000), st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_any_bytes_survive_any_chunking(data: bytes, sizes: list[int]) -> None:
    whole = stream(encode(data, NONCE))
    reader = FrameReader(NONCE)
    start = turn = 0
    while start < len(whole):
        size = sizes[turn % len(sizes)]
        reader.feed(whole[start : start + size])
        start, turn = start + size, turn + 1
    assert reader.has_closing_line
    assert reader.missing == ()
    assert reader.payload() == data
    assert (reader.damaged, reader.repeated, reader.received) == (0, 0, len(whole))


def test_no_data_is_data() -> None:
    assert reader_of(stream(encode(b"", NONCE))).payload() == b""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n", "\n\r", "\r\n\r\n"])
def test_any_end_of_line_will_do(end: str) -> None:
    assert reader_of(stream(end=end)).payload() == DATA


def test_a_line_that_was_not_ended_counts_when_nothing_more_comes() -> None:
    reader = FrameReader(NONCE)
    reader.feed(stream()[:-2])
    assert not reader.has_closing_line
    reader.finish()
    assert reader.payload() == DATA


def test_frames_may_come_in_any_order() -> None:
    assert reader_of(stream(list(reversed(LINES)))).payload() == DATA


def test_frames_of_another_plan_are_passed_over() -> None:
    other = encode(b"another plan's data", "F9999999999")
    reader = reader_of(stream([*other[:-1], *LINES, other[-1]]))
    assert reader.payload() == DATA
    assert reader.damaged == 0


@pytest.mark.parametrize("name", ["measured-idle", "measured-hackbench"])
def test_captured_frames_are_read(name: str) -> None:
    console = (CAPTURED / f"{name}.log").read_bytes()
    nonce = re.search(rb"(F[0-9a-f]{9}) 1 ", console)
    assert nonce
    reader = FrameReader(nonce[1].decode())
    reader.feed(console)
    assert unpack(reader)["tool.rc"] == b"0\n"


# --- a bad line


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_never_gives_wrong_data(bit: int) -> None:
    whole = stream(SHORT_LINES, end="\n")
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        check(reader_of(bytes(damaged)), SHORT, SHORT_LINES)


def test_a_dropped_byte_never_gives_wrong_data() -> None:
    whole = stream(SHORT_LINES, end="\n")
    for place in range(len(whole)):
        check(reader_of(whole[:place] + whole[place + 1 :]), SHORT, SHORT_LINES)


@pytest.mark.parametrize("number", range(len(LINES)))
def test_a_dropped_line_is_missed(number: int) -> None:
    reader = reader_of(stream(LINES[:number] + LINES[number + 1 :]))
    assert reader.has_closing_line == (number != len(LINES) - 1)
    assert reader.missing == ((number + 1,) if reader.has_closing_line else ())
    assert not check(reader)


def test_duplicated_lines_are_counted() -> None:
    reader = reader_of(stream([line for line in LINES for _ in range(3)]))
    assert reader.payload() == DATA
    assert reader.repeated == 2 * (len(LINES) - 1)


def test_kernel_messages_anywhere_never_give_wrong_data() -> None:
    whole = stream(SHORT_LINES)
    between = {len(stream(SHORT_LINES[:number])) for number in range(len(SHORT_LINES) + 1)}
    for place in range(len(whole) + 1):
        arrived = check(reader_of(whole[:place] + KERNEL + whole[place:]), SHORT, SHORT_LINES)
        assert arrived or place not in between


@pytest.mark.parametrize("byte", [b"0", b" ", b"\r", b"\n", b"\0", b"\xff", b"+", b"=", b"e"])
def test_an_inserted_byte_never_gives_wrong_data(byte: bytes) -> None:
    whole = stream(SHORT_LINES, end="\n")
    for place in {*range(40), *range(0, len(whole), 5), *range(500, len(whole) + 1)}:
        check(reader_of(whole[:place] + byte + whole[place:]), SHORT, SHORT_LINES)


def test_the_echo_of_a_command_is_no_frame() -> None:
    echo = f"# sh /tmp/rtgate-{NONCE} resend 1 2\r\n> sh {NONCE} closing\r\nrm /run/{NONCE}/frames {NONCE}\r\n".encode()
    reader = reader_of(echo + stream() + echo)
    assert reader.payload() == DATA
    assert (reader.damaged, reader.repeated) == (0, 0)


@pytest.mark.parametrize(
    "half", [f"{NONCE} 1 AAA", f"{NONCE} end", f"{NONCE} end 4 12", f"{NONCE} 2 ", f"{NONCE}  1 A 1"]
)
def test_a_frame_that_was_cut_is_damage_and_no_echo(half: str) -> None:
    reader = reader_of(f"{half}\r\n{half}[   12.345678] usb 1-1: new device\r\n".encode() + stream())
    assert reader.payload() == DATA
    assert reader.damaged == 2


def test_frames_whose_ends_of_line_got_lost_are_read() -> None:
    reader = reader_of("".join(LINES).encode() + KERNEL)
    assert reader.payload() == DATA
    assert reader.damaged == 0


def test_a_frame_is_found_behind_half_of_another_one() -> None:
    whole = stream()
    half = LINES[1][:300].encode()
    assert check(reader_of(half + whole))
    assert not check(reader_of(whole.replace(LINES[1].encode() + b"\r\n", half)))


def test_what_stands_behind_a_frame_does_no_harm() -> None:
    assert reader_of(stream(end="[   12.345678] usb 1-1: new device\r\n")).payload() == DATA


def test_a_reader_tells_whether_frames_still_come() -> None:
    reader, seen = FrameReader(NONCE), [0]
    for data in (
        b"x",
        stream(LINES[:1]),
        KERNEL,
        stream(LINES[:1]),
        b"half " + stream([LINES[2][:-1]]),
        stream(LINES[-1:]),
    ):
        reader.feed(data)
        seen.append(reader.frame_count)
    assert seen == [0, 0, 1, 1, 2, 3, 4]
    assert not reader.complete


def test_frames_that_do_not_belong_together_can_be_forgotten() -> None:
    """A plan that a doubled line started twice sends two sets of frames."""
    other = encode(DATA[::-1], NONCE)
    reader = reader_of(stream([*LINES[:2], *other]))
    assert reader.has_closing_line
    assert reader.missing == ()
    assert not reader.complete
    reader.forget()
    assert reader.missing == ()
    reader.feed(stream(other))
    assert reader.payload() == DATA[::-1]


def test_a_prompt_in_front_of_a_frame_does_no_harm() -> None:
    assert reader_of(b"target# " + stream()).payload() == DATA


@pytest.mark.parametrize(
    "line", [f"{NONCE} 1 AAAA {'9' * 5000}", f"{NONCE} end {'9' * 5000} 1 1", f"{NONCE} 1 AAAA \xb2"]
)
def test_absurd_numbers_are_damage(line: str) -> None:
    reader = FrameReader(NONCE)
    reader.feed(line.encode("latin-1") + b"\n")
    assert reader.damaged == 1


def test_a_closing_frame_that_counts_too_many_is_damage() -> None:
    head = f"{NONCE} end 999999999 1"
    reader = FrameReader(NONCE)
    reader.feed(f"{head} {cksum(f'{head}{chr(10)}'.encode())}\n".encode())
    assert (reader.damaged, reader.has_closing_line, reader.missing) == (1, False, ())


def test_two_runs_mixed_up_do_not_match_the_total() -> None:
    other = encode(DATA[::-1], NONCE)
    with pytest.raises(ParseError, match="do not match their total checksum"):
        reader_of(stream([other[0], *LINES[1:]])).payload()


def test_frames_that_are_no_base64_are_an_error() -> None:
    def sealed(head: str) -> str:
        return f"{head} {cksum((head + chr(10)).encode())}"

    line = sealed(f"{NONCE} 1 A=AA=")
    reader = reader_of(stream([line, sealed(f"{NONCE} end 1 {cksum((line + chr(10)).encode())}")]))
    with pytest.raises(ParseError, match="are not base64"):
        reader.payload()


def test_nothing_is_an_error() -> None:
    with pytest.raises(ParseError, match="the closing frame is missing"):
        reader_of(b"").payload()


Fault = Callable[[list[bytes], random.Random], None]


def drop_line(lines: list[bytes], source: random.Random) -> None:
    del lines[source.randrange(len(lines))]


def repeat_line(lines: list[bytes], source: random.Random) -> None:
    lines.insert(source.randrange(len(lines) + 1), source.choice(lines))


def swap_lines(lines: list[bytes], source: random.Random) -> None:
    one, other = source.randrange(len(lines)), source.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def flip_bit(lines: list[bytes], source: random.Random) -> None:
    number = source.randrange(len(lines))
    line = bytearray(lines[number])
    if line:
        line[source.randrange(len(line))] ^= 1 << source.randrange(8)
    lines[number] = bytes(line)


def drop_bytes(lines: list[bytes], source: random.Random) -> None:
    number = source.randrange(len(lines))
    start = source.randrange(len(lines[number]) + 1)
    lines[number] = lines[number][:start] + lines[number][start + source.randrange(40) :]


def interrupt(lines: list[bytes], source: random.Random) -> None:
    number = source.randrange(len(lines))
    start = source.randrange(len(lines[number]) + 1)
    lines[number] = lines[number][:start] + KERNEL + lines[number][start:]


FAULTS: tuple[Fault, ...] = (drop_line, repeat_line, swap_lines, flip_bit, drop_bytes, interrupt)


@given(
    st.binary(max_size=2500),
    st.lists(st.sampled_from(FAULTS), min_size=1, max_size=8),
    st.integers(0, 2**32),
)
def test_any_mixture_of_faults_gives_the_data_or_an_error_that_asking_again_repairs(
    data: bytes, faults: list[Fault], seed: int
) -> None:
    source = random.Random(seed)
    lines = encode(data, NONCE)
    arrived = [line.encode() + b"\r\n" for line in lines]
    for fault in faults:
        if arrived:
            fault(arrived, source)
    check(reader_of(b"".join(arrived)), data, lines)
