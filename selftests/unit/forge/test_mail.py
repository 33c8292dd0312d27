# SPDX-License-Identifier: MIT
"""Series as `git format-patch` writes them, in one mailbox with older versions and replies."""

from __future__ import annotations

import email
import email.policy
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selftests.unit.kernel.test_merge import Repository

from rtgate.errors import ConfigError
from rtgate.forge.mail import Mail, _mail
from rtgate.forge.merge_request import Answer
from rtgate.kernel.merge import ConflictError

ANSWER = Answer(exit_code=1, markdown="", text="FAIL: it became worse\n\nümlaut and a > quote\nFrom here\n")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "linux").mkdir()
    made = Repository(tmp_path / "linux")
    made.branch("mine")
    made.git("config", "user.name", "Jürgen Müßig")
    made.commit("timers: two\n\nWhy it is two.", **{"kernel/time.c": "two\n"})
    made.commit("[brackets] timers: ürgent", **{"kernel/time.c": "three\n", "a file.c": "ä\n"})
    made.commit("last", Makefile="VERSION = 7\n")
    return made


def _mails(repository: Repository, *words: str) -> str:
    common = ("--stdout", "--to=list@example.org", "--cc=b@example.org", "--thread", "--base=main")
    return repository.git("format-patch", *common, *words, "main..mine") + "\n"


def _series(repository: Repository, text: str, base: str = "main") -> Mail:
    path = repository.place.parent / "series.mbox"
    path.write_text(text)
    return Mail(path=path, tree=repository.place, base=base, reply=path.with_name("reply.eml"))


def test_a_series_makes_the_commits_that_it_was_made_from(repository: Repository) -> None:
    found = _series(repository, _mails(repository, "--cover-letter", "--subject-prefix=PATCH v2")).merge_request()
    assert repository.git("diff", "mine", found.head) == ""
    told = "--format=%an <%ae> %at%n%B"
    mine = repository.git("log", told, "main..mine").replace("[brackets] ", "")  # git am drops them, too
    assert repository.git("log", told, f"main..{found.head}") == mine
    assert found.title == "[PATCH v2 0/3] *** SUBJECT HERE ***"
    assert repository.git("status", "--porcelain") == ""


def test_the_same_mails_make_the_same_commits_whoever_applies_them(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = _series(repository, _mails(repository))
    before = series.merge_request().head
    monkeypatch.setenv("GIT_COMMITTER_NAME", "somebody else")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    assert series.merge_request().head == before


def test_the_newest_version_counts_and_replies_do_not(repository: Repository) -> None:
    old = _mails(repository)
    repository.commit("last of v3", Makefile="VERSION = 8\n")
    new = _mails(repository, "-v3")
    backwards = "".join(reversed([f"From {part}" for part in new.split("\nFrom ")]))
    reply = old.replace("Subject: [PATCH", "Subject: Re: [PATCH v9").replace("VERSION = 7", "VERSION = 9")
    found = _series(repository, f"{old}{reply}{backwards.replace('From From', 'From')}").merge_request()
    assert repository.git("show", f"{found.head}:Makefile") == "VERSION = 8"


def test_a_robot_s_patch_and_a_copy_in_the_thread_are_not_of_the_series(repository: Repository) -> None:
    series = _mails(repository)
    robot = series.replace("[PATCH 2/3] ", "[PATCH] ").replace("[PATCH 1/3]", "Re: ").replace("[PATCH 3/3]", "Re: ")
    copy = series.replace("VERSION = 7", "VERSION = 9")
    found = _series(repository, f"{series}{robot}{copy}").merge_request()
    assert repository.git("diff", "mine", found.head) == ""


def test_two_series_in_one_mailbox_are_not_mixed(repository: Repository) -> None:
    mine = _mails(repository, "--cover-letter")
    repository.branch("other")
    repository.commit("sched: other", **{"kernel/time.c": "nine\n"})
    common = ("--stdout", "--thread", "--cover-letter", "--base=main")
    fewer = repository.git("format-patch", *common, "main..other") + "\n"
    # Message-IDs are made of commits and of the second.
    as_many = mine.replace(".git.", ".net.git.").replace("[PATCH", "[PATCH net")
    message = r"series\.mbox has two series: '\[PATCH 0/3\] .*' and '\[PATCH{} 0/{}\] .*' do not belong together"
    for other, words, count in ((fewer, "", 1), (as_many, " net", 3)):
        with pytest.raises(ConfigError, match=message.format(words, count)):
            _series(repository, mine + other).merge_request()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--cover-letter",),
        ("--thread=deep",),
        ("--in-reply-to=<version-1@example.org>",),
        ("--in-reply-to=<version-1@example.org>", "--thread=deep", "--cover-letter"),
        ("--no-thread",),
    ],
)
@pytest.mark.parametrize("lost", ["References", "In-Reply-To", "X-None"])
def test_every_thread_of_a_series_is_one(repository: Repository, words: tuple[str, ...], lost: str) -> None:
    mails = _mails(repository, *words).replace(f"{lost}:", "X-Lost:")
    found = _series(repository, mails).merge_request()
    assert repository.git("diff", "mine", found.head) == ""


