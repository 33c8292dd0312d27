# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.console.telnet import DO, DONT, ECHO, IAC, SB, SE, SUPPRESS_GO_AHEAD, WILL, WONT, Decoder, encode


@pytest.mark.parametrize(
    ("sent", "typed"),
    [
        (b"ls\r\n", b"ls\r"),
        (b"ls\r\0", b"ls\r"),
        (b"ls\n", b"ls\n"),  # what LAVA's pexpect sends
        (b"\r\r\n\n", b"\r\r\n"),
        (b"a\xff\xffb", b"a\xffb"),
        (b"a" + bytes((IAC, WILL, 31)) + b"b", b"ab"),
        (b"a" + bytes((IAC, SB, 31, 0, IAC, IAC, 0, IAC, SE)) + b"b", b"ab"),
        (b"a" + bytes((IAC, 241)) + b"b", b"ab"),  # NOP
        (b"\r" + bytes((IAC, 241)) + b"\n", b"\r\n"),
        (b"\x03\x1d\0", b"\x03\x1d\0"),
    ],
)
def test_what_a_client_sends_is_what_was_typed_however_it_is_cut(sent: bytes, typed: bytes) -> None:
    assert Decoder().feed(sent)[0] == typed
    decoder = Decoder()
    assert b"".join(decoder.feed(sent[i : i + 1])[0] for i in range(len(sent))) == typed


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ((WILL, 31), (DONT, 31)),
        ((DO, 24), (WONT, 24)),
        ((DO, ECHO), ()),
        ((WILL, SUPPRESS_GO_AHEAD), ()),
        ((WONT, 31), ()),
        ((DONT, 24), ()),
    ],
)
def test_what_this_end_did_not_offer_is_refused_once(asked: tuple[int, ...], answer: tuple[int, ...]) -> None:
    assert Decoder().feed(bytes((IAC, *asked)))[1] == (bytes((IAC, *answer)) if answer else b"")


@given(st.lists(st.binary(max_size=8), max_size=8))
def test_any_bytes_arrive_at_a_client(pieces: list[bytes]) -> None:
    wire = b"".join(encode(piece) for piece in pieces)
    # The client's side: the same rules, but for line ends.
    assert wire.replace(b"\xff\xff", b"\xff") == b"".join(pieces)


@given(st.binary(max_size=64), st.integers(min_value=0, max_value=64))
def test_hostile_clients_are_survived_and_cutting_changes_nothing(data: bytes, cut: int) -> None:
    whole, parts = Decoder(), Decoder()
    typed, answer = whole.feed(data)
    first, second = parts.feed(data[:cut]), parts.feed(data[cut:])
    assert (first[0] + second[0], first[1] + second[1]) == (typed, answer)
