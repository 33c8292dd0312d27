# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.gitlab_server import LIMIT, TOKEN, Account, GitLabServer, mentions, quick_actions

from rtgate.forge.note_body import GITHUB, MARK, harmless, has_mark, note_body, pipeline_of

# What people write into titles, branch names and kernel logs when they want a note to do something.
PARTS = (
    *("/merge", "/close", "/approve", "/label ~bug", "@all", "@jane", "user@example.org", "@&#97;ll"),
    *("&commat;all", "&#64;all", "&#064all", "&#x40;all", "&#X040;jane"),
    *("\r", "\n", "\r\n", "\n\r", "```", "~~~", "`", "``", "\n```\n", "\n~~~\n", "\n>>>\n", ">>>"),
    *(
        "<!--",
        "-->",
        "<b>",
        "</b>",
        " ",
        "    ",
        "\t",
        "\0",
        "\x1b[2J",
        "\u202e",
        "\udc80",
        "text",
        "|",
        "\\",
        MARK,
        "é",
    ),
)
HOSTILE = st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=14).map("".join)


@given(HOSTILE)
def test_nothing_in_a_note_acts(text: str) -> None:
    body = note_body(text, 12)
    assert quick_actions(body) == []
    assert mentions(body) == []
    # Nor if GitLab took all of it for text, and none of it for code.
    everything = body.replace("`", "").replace("~", "")
    assert quick_actions(everything) == []
    assert mentions(everything) == []


@given(HOSTILE)
def test_every_body_can_be_sent_and_is_found_again(text: str) -> None:
    body = note_body(text, 12)
    body.encode()
    assert not set(body) & {"\0", "\r", "\x1b", "\u202e"}
    assert has_mark(body)
    assert pipeline_of(body) == 12
    assert harmless(harmless(text).replace("\u2060", "")) == harmless(text)


@pytest.mark.parametrize(
    "text",
    [
        "/merge",
        "x\n/merge",
        "```\nx\n```\n/merge",
        "~~~\n/merge\n~~~",
        "\n\r/merge",
        "/me\rrge",
        "`\n/merge\nx`",
        ">>>\n/merge",
    ],
)
def test_the_stand_in_would_carry_these_out(text: str) -> None:
    """The tests above would prove nothing if it did not."""
    assert quick_actions(text) or quick_actions(text.replace("`", ""))
    assert not quick_actions(harmless(text))


@pytest.mark.parametrize("text", ["@all", "ping @jane-x.", "&commat;all", "&#64;all", "a</b>@all", "@<!-- -->all"])
def test_the_stand_in_would_tell_these(text: str) -> None:
    assert mentions(text)
    assert not mentions(harmless(text))


def test_code_stays_what_it_is_but_for_a_space() -> None:
    assert (
        harmless("```\n/sys/kernel\nrtgate gate --base v6.12\n```")
        == "```\n /sys/kernel\nrtgate gate --base v6.12\n```"
    )
    assert harmless("&#640; &#x400; a/b\n-/x") == "&#640; &#x400; a/b\n-/x"


@pytest.mark.parametrize("unit", ["x", "é", "/\n", "@"])
@pytest.mark.parametrize("size", [LIMIT // 2 - 100, LIMIT + 1])
def test_a_note_is_never_longer_than_gitlab_takes(size: int, unit: str) -> None:
    text = unit * (size // len(unit))
    body = note_body(text, 1)
    assert len(body) <= LIMIT
    cut = "**This note is cut: GitLab takes 1,000,000 characters. The whole is `note.md`" in body
    assert cut == (size > LIMIT)
    assert quick_actions(body) == []
    assert pipeline_of(body) == 1


@pytest.mark.parametrize("unit", ["x", "é", "@", "\N{GRINNING FACE}"])
def test_github_counts_bytes(unit: str) -> None:
    body = note_body(unit * 65_535, 1, GITHUB)
    assert 65_535 - 4 < len(body.encode()) <= 65_535
    assert "**This note is cut: GitHub takes 65,535 bytes. The whole is `note.md`" in body
    start = f"{MARK} <!-- pipeline 1 -->\n\n"
    assert note_body("x" * (65_535 - len(start)), 1, GITHUB) == start + "x" * (65_535 - len(start))


@pytest.mark.parametrize(
    ("body", "pipeline"),
    [
        (MARK, None),
        (f"{MARK}\n\ntext\n<!-- pipeline 5 -->", None),
        (f"{MARK} <!-- pipeline 5 -->\ntext", 5),
        (f"{MARK} <!-- pipeline 99999999999999999999 -->", None),
        (f"{MARK} <!-- pipeline -5 -->", None),
        ("text <!-- pipeline 5 -->", None),
    ],
)
def test_the_pipeline_of_a_note(body: str, pipeline: int | None) -> None:
    assert pipeline_of(body) == pipeline


def test_what_attacks_a_note_reaches_the_server_as_text(server: GitLabServer) -> None:
    from selftests.unit.forge.test_gitlab_note import note  # noqa: PLC0415

    title = "/merge\n@all please\n```\n/close\n~~~\n@jane &#64;all"
    server.tokens = {TOKEN: Account()}
    note(server).write(note_body(title), None)
    assert (server.quick_actions, server.mentions) == ([], [])
    assert len(server.notes) == 1
