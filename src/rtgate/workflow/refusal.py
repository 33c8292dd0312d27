# SPDX-License-Identifier: MIT
"""The answer to a merge request that could not be reviewed: what is wrong, and who must act."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rtgate import files
from rtgate.errors import ConfigError, InfrastructureError, RtgateError
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.judge.verdict import Kind, Status
from rtgate.kernel.merge import ConflictError
from rtgate.report.note import About, note
from rtgate.report.note_markdown import as_markdown
from rtgate.report.note_text import as_text
from rtgate.workflow.report_directory import lock, require_report_directory
from rtgate.workflow.review_builds import build_verdict

_DUTIES: tuple[tuple[type[RtgateError], str], ...] = (
    (ConfigError, "Whoever wrote the file, the commit or the option that it names must act."),
    (InfrastructureError, "Whoever runs this machine, or the lab, must act."),
    (RtgateError, "Whoever maintains rtgate here must act."),
)


def refusal(error: RtgateError, request: MergeRequest | None = None) -> Answer:
    """Return the answer where `error` ended a review; `request` is None where even that could not be found out.

    A series that does not apply is its author's failure, like any conflict.
    """
    merge_request = request or MergeRequest(base="", head="")
    about = About(
        base="", candidate="", name=merge_request.name, title=merge_request.title, target=merge_request.target
    )
    if isinstance(error, ConflictError):
        verdicts = [build_verdict("", Status.FAIL, str(error), Kind.MERGE)]
        review_note = note(about, [], verdicts, error.exit_code)
    else:
        duty = next(text for kind, text in _DUTIES if isinstance(error, kind))
        lines = (*(line for line in str(error).split("\n") if line), f"{duty} The kernel was not judged.")
        review_note = note(replace(about, obstacle=lines), [], [], error.exit_code)
    return Answer(exit_code=error.exit_code, markdown=as_markdown(review_note), text=as_text(review_note))


def leave(answer: Answer, output: Path) -> Path | None:
    """Write a refusal into the report's directory; return the note's file.

    None where the directory has an older report, which a mistake must not take away, or cannot be written.
    """
    try:
        require_report_directory(output)
        with lock(output):
            if (output / "verdict.json").exists():
                return None
            write_answer(answer, output)
    except (ConfigError, InfrastructureError, OSError):
        return None
    return output / "note.md"


def write_answer(answer: Answer, output: Path) -> None:
    """Write both forms of an answer into the report's directory. Raises OSError."""
    files.write_text(output / "note.md", answer.markdown)
    files.write_text(output / "note.txt", answer.text)
