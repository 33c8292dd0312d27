# SPDX-License-Identifier: MIT
from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ConfigError
from rtgate.kernel.fragments import config_line, load_fragment, parse_fragment, resolve
from rtgate.kernel.version import KernelVersion

PATH = Path("x.config")
OLD, NEW = KernelVersion(6, 12, 117), KernelVersion(6, 13)

symbols = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True)
values = st.one_of(st.sampled_from(["y", "m", "n", "0x1F", '""', '"a b#c"']), st.integers(-(10**6), 10**6).map(str))


def asked(text: str, version: KernelVersion = OLD) -> dict[str, str]:
    return {symbol: option.value for symbol, option in resolve(parse_fragment(text, PATH), version).items()}


def test_every_kind_of_line() -> None:
    text = '# a comment\n\nCONFIG_A=y\nCONFIG_B=m\nCONFIG_C=8\nCONFIG_D=0x10\nCONFIG_E="text"\n# CONFIG_F is not set\n'
    assert asked(text) == {"A": "y", "B": "m", "C": "8", "D": "0x10", "E": '"text"', "F": "n"}


def test_version_range() -> None:
    text = "CONFIG_A=y\n#: kernel >= 6.13\nCONFIG_B=y\n#: end\n#: kernel < 6.13\nCONFIG_C=y\n#: end\nCONFIG_D=y\n"
    assert set(asked(text, OLD)) == {"A", "C", "D"}
    assert set(asked(text, NEW)) == {"A", "B", "D"}


def test_one_symbol_can_differ_between_versions() -> None:
    text = "#: kernel < 6.13\nCONFIG_A=y\n#: end\n#: kernel >= 6.13\n# CONFIG_A is not set\n#: end\n"
    assert (asked(text, OLD), asked(text, NEW)) == ({"A": "y"}, {"A": "n"})


def test_later_fragments_win() -> None:
    options = (*parse_fragment("CONFIG_A=y\n", PATH), *parse_fragment("# CONFIG_A is not set\n", PATH))
    assert resolve(options, OLD)["A"].value == "n"


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ("CONFIG_A=y\nCONFIG_A=n\n", "x.config:2:1", "not understood"),
        ("CONFIG_A=y\nCONFIG_A=m\n", "x.config:2:1", "stands twice (first at line 1)"),
        ("  CONFIG_A=y\n", "x.config:1:3", "not understood"),
        ("CONFIG_A = y\n", "x.config:1:1", "not understood"),
        ("A=y\n", "x.config:1:1", "not understood"),
        ("# CONFIG_A=y\n", "x.config:1:1", "not understood"),
        ("# CONFIG_A is not set.\n", "x.config:1:1", "not understood"),
        ("# kernel >= 6.13\nCONFIG_A=y\n", "x.config:1:1", "not understood"),
        ("#: kernel >= 6.13\nCONFIG_A=y\n", "x.config:1:1", "without '#: end'"),
        ("#: end\n", "x.config:1:1", "without '#: kernel'"),
        ("#: kernel < 6.1\n#: kernel < 6.2\n#: end\n", "x.config:2:1", "inside another"),
        ("#: kernel <= 6.1\n#: end\n", "x.config:1:11", "not a condition"),
        ("#: since 6.1\n#: end\n", "x.config:1:1", "unknown directive"),
    ],
)
def test_errors_name_the_place(text: str, place: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fragment(text, PATH)
    assert place in str(caught.value)
    assert complaint in str(caught.value)


@given(st.dictionaries(symbols, values))
def test_what_is_written_is_read(options: dict[str, str]) -> None:
    text = "".join(f"{config_line(symbol, value)}\n" for symbol, value in options.items())
    assert asked(text) == options


@given(st.text(max_size=80))
def test_any_text_is_a_fragment_or_a_configuration_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_fragment(text, PATH)


def test_unreadable_fragment(tmp_path: Path) -> None:
    (tmp_path / "binary.config").write_bytes(b"\xff\xfe")
    for name in ("binary.config", "missing.config"):
        with pytest.raises(ConfigError, match="cannot be read"):
            load_fragment(tmp_path / name)
