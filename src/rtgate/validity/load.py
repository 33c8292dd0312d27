# SPDX-License-Identifier: MIT
"""Validity check: the load ran all the time, with all of its processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from rtgate.records.evidence import LoadSample
from rtgate.records.record import Record
from rtgate.tools import loads
from rtgate.validity.check import Answer, Invalidates, ValidityCheck, answer_for
from rtgate.validity.plan_files import MOMENTS, stats, text

_LONGEST = 2000  # characters of a load's output that a record keeps


def load_seen(files: Mapping[str, bytes]) -> tuple[LoadSample, ...]:
    """Return how many processes of the load were alive at each look, and the time that all of it had used."""
    return tuple(_looked_at(files, moment) for moment in MOMENTS if f"processes.{moment}" in files)


def _looked_at(files: Mapping[str, bytes], moment: str) -> LoadSample:
    session = text(files, "load.pid")  # the process id that the plan wrote down is the session's
    ours = [fields for _, fields in stats(files, f"processes.{moment}") if session and fields[3] == session]
    alive = [fields for fields in ours if fields[0] not in {"Z", "X"}]
    # utime, stime, and those of children that were waited for (fields 14 to 17 of proc(5))
    return LoadSample(
        moment=moment, processes=len(alive), ticks=sum(int(value) for fields in ours for value in fields[11:15])
    )


def load_output(files: Mapping[str, bytes]) -> str:
    """Return the end of what the load printed."""
    return text(files, "load.out")[-_LONGEST:]


def load_ended(files: Mapping[str, bytes]) -> int | None:
    """Return the exit code of a load that ended by itself, where the plan waited for it."""
    code = text(files, "load.ended")
    return int(code) if re.fullmatch(r"[0-9]{1,3}", code) else None


def _judge(record: Record) -> Answer:
    name = record.evidence.load
    if name == "idle":
        return answer_for("", "no load was asked for")
    samples = {entry.moment: entry for entry in record.evidence.load_seen}
    problem = _load_problem(record, samples)
    ticks = max(entry.ticks for entry in samples.values()) - samples["start"].ticks if not problem else 0
    return answer_for(problem, f"{name} ran all the time and used {ticks} clock ticks of CPU")


def _load_problem(record: Record, samples: Mapping[str, LoadSample]) -> str:
    name, least = record.evidence.load, record.evidence.load_processes
    complaint = _load_complaint(record)
    if complaint:
        return complaint
    missing_moments = [moment for moment in ("start", "middle", "end") if moment not in samples]
    if missing_moments:
        return f"the load {name} was not looked at ({', '.join(missing_moments)})"
    dead = [moment for moment, entry in samples.items() if entry.processes == 0]
    if dead:
        return f"the load {name} had no process left ({', '.join(dead)} of the measurement)"
    fewest = min(entry.processes for moment, entry in samples.items() if moment != "start")
    if fewest < least:
        return f"the load {name} had {fewest} processes of the {least} that it has when all of it runs"
    # Any rise will do, and a fall means nothing: processes are looked at one after the other, and the time of one that
    # ends meanwhile is seen neither in it nor in its parent.
    looks = [samples[moment] for moment in ("middle", "late", "end") if moment in samples]
    if all(later.ticks <= earlier.ticks for earlier, later in pairwise(looks)):
        return f"the load {name} used no CPU time while the tool measured"
    return ""


def _load_complaint(record: Record) -> str:
    """Return what is wrong with a load by its own account, and by how it ended; empty if nothing is."""
    name, code = record.evidence.load, record.evidence.load_ended
    complaint = loads.complaint(record.evidence.load_output)
    if complaint:
        return f"the load {name} reported an error: {complaint}"
    return "" if code is None else f"the load {name} ended by itself with exit code {code}"


CHECK = ValidityCheck(
    name="load",
    holds="the load's session had processes at the start, and all of them at the middle and the end. It used CPU time",
    invalidates=Invalidates.GOOD_NEWS,
    judge=_judge,
)