def test_a_series_whose_cover_letter_is_not_there_is_one(repository: Repository) -> None:
    series = _mails(repository, "--cover-letter", "--in-reply-to=<version-1@example.org>")
    found = _series(repository, series.replace("[PATCH 0/3]", "Re: ")).merge_request()
    assert repository.git("diff", "mine", found.head) == ""


def _patch(number: int, *, text: str = "", identity: str = "", above: str = "", version: str = "") -> str:
    """Return a patch of two; `above` are the mails that it says are above it."""
    headers = f"From: a <a@example.org>\nSubject: [PATCH{version} {number}/2] {number}\n"
    headers += f"Message-ID: {identity}\n" if identity else ""
    headers += f"References: {above}\nIn-Reply-To: {above.rsplit(maxsplit=1)[-1]}\n" if above else ""
    return f"From git Mon Sep 17 00:00:00 2001\n{headers}\n{text or f'patch {number}'}\n\n"


# The last two: each has a cover letter that is not there; both answer the version before.
@pytest.mark.parametrize("above", ["", "<cover-{}@x>", "<version-1@x>"])
@pytest.mark.parametrize("order", ["1a 1b 2b 2a", "1a 2a 1b 2b"])
def test_two_series_of_one_length_are_not_mixed(repository: Repository, above: str, order: str) -> None:
    mails = {
        f"{number}{name}": _patch(number, text=name, identity=f"<{number}{name}@x>", above=above.format(name))
        for number in (1, 2)
        for name in "ab"
    }
    with pytest.raises(ConfigError, match=r"has two series: '\[PATCH 1/2\] 1' and '\[PATCH 1/2\] 1' do not belong"):
        _series(repository, "".join(mails[name] for name in order.split()))._series  # noqa: B018 - it raises


@pytest.mark.parametrize(
    "mails",
    [
        pytest.param(
            [
                _patch(1, identity="<1@x>", above="<cover@x>"),
                _patch(2, identity="<2@x>", above="<cover@x>"),
                _patch(2, identity="<2-again@x>", above="<cover@x> <2@x>", text="again"),
            ],
            id="sent again below itself, the cover letter is not there",
        ),
        pytest.param(
            [
                _patch(1, identity="<1@x>", above="<version-1@x>", version=" v2"),
                _patch(2, identity="<2@x>", version=" v2"),
            ],
            id="only the first answers the version before",
        ),
        pytest.param(
            [
                _patch(1, identity="<1@x>", above="<version-1-1@x>", version=" v2"),
                _patch(2, identity="<2@x>", above="<version-1-2@x>", version=" v2"),
            ],
            id="each answers the same one of the version before",
        ),
        pytest.param([_patch(1), _patch(2), _patch(2)], id="a copy, without a thread"),
    ],
)
def test_one_series_is_one_however_it_was_sent(repository: Repository, mails: list[str]) -> None:
    series = _series(repository, "".join(mails))._series
    assert [mail.message.get_content().strip() for mail in series] == ["patch 1", "patch 2"]


def test_a_series_may_say_itself_what_it_applies_to(repository: Repository) -> None:
    found = _series(repository, _mails(repository), base="").merge_request()
    assert found.base == repository.git("rev-parse", "main")


def test_a_series_with_the_line_ends_of_mail_makes_the_same_commits(repository: Repository) -> None:
    """As curl, Outlook and Windows store it; `git am` takes it as well."""
    mails = _mails(repository)
    plain = _series(repository, mails, base="").merge_request()
    assert _series(repository, mails.replace("\n", "\r\n"), base="").merge_request() == plain


def test_carriage_returns_of_a_file_stay(repository: Repository) -> None:
    repository.commit("CRLF", windows="one\r\ntwo\r\n")
    mails = _mails(repository).replace("\n+one\n+two\n", "\n+one\r\n+two\r\n")  # lost where git's output was read
    assert repository.git("diff", "mine", _series(repository, mails).merge_request().head) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("base-commit: ", "nothing: "), r"does not say what it applies to \(base-commit:\)"),
        (lambda text: text.replace("2/3", "3/3"), "lacks 2 of the 3 patches of version 1"),
        (lambda text: text.replace("[PATCH", "[POEM"), "has no patches: expected mails with a subject like"),
        (lambda _: "", "has no patches"),
        (
            lambda text: text.replace("diff --git", "no diff").replace("\n--- ", "\n").replace("\n@@", "\n"),
            "has no patch",
        ),
    ],
)
def test_what_is_no_series_is_said(repository: Repository, change: object, message: str) -> None:
    assert callable(change)
    with pytest.raises(ConfigError, match=message):
        _series(repository, change(_mails(repository)), base="").merge_request()


def test_a_fifo_or_a_missing_mailbox_is_a_mistake(repository: Repository, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "series.mbox")
    for path in (tmp_path / "series.mbox", tmp_path / "nothing"):
        with pytest.raises(ConfigError):
            Mail(path=path, tree=repository.place, base="main", reply=tmp_path / "r").merge_request()


