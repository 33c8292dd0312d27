# SPDX-License-Identifier: MIT
"""A series of patches in a mailbox, and the reply to it.

Which mails are the series is decided as b4 does (`b4 am`): the newest version in the file, in the order of its numbers;
replies are passed over. The form of subjects is that of `git format-patch`: `[PATCH RFC v2 1/3] subject`.
"""

from __future__ import annotations

import contextlib
import email.policy
import mailbox
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesParser
from functools import cached_property
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.kernel.mailed_patches import apply_patches

_PREFIX = re.compile(r"\[(?P<words>[^\]]*\bPATCH\b[^\]]*)\]", re.IGNORECASE)
_NUMBER = re.compile(r"\b(?P<number>\d{1,4})/(?P<count>\d{1,4})\b")
_VERSION = re.compile(r"\bv(?P<version>\d{1,3})\b", re.IGNORECASE)
_BASE = re.compile(r"^base-commit: (?P<commit>[0-9a-f]{40,64})$", re.MULTILINE)
_IDENTITY = re.compile(r"<[^<>\s]+>")
_LARGEST = 64 << 20  # bytes of a mailbox


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mail:
    """One mail of a series; number 0 is its cover letter. One without `2/3` in its subject has no numbers."""

    message: EmailMessage
    raw: bytes
    version: int
    numbers: tuple[int, int] | None

    @property
    def number(self) -> int:
        """Its place in the series, from 1 on."""
        return self.numbers[0] if self.numbers else 1

    @property
    def count(self) -> int:
        """Patches of the series."""
        return self.numbers[1] if self.numbers else 1

    @property
    def identity(self) -> str:
        """Its Message-ID; empty for a file of `git format-patch` without a thread."""
        return _header(self.message, "Message-ID")

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The Message-IDs of the mails above it in its thread, the topmost first."""
        return tuple(_IDENTITY.findall(f"{_header(self.message, 'References')} {_header(self.message, 'In-Reply-To')}"))

    @property
    def content(self) -> tuple[str, bytes]:
        """Its subject and the text of all its parts, by which a copy is known."""
        parts = (part.get_payload(decode=True) for part in self.message.walk())  # None for what has parts itself
        return _subject(self.message), b"".join(part for part in parts if isinstance(part, bytes)).strip()


@dataclass(frozen=True, kw_only=True)
class Mail:
    """A mailed series, which keeps to `Forge`.

    Attributes:
        path: a mailbox (mbox) with the series, and whatever else.
        tree: a clone that has the commit it applies to.
        base: that commit; empty for the one that the series itself names (`base-commit:`).
        reply: gets the answer, as a mail that nobody has sent.
    """

    path: Path
    tree: Path
    base: str
    reply: Path

    def merge_request(self) -> MergeRequest:
        """Apply the series; return it.

        Raises:
            ConfigError: the mailbox has no series, it lacks a patch, or nobody says what it applies to.
            ConflictError: it does not apply.
        """
        base = self.base or self._named_base()
        with tempfile.TemporaryDirectory(prefix="rtgate-mails-") as name:
            mails = []
            for mail in self._patches:
                mails.append(Path(name) / f"{mail.number:04}")
                mails[-1].write_bytes(mail.raw)
            head = apply_patches(self.tree, base, mails)
        return MergeRequest(base=base, head=head, title=_subject(self._first), series=self.path.name)

    def fetch(self, tree: Path, request: MergeRequest) -> None:
        """Do nothing: `merge_request` has seen to it that the commits are there."""

    def check_access(self) -> None:
        """Do nothing: a reply is a file."""

    def publish(self, answer: Answer) -> None:
        """Write the reply: to the author, with everybody who had the series, below its first mail."""
        first = self._first
        message = EmailMessage(policy=email.policy.default.clone(max_line_length=998))
        message["Subject"] = f"Re: {_subject(first)}"
        message["To"] = _addresses(first, "From")
        recipients = ", ".join(filter(None, (_addresses(first, "To"), _addresses(first, "Cc"))))
        if recipients:
            message["Cc"] = recipients
        identity = _header(first, "Message-ID")
        if identity:
            message["In-Reply-To"] = identity
            message["References"] = " ".join(filter(None, (_header(first, "References"), identity)))
        message.set_content(answer.text, cte="8bit")
        self.reply.parent.mkdir(parents=True, exist_ok=True)
        # Not as_string(), which makes base64 of all that is not ASCII: people read the file before they send it.
        files.write_text(self.reply, message.as_bytes().decode("utf-8", "replace"))

    @cached_property
    def _series(self) -> tuple[_Mail, ...]:
        """The mails of the newest version, in order: of two with one number the first. Raises ConfigError.

        Beside numbered ones a patch without a number is somebody's own, such as a robot's mail in the same thread.
        """
        mails = [mail for raw in _mails(self.path) if (mail := _mail(raw))]
        if not mails:
            raise ConfigError(f"{self.path} has no patches: expected mails with a subject like [PATCH v2 1/3]")
        newest = max(mail.version for mail in mails)
        version = [mail for mail in mails if mail.version == newest]
        version = [mail for mail in version if mail.numbers] or version
        _require_one_series(self.path, [mail for mail in version if mail.numbers])
        by_number = {mail.number: mail for mail in reversed(version)}
        count = version[0].count
        gaps = [str(number) for number in range(1, count + 1) if number not in by_number]
        if gaps:
            raise ConfigError(f"{self.path} lacks {', '.join(gaps)} of the {count} patches of version {newest}")
        return tuple(by_number[number] for number in sorted(by_number))

    @property
    def _first(self) -> EmailMessage:
        """The cover letter, or the first patch of a series without one."""
        return self._series[0].message

    @property
    def _patches(self) -> tuple[_Mail, ...]:
        return tuple(mail for mail in self._series if mail.number)

    def _named_base(self) -> str:
        for mail in self._series:
            match = _BASE.search(_text(mail.message))
            if match:
                return match["commit"]
        raise ConfigError(f"{self.path} does not say what it applies to (base-commit:): name it with --base")


def _require_one_series(path: Path, mails: Sequence[_Mail]) -> None:
    """Raise ConfigError if numbered mails are of two series.

    They are if they have two counts, or if two of one number are neither in one thread nor copies. Only mails of the
    file make a thread: two series may both answer a mail that is not there, such as their version before.
    """
    first_of: dict[int, tuple[_Mail, str]] = {}
    for mail, thread in zip(mails, _threads(mails), strict=True):
        first, first_thread = first_of.setdefault(mail.number, (mail, thread))
        is_other = thread != first_thread and mail.content != first.content
        if is_other or mail.count != mails[0].count:
            subjects = f"{_subject((first if is_other else mails[0]).message)!r} and {_subject(mail.message)!r}"
            raise ConfigError(f"{path} has two series: {subjects} do not belong together: leave one in the file")


def _threads(mails: Sequence[_Mail]) -> list[str]:
    """Return the thread of each mail, by the Message-ID of one of them: a mail is in that of each one that it names."""
    names = [mail.identity or f"mail {index}" for index, mail in enumerate(mails)]
    parents = {name: name for name in names}
    for name, mail in zip(names, mails, strict=True):
        for ancestor in mail.ancestors:
            if ancestor in parents:
                parents[_root(ancestor, parents)] = _root(name, parents)
    return [_root(name, parents) for name in names]


def _root(name: str, parents: dict[str, str]) -> str:
    """Return the mail that stands for the thread of a mail; shorten the way to it."""
    while parents[name] != name:
        parents[name] = parents[parents[name]]
        name = parents[name]
    return name


def _mails(path: Path) -> list[bytes]:
    """Return the mails of a mailbox. Raises ConfigError: it cannot be read."""
    try:
        files.read_bytes(path, _LARGEST)  # a regular file, and no endless one
        with contextlib.closing(mailbox.mbox(path, factory=None, create=False)) as box:
            return [_plain_lines(box.get_bytes(key)) for key in box.keys()]  # noqa: SIM118 - it is not a mapping
    except (OSError, mailbox.Error) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _plain_lines(raw: bytes) -> bytes:
    """Return a mail with the line ends that git writes: mail is sent with CRLF, and some programs store it so.

    `git am` removes every carriage return before a line's end. Where the headers have none, they are the patch's own.
    """
    return raw.replace(b"\r\n", b"\n") if raw.partition(b"\n")[0].endswith(b"\r") else raw


def _mail(raw: bytes) -> _Mail | None:
    """Return a mail of a series; None for a reply, and for what is not a patch."""
    message = BytesParser(EmailMessage, policy=email.policy.default).parsebytes(raw)
    subject = _subject(message)
    prefix = _PREFIX.search(subject)
    if prefix is None or re.match(r"(?i)\s*(re|aw|fwd?):", subject):
        return None
    number, version = _NUMBER.search(prefix["words"]), _VERSION.search(prefix["words"])
    return _Mail(
        message=message,
        raw=raw,
        version=int(version["version"]) if version else 1,
        numbers=(int(number["number"]), int(number["count"])) if number else None,
    )


def _subject(message: EmailMessage) -> str:
    return _header(message, "Subject")


def _header(message: EmailMessage, name: str) -> str:
    """Return a header in one line; empty where there is none, or one that cannot be read."""
    return " ".join(str(_parse_header(message, name) or "").split())


def _addresses(message: EmailMessage, name: str) -> str:
    """Return the addresses of a header; what has no address in it is left out, as it may be anything."""
    addresses = (
        address
        for address in getattr(_parse_header(message, name), "addresses", ())
        if address.addr_spec and "@" in address.addr_spec
    )
    return ", ".join(" ".join(str(address).split()) for address in addresses)  # an encoded name may have ends of lines


def _parse_header(message: EmailMessage, name: str) -> object:
    try:
        return message.get(name)
    except Exception:  # noqa: BLE001 - of headers that are wrong Python's parser raises whatever happens in it
        return None


def _text(message: EmailMessage) -> str:
    body = message.get_body(("plain",))
    payload = None if body is None else body.get_payload(decode=True)
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
