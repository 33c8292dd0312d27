# SPDX-License-Identifier: MIT
"""The value of a Kconfig dependency such as `SMP && (EXPERT || !PREEMPT_RT)` under a `.config`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN = re.compile(r"""\s*(&&|\|\||!=|<=|>=|[!()=<>]|"[^"]*"|'[^']*'|[\w.-]+)""")
_RANK = {"n": 0, "m": 1, "y": 2}


class _UnknownError(Exception):
    """The expression uses what this module cannot evaluate, such as a macro."""


def symbols(expression: str) -> tuple[str, ...]:
    """Return the symbols of an expression, in order, each once."""
    names = (token for token in re.findall(r"[A-Za-z_0-9]+", expression) if re.search(r"[A-Z]", token))
    return tuple(dict.fromkeys(names))


def value(expression: str, config: Mapping[str, str]) -> str | None:
    """Return `y`, `m` or `n`; None when it cannot be told (macros)."""
    try:
        tokens = _tokens(expression)
        state = _either(tokens, config)
    except (_UnknownError, IndexError):
        return None
    return state if not tokens and state in _RANK else None


def _tokens(expression: str) -> list[str]:
    tokens, position = [], 0
    text = expression.split(" #", maxsplit=1)[0].rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _UnknownError
        tokens.append(match[1])
        position = match.end()
    return tokens


def _either(tokens: list[str], config: Mapping[str, str]) -> str:
    state = _both(tokens, config)
    while tokens and tokens[0] == "||":
        tokens.pop(0)
        state = max(state, _both(tokens, config), key=_rank)
    return state


def _both(tokens: list[str], config: Mapping[str, str]) -> str:
    state = _compare(tokens, config)
    while tokens and tokens[0] == "&&":
        tokens.pop(0)
        state = min(state, _compare(tokens, config), key=_rank)
    return state


def _compare(tokens: list[str], config: Mapping[str, str]) -> str:
    term = _single(tokens, config)
    if tokens and tokens[0] in {"=", "!="}:
        equal = tokens.pop(0) == "="
        return "y" if (term == _single(tokens, config)) is equal else "n"
    if tokens and tokens[0] in {"<", ">", "<=", ">="}:
        raise _UnknownError
    return term


def _single(tokens: list[str], config: Mapping[str, str]) -> str:
    word = tokens.pop(0)
    if word == "!":
        return _negate(_single(tokens, config))
    if word == "(":
        state = _either(tokens, config)
        if tokens.pop(0) != ")":
            raise _UnknownError
        return state
    if word[0] in "\"'":
        return word[1:-1]
    if word in _RANK:
        return word
    return config.get(word, "n").strip('"')


def _negate(state: str) -> str:
    return {"y": "n", "m": "m", "n": "y"}.get(state, "n")


def _rank(state: str) -> int:
    if state not in _RANK:
        raise _UnknownError
    return _RANK[state]