def test_a_series_that_does_not_apply_names_patch_and_file(repository: Repository) -> None:
    text = _mails(repository)
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"kernel/time.c": "four\n"})
    told = r"^patch 1 of 3, 'timers: two', does not apply to [0-9a-f]{12}: kernel/time\.c: hunk 1 at line 1 does not"
    with pytest.raises(ConflictError, match=told):
        _series(repository, text).merge_request()


def test_of_several_hunks_the_one_that_does_not_match_is_named(repository: Repository) -> None:
    lines = [f"{number}\n" for number in range(40)]
    repository.git("checkout", "--quiet", "main")
    repository.commit("many lines", **{"kernel/many.c": "".join(lines)})
    repository.git("checkout", "--quiet", "-B", "mine")
    changed = {3: "x\n", 30: "y\n"}
    repository.commit("two hunks", **{"kernel/many.c": "".join(changed.get(n, one) for n, one in enumerate(lines))})
    text = _mails(repository)
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"kernel/many.c": "".join([*lines[:30], "z\n", *lines[31:]])})
    with pytest.raises(ConflictError, match=r"kernel/many\.c: hunk 2 at line 28 does not match$"):
        _series(repository, text).merge_request()


def test_a_file_that_is_not_there_is_named(repository: Repository) -> None:
    text = _mails(repository)
    repository.git("checkout", "--quiet", "main")
    repository.git("rm", "--quiet", "kernel/time.c")
    repository.git("commit", "--quiet", "-m", "gone")
    with pytest.raises(ConflictError, match=r"kernel/time\.c: does not exist in index$"):
        _series(repository, text).merge_request()


def _reply(series: Mail) -> email.message.EmailMessage:
    series.publish(ANSWER)
    found = email.message_from_bytes(series.reply.read_bytes(), policy=email.policy.default)
    assert isinstance(found, email.message.EmailMessage)
    return found


@pytest.mark.parametrize("words", [(), ("--cover-letter",)])
def test_the_reply_stands_below_the_first_mail(repository: Repository, words: tuple[str, ...]) -> None:
    text = _mails(repository, *words)
    first = email.message_from_string(text.partition("\n")[2], policy=email.policy.default)
    reply = _reply(_series(repository, text))
    assert reply["In-Reply-To"] == first["Message-ID"]
    assert first["Message-ID"] in reply["References"]
    assert reply["Subject"] == f"Re: {first['Subject']}"
    assert reply["To"] == "Jürgen Müßig <a@example.org>"
    assert reply["Cc"] == "list@example.org, b@example.org"
    body = reply.get_body()
    assert body is not None
    assert body.get_content() == ANSWER.text


def test_a_reply_with_any_letter_can_be_read_before_it_is_sent(repository: Repository) -> None:
    series = _series(repository, _mails(repository))
    series.publish(replace(ANSWER, text="timers: Gruß, 30 µs\n"))
    assert series.reply.read_text(encoding="utf-8").endswith("\n\ntimers: Gruß, 30 µs\n")


def test_a_header_cannot_add_headers_to_the_reply(repository: Repository) -> None:
    hostile = "=?utf-8?q?=5BPATCH=5D_a=0ABcc:_victim=40example.org=0A=0Abody?="
    text = _mails(repository).replace("Subject: [PATCH 1/3] timers: two", f"Subject: [PATCH 1/3] {hostile}", 1)
    reply = _reply(_series(repository, text))
    assert reply["Bcc"] is None
    assert "Bcc: victim@example.org" in reply["Subject"]


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: f"Subject: [PATCH {text}".encode()))
def test_no_mail_is_too_hostile_to_be_read(raw: bytes) -> None:
    found = _mail(raw)
    assert found is None or (found.version >= 0 and found.content)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("From: ", "From: =?utf-8?q?a=0ABcc=3A_evil=40x=2Ey?= <a@b.c>\nX-From: "),
        ("From: ", "From: <\nX-From: "),
        ("Message-Id: ", "Message-ID: <>\nX-Id: "),
        ("MIME-Version", "Content-Type: text/plain; charset=klingon\nMIME-Version"),
    ],
)
def test_a_header_that_cannot_be_read_does_not_take_the_reply_away(
    repository: Repository, before: str, after: str
) -> None:
    text = _mails(repository).replace("Message-ID", "Message-Id").replace(f"\n{before}", f"\n{after}")
    assert after in text
    series = _series(repository, text, base="")
    series._named_base()
    series.publish(ANSWER)
    assert "\nBcc" not in series.reply.read_text()


@pytest.mark.parametrize(("header", "wrong"), [("Date", "garbage"), ("From", "<>")])
def test_an_author_whom_git_does_not_take_is_a_mistake_of_the_mail(
    repository: Repository, header: str, wrong: str
) -> None:
    lines = (
        f"{header}: {wrong}" if line.startswith(f"{header}: ") else line for line in _mails(repository).split("\n")
    )
    with pytest.raises(ConfigError, match="makes no commit, see its From and Date"):
        _series(repository, "\n".join(lines)).merge_request()
