# SPDX-License-Identifier: MIT
"""A job as a file, with its artefacts in a directory beside it, for those who submit it by other means.

No server is needed. One that is named looks at the job as before a submission.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rtgate import files as regular_file
from rtgate.errors import ConfigError
from rtgate.lava.client.devices import Lab
from rtgate.lava.client.server import Lava
from rtgate.lava.job.artefacts import Directory
from rtgate.lava.job.definition import lava_of
from rtgate.lava.job.request import new_nonce
from rtgate.lava.job.urls import directory_url
from rtgate.workflow.job_watch import JobWatch
from rtgate.workflow.submission import (
    Submission,
    device_tags,
    look_at_lab,
    plan_job,
    say_unconfirmed,
    writer,
)

JOB = "job.yaml"
ARTEFACTS = "artefacts"


def render_job(submission: Submission, url: str, output: Path, watch: JobWatch) -> Path:
    """Write the job that `submission` is, and what of this machine it boots; return the job's file.

    Args:
        submission: what is measured. Its `options.server` is asked where it names one.
        url: below which the artefacts will be when the job runs; empty if all of them are URLs already.
        output: the directory that gets `job.yaml` and `artefacts/`.
        watch: is told what the lab has, and what nobody has checked.

    Raises:
        ConfigError: what is asked for does not fit together, or the server would refuse the job.
        InfrastructureError: a file cannot be written, the root filesystem is not to be had, or the server is away.
    """
    with ExitStack() as stack:
        plan = plan_job(submission, stack)
        if plan.local and not url:
            raise ConfigError(
                "files of this machine are in the job: say where they will be when it runs, with --artefacts-url URL"
            )
        lava, lab = look_at_lab(submission, watch) if submission.options.server else (None, None)
        store = Directory(output / ARTEFACTS, directory_url(url)) if plan.local else None
        job_writer = writer(plan, store, lab)
    definition = job_writer.job(plan.order, new_nonce(), _tags(submission, lab))
    _validate(lava, definition)
    path = output / JOB
    with regular_file.writing(path):
        output.mkdir(parents=True, exist_ok=True)
        regular_file.write_text(path, definition)
    if store is not None:
        watch.say(f"upload what is in {store.path} to {store.url}")
    _say_unchecked(submission, lava, watch)
    return path


def _tags(submission: Submission, lab: Lab | None) -> tuple[str, ...]:
    if lab is not None:
        return device_tags(submission, lab)
    if submission.device:
        raise ConfigError(
            "--device: only a server knows which tag is this device's alone: name it with --server, or use --tag"
        )
    return submission.tags


def _validate(lava: Lava | None, definition: str) -> None:
    complaint = lava.validate(definition) if lava is not None else ""
    if lava is not None and complaint:
        raise ConfigError(f"{lava.access.url} would refuse the job: {complaint}")


def _say_unchecked(submission: Submission, lava: Lava | None, watch: JobWatch) -> None:
    questions = ["whether the lab's workers can fetch the files"]
    if lava is None:
        say_unconfirmed(submission.board, watch)
        kind = lava_of(submission.board).device_type
        questions += [f"whether the lab has a device of type {kind} that is fit", "what LAVA's schema says of the job"]
    watch.say(f"not checked: {'; '.join(questions)}{'' if lava else ' (--server asks a server)'}")
