# SPDX-License-Identifier: MIT
"""The reference documents' profiles on virtual boards: their limits are applied, and one that is too low FAILs.

Lengths are cut, boards have as many CPUs as the options need; the options are the documents' own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from selftests.integration.conftest import ROOT, rtgate

from rtgate.workflow.verdicts import limits

_LENGTH = "4 s"
_FOUR_CPUS = "virt-arm64-smp4"


@dataclass(frozen=True, kw_only=True)
class Document:
    """A case of a document's profile, and its limit in thresholds.yaml, in units of virtual boards.

    Attributes:
        chosen: what of the suites measures the case, as pytest's `-k` takes it.
    """

    profile: str
    case: str
    chosen: str
    measurement: str
    kind: str
    limit: str
    board: str = "virt-arm64"

    @property
    def unit(self) -> str:
        return self.limit.partition(" ")[2]


DOCUMENTS = [
    Document(
        profile="report-4",
        case="latency/cyclictest:idle",
        chosen="test_cyclictest and idle",
        measurement="latency.max",
        kind="max",
        limit="196 virtual us",
    ),
    Document(
        profile="core-rk3576j",
        case="latency/cyclictest:idle",
        chosen="test_cyclictest and idle",
        measurement="latency.max",
        kind="max",
        limit="14 virtual us",
    ),
    Document(
        profile="oee-rk3568",
        case="signal/signaltest:idle",
        chosen="test_signaltest and idle",
        measurement="roundtrip.max",
        kind="max",
        limit="288 virtual us",
        board=_FOUR_CPUS,
    ),
    Document(
        profile="guide",
        case="nvme/fio-read:idle",
        chosen="test_fio and test_read",
        measurement="bandwidth",
        kind="min",
        limit="1434 virtual MB/s",
    ),
    Document(
        profile="nuc",
        case="latency/cyclictest:idle",
        chosen="test_cyclictest and idle",
        measurement="latency.max",
        kind="max",
        limit="556 virtual us",
    ),
]


def _site(directory: Path, document: Document) -> Path:
    """Write a site with the document's profile, shorter, and with the board if it is not shipped."""
    profile = yaml.safe_load((ROOT / "profiles.yaml").read_text())[document.profile]
    (directory / "boards").mkdir()
    (directory / "profiles.yaml").write_text(yaml.safe_dump({document.profile: {**profile, "duration": _LENGTH}}))
    two = (ROOT / "boards" / "virt-arm64-smp2.yaml").read_text()
    (directory / "boards" / f"{_FOUR_CPUS}.yaml").write_text(two.replace("\ncpus: 2\n", "\ncpus: 4\n"))
    return directory


def _limits(path: Path, document: Document, limit: str, options: Mapping[str, str]) -> Path:
    entry = {"measurement": document.measurement, "kind": document.kind, "limit": limit, "source": "the test"}
    by_case = {document.case: [{**entry, **options}]}
    path.write_text(yaml.safe_dump({document.board: {"preempt_rt": by_case}}))
    return path


@pytest.mark.long("a profile of each document, five boots; unit tests replay what the documents print")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.profile)
def test_a_limit_of_a_document_below_what_was_measured_fails(
    document: Document, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kernel = request.getfixturevalue("pcie_kernel" if document.profile == "guide" else "kernel")
    site = _site(tmp_path, document)
    words = ["--site", site, "measure", "--board", document.board, "--kernel", kernel, "--profile", document.profile]
    done = rtgate(*words, "-k", document.chosen, "--seeds", "1", "-o", tmp_path / "measured")
    assert done.returncode == 0

    def judged(limit: str, **options: str) -> tuple[int, dict[str, Any]]:
        thresholds = _limits(tmp_path / "limits.yaml", document, limit, options)
        verdict = tmp_path / "verdict.json"
        words = ["judge", tmp_path / "measured" / "records", "--thresholds", thresholds, "--verdict", verdict]
        code = rtgate("--site", site, *words).returncode
        found = json.loads(verdict.read_text())["verdicts"]
        (mine,) = [one for one in found if one["kind"] in {"limit", "limit not applied"}]
        return code, mine

    own = {} if document.profile == "guide" else {"profile": document.profile}
    assert document.limit.replace("virtual ", "") in {
        str(limit.limit)
        for limit in limits(None).entries
        if (limit.profile, limit.case.partition("+")[0], limit.measurement)
        == (own.get("profile", ""), document.case, document.measurement)
    }
    _, applied = judged(document.limit, **own)
    assert (applied["kind"], applied["measurement"]) == ("limit", document.measurement)
    measured, factor = applied["value"]["number"], 0.5 if document.kind == "max" else 2
    code, broken = judged(f"{measured * factor:.6f} {document.unit}", **own)
    assert (code, broken["status"], broken["kind"]) == (1, "FAIL", "limit")
    code, kept = judged(f"{measured / factor:.6f} {document.unit}", **own)
    assert (code, kept["status"]) == (0, "PASS")
    if own:
        code, other = judged(f"{measured / factor:.6f} {document.unit}")
        assert (code, other["status"], other["kind"]) == (5, "DONE", "limit not applied")
