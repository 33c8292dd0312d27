# SPDX-License-Identifier: MIT
"""Did virtual time do what it must? One kernel and one seed give one result, and each seed its own."""

from __future__ import annotations

from rtgate.board.boot import State
from rtgate.judge.compare.usable import UsableBoots
from rtgate.judge.judging import Subject
from rtgate.judge.verdict import Finding, Kind, Status
from rtgate.records.record import digest_source

_FEWEST = 4  # seeds, of which half or more are copies, that tell something


def first_mismatch(subject: Subject) -> Finding | None:
    """Return which boot printed something else than an equal one before; None if none did."""
    for record in (*subject.baseline, *subject.records):
        if record.state == State.UNREPEATED:
            sentence = f"not compared: {record.arm}, {record.boot}: {record.message}"
            return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
    return None


def repetition_failure(subject: Subject, boots: UsableBoots) -> Finding | None:
    """Return what virtual time did that it must not do; None if it repeated itself."""
    mismatch = first_mismatch(subject)
    if mismatch:
        return mismatch
    both = (boots.baseline, boots.candidate)
    digests = [{record.seed: digest_source(record) for record in records} for records in both]
    images = {record.kernel.image_sha256 for records in both for record in records}
    if len(images) == 1:
        odd = [seed for seed, digest in digests[0].items() if digests[1].get(seed, digest) != digest]
        if odd:
            sentence = f"virtual time did not repeat: one kernel image, and other data with seed {odd[0]}"
            return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
    # A single number may be the same in all boots; a distribution of thousands of samples is not.
    whole = all(
        any(measurement.histogram for measurement in record.measurements) for records in both for record in records
    )
    for arm in digests if whole else ():
        if len(arm) >= _FEWEST and len(set(arm.values())) <= len(arm) / 2:
            different = len(set(arm.values()))
            sentence = (
                f"{len(arm)} seeds gave {different} different results: duplicate results are not independent boots"
            )
            return Finding(status=Status.ERROR, kind=Kind.VALIDITY, sentence=sentence)
    return None
