# SPDX-License-Identifier: MIT
"""A review from commits to the answer, with kernels that are not built and a QEMU that plays back a boot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from selftests.suites_in_process import use_this_process
from selftests.unit.cli.conftest import Lab, _forget_qemu, _undrawn, lab
from selftests.unit.kernel.test_merge import Repository

from rtgate.cli import main
from rtgate.cli import review as review_command
from rtgate.errors import BuildError, ChangedError, ConfigError, InfrastructureError, RtgateError
from rtgate.forge.merge_request import Answer, MergeRequest
from rtgate.kernel.build_limits import BuildLimits
from rtgate.kernel.work import Options
from rtgate.report import html
from rtgate.report.notices import say
from rtgate.rootfs import images
from rtgate.workflow import gate, kernels
from rtgate.workflow.judging import Judging, JudgingRequest, judge_run
from rtgate.workflow.review import ReviewRequest
from rtgate.workflow.suite_process import Batch, Suites

__all__ = ["_forget_qemu", "_undrawn", "lab"]

LIMITS = """\
virt-arm64:
  preempt_rt:
    latency/cyclictest:idle:
      - {measurement: latency.max, kind: max, limit: 90 virtual us, source: "test"}
"""
POLICY = """\
screen:
  - {board: virt-arm64, profile: smoke, select: idle}
unproven: allow
"""


class Builds:
    """Stands in for building kernels: by the text of a commit's file `late` they are slow, or do not build."""

    def __init__(self, lab: Lab, repository: Repository) -> None:
        self.made: list[tuple[str, str]] = []
        self.trusted: list[bool] = []
        self.terms: list[tuple[BuildLimits, Path]] = []
        self._lab = lab
        self._repository = repository

    def __call__(self, build: str, repository: Path, commit: str, label: str, options: Options, place: Path) -> Path:
        self.made.append((build, label))
        self.terms.append((options.limits, place))
        self.trusted.append(options.trusted)
        text = self._repository.git("show", f"{commit}:kernel/time.c")
        if text in ("broken", f"broken in {build}"):
            log = self._lab.kernel.with_name("build.log")
            log.write_text(f"build {len(self.made)}, of {label}")
            raise BuildError("kernel/time.c:12: error: expected ';'\n  make: *** /merge", log)
        if text == f"no tree for {build}":
            raise ConfigError("it is not a kernel tree: it has no Kconfig")
        directory = self._lab.kernel.with_name(f"kernel-{text}")
        directory.mkdir(exist_ok=True)
        (directory / "Image").write_bytes((self._lab.kernel / "Image").read_bytes() + text.encode())
        return directory


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "linux").mkdir()
    made = Repository(tmp_path / "linux")
    made.commit("policy", **{".rtgate/policy.yaml": POLICY, ".rtgate/thresholds.yaml": LIMITS})
    return made


@pytest.fixture
def builds(lab: Lab, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Builds:
    made = Builds(lab, repository)
    monkeypatch.setattr(kernels, "build_commit", made)
    use_this_process(monkeypatch)
    monkeypatch.setattr(html, "generate", lambda _, output, __=None: output / "index.html")
    return made


def _review(*words: str) -> int:
    return main.main(["review", "--tree", "linux", "--base", "main", "--head", "mine", *words])


def _left() -> tuple[dict[str, Any], str, str]:
    report = Path("report")
    note = (report / "note.md").read_text()
    return json.loads((report / "verdict.json").read_text()), note, (report / "note.txt").read_text()


def test_a_harmless_change_passes_and_leaves_report_and_note(
    repository: Repository, builds: Builds, capfd: pytest.CaptureFixture[str]
) -> None:
    repository.branch("mine")
    repository.commit("timers: be tidy", **{"kernel/time.c": "two"})
    assert _review() == 0
    verdict, markdown, text = _left()
    assert verdict["exit_code"] == 0
    assert builds.made == [("virt-arm64-preempt_rt", "base"), ("virt-arm64-preempt_rt", "candidate")]
    assert builds.trusted == [True, True]
    assert markdown.startswith("**")
    assert "`timers: be tidy`" in markdown
    assert "| virt-arm64 | latency/cyclictest:idle | mean |" in markdown
    assert "rtgate review --tree . --base" in text
    assert Path("report/junit.xml").is_file()
    told = capfd.readouterr().err
    assert told.index("harmless changes of latency/cyclictest:idle on virt-arm64: ") < told.index("seed 1")
    assert "rtgate placebos learn --board virt-arm64 --tree " in told


@pytest.mark.long("two reviews with a fake QEMU")
def test_what_one_of_a_merge_train_was_is_the_baseline_of_the_next_and_is_not_measured_again(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RTGATE_KEEP_BOOTS", raising=False)
    boots = Path("cache/boots")
    repository.branch("mine")
    repository.commit("timers: be tidy", **{"kernel/time.c": "two"})
    assert _review() == 0
    of_two_kernels = {*boots.iterdir()}
    repository.git("checkout", "--quiet", "-b", "next", "mine")
    repository.commit("timers: be tidier", **{"kernel/time.c": "three"})
    assert main.main(["review", "--tree", "linux", "--base", "mine", "--head", "next", "-o", "another"]) == 0
    of_three_kernels = {*boots.iterdir()}
    assert of_two_kernels < of_three_kernels
    assert 2 * len(of_three_kernels) == 3 * len(of_two_kernels)


@pytest.mark.parametrize(("text", "code"), [("two", 3), ("broken", 1)])
def test_a_root_filesystem_that_cannot_be_had_is_said_and_what_does_not_build_still_fails(
    repository: Repository,
    builds: Builds,
    text: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def image(*_: Any, **__: Any) -> None:
        raise InfrastructureError("no mirror of Debian")

    monkeypatch.setattr(images, "image", image)
    repository.branch("mine")
    repository.commit("timers: be tidy", **{"kernel/time.c": text})
    assert _review() == code
    assert "nothing can be measured on virt-arm64, kernels are built all the same: no mirror" in capsys.readouterr().err
    assert builds.made


@pytest.mark.parametrize("name", ["index.html", "summary.html"])
def test_the_answer_links_the_page_that_the_report_has(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def generate(_results: Path, output: Path) -> Path:
        if name == "summary.html":
            raise html.NoAllureError("no Node")
        (output / name).touch()
        return output / name

    monkeypatch.setattr(html, "generate", generate)
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken"})
    assert _review("--report-url", "https://example.org/4711-3/") == 1
    for text in _left()[1:]:
        assert f"https://example.org/4711-3/{name}" in text


def test_the_policy_says_what_a_build_may_take_and_the_command_line_where_it_goes(
    repository: Repository, builds: Builds, tmp_path: Path
) -> None:
    repository.commit("limits", **{".rtgate/policy.yaml": POLICY + "build_time: 20 min\nbuild_disk: 2 GiB\n"})
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken"})
    assert _review("--kernels", str(tmp_path / "kept")) == 1
    limits = BuildLimits(time_s=1200.0, disk=2 << 30)
    assert builds.terms == [(limits, tmp_path / "kept")] * 2


@pytest.mark.parametrize("sections", [True, False])
def test_the_policy_says_whether_critical_sections_are_judged(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch, *, sections: bool
) -> None:
    followed: list[str] = []

    def follow_sections(boards: Sequence[str], *_: object) -> bool:
        followed.extend(boards)
        return False

    monkeypatch.setattr(gate, "follow_sections", follow_sections)
    policy = POLICY.replace("select: idle", f"select: idle, sections: {str(sections).lower()}")
    repository.commit("sections", **{".rtgate/policy.yaml": policy})
    repository.branch("mine")
    repository.commit("timers: be tidy", **{"kernel/time.c": "two"})
    assert _review() == 0
    assert builds.made
    assert followed == (["virt-arm64"] if sections else [])


def test_a_slow_kernel_fails_by_the_limits_of_the_target_branch(repository: Repository, builds: Builds) -> None:
    """The merge request lifts the limit that it breaks: that does not count, and is said."""
    repository.branch("mine")
    repository.commit("be late", **{"kernel/time.c": "slow", ".rtgate/thresholds.yaml": LIMITS.replace("90", "900")})
    assert _review() == 1
    verdict, markdown, _ = _left()
    assert [(one["status"], one["kind"]) for one in verdict["verdicts"]][:1] == [("FAIL", "limit")]
    assert "It changes `.rtgate/thresholds.yaml`: the files of the target branch counted." in markdown
    assert markdown.startswith("**FAIL: the kernel breaks a limit")


def test_which_policy_counts_is_said(
    repository: Repository, builds: Builds, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken"})
    _review()
    base = repository.git("rev-parse", "main").strip()
    assert f"rtgate: policy: {base[:12]}:.rtgate/policy.yaml\n" in capsys.readouterr().err
    repository.git("checkout", "-q", "main")
    repository.git("rm", "-q", ".rtgate/policy.yaml")
    repository.git("commit", "-qm", "no policy")
    base = repository.git("rev-parse", "main").strip()
    _review()
    assert f"policy: rtgate's default, as {base[:12]} has no .rtgate/policy.yaml\n" in capsys.readouterr().err


def test_a_policy_of_the_directory_it_is_called_in_does_not_count(
    repository: Repository, builds: Builds, tmp_path: Path
) -> None:
    """As in a pipeline, where the clone holds the merge request's own files."""
    (tmp_path / ".rtgate").mkdir()
    (tmp_path / ".rtgate" / "policy.yaml").write_text("wrong: yes\n")
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two"})
    assert _review() == 0


def test_what_does_not_build_is_the_kernel_s_failure(repository: Repository, builds: Builds) -> None:
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken"})
    assert _review() == 1
    verdict, markdown, text = _left()
    assert [(one["status"], one["kind"], one["board"]) for one in verdict["verdicts"]] == [
        ("FAIL", "build", "virt-arm64")
    ]
    assert markdown.startswith("**FAIL: the kernel cannot be built**")
    log = "build-logs/virt-arm64-preempt_rt-candidate.log"
    shown = f"FAIL virt-arm64: kernel/time.c:12: error: expected ';'\n  make: *** /merge (log: {log} of the report)\n"
    assert f"```text\n{shown}```" in markdown
    assert Path("report", log).read_text() == "build 2, of candidate"
    assert _review() == 1, "the report's own directory is known again"
    assert "  FAIL virt-arm64: kernel/time.c:12: error: expected ';'\n" in text
    assert Path("report/junit.xml").read_text().count("<failure") == 1


def test_a_baseline_that_does_not_build_is_nobody_s_pass(repository: Repository, builds: Builds) -> None:
    repository.commit("broken before", **{"kernel/time.c": "broken"})
    repository.branch("mine")
    repository.commit("mended", **{"kernel/time.c": "two"})
    assert _review() == 3
    verdict, _, _ = _left()
    assert verdict["verdicts"][0]["sentence"].startswith("the baseline cannot be built: kernel/time.c:12: error")


@pytest.mark.parametrize(
    ("before", "code", "sentence"),
    [
        ("one", 1, "virt-arm64-generic: kernel/time.c:12"),
        (
            "broken in virt-arm64-generic",
            3,
            "virt-arm64-generic can be built neither before nor after: kernel/time.c:12",
        ),
    ],
)
def test_a_build_that_nobody_boots_must_not_break(
    repository: Repository, builds: Builds, before: str, code: int, sentence: str
) -> None:
    policy = {".rtgate/policy.yaml": POLICY + "builds: [virt-arm64-generic]\n"}
    repository.commit("another build", **{**policy, "kernel/time.c": before})
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken in virt-arm64-generic", "README": "mine"})
    assert _review() == code
    verdict, _, _ = _left()
    (found,) = (one for one in verdict["verdicts"] if one["kind"] == "build")
    assert found["sentence"].startswith(sentence)


def test_a_conflict_is_answered_without_building_anything(repository: Repository, builds: Builds) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two"})
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"kernel/time.c": "three"})
    assert _review() == 1
    assert builds.made == []
    _, markdown, _ = _left()
    assert "conflicts in kernel/time.c: rebase it" in markdown
    assert markdown.startswith("**FAIL: the kernel does not merge into its target branch**\n\n`mine`")


def test_nothing_of_a_merge_request_that_conflicts_is_read_or_run(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a forge's pipeline checks out the merge request, it is the current directory."""
    repository.branch("mine")
    theirs = {
        ".rtgate/thresholds.yaml": "virt-arm64:\n  preempt_rt:\n    latency/theirs:idle: []\n",
        ".rtgate/waivers.yaml": "- case: latency/theirs:idle\n",
        ".rtgate/tools/theirs.py": "from pathlib import Path\nPath('was-here').touch()\n",
    }
    repository.commit("mine", **{"kernel/time.c": "two", **theirs})
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"kernel/time.c": "three"})
    repository.git("checkout", "--quiet", "mine")
    monkeypatch.chdir("linux")
    assert main.main(["review", "--base", "main", "--head", "mine", "-o", "../report", "--untrusted"]) == 1
    assert not Path("was-here").exists()
    assert builds.made == []


def test_a_mistake_in_the_policy_is_said_with_its_place(
    repository: Repository, builds: Builds, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("wrong", **{".rtgate/policy.yaml": "screen: []\n"})
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two"})
    assert _review() == 2
    assert ".rtgate/policy.yaml:1:9: names no board: nothing would be measured" in capsys.readouterr().err
    assert builds.made == []


@pytest.mark.parametrize("name", ["thresholds.yaml", "waivers.yaml", "placebos.yaml"])
def test_a_mistake_in_what_judges_is_said_before_anything_is_built(
    repository: Repository, builds: Builds, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("wrong", **{f".rtgate/{name}": "wrong: yes\n"})
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two"})
    assert _review() == 2
    assert f".rtgate/{name}:1:1: " in capsys.readouterr().err
    assert builds.made == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--base", "main"), "name the commits: --base"),
        (("--head", "mine"), "name the commits: --base"),
        ((), "name the commits: --base"),
        (("--head", "mine", "--series", "v2.mbox"), "--series and --head both say"),
        (("--forge", "gitlab", "--base", "main"), "--forge gitlab says what is proposed"),
        (("--forge", "github"), "GITHUB_EVENT_NAME is not set: `--forge github` needs a job of GitHub Actions"),
        (("--series", "v2.mbox"), "v2.mbox"),
    ],
)
def test_what_is_proposed_must_be_named_once(
    repository: Repository, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["review", "--tree", "linux", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_waiver_of_the_target_branch_lets_a_failure_pass_and_is_shown(repository: Repository, builds: Builds) -> None:
    entry = (
        "- {board: virt-arm64, case: 'latency/cyclictest:idle', largest: 120 virtual us, owner: a, reason: known,"
        " link: 'https://example.org/1', expires: 2999-12-31}\n"
    )
    repository.commit("waive it", **{".rtgate/waivers.yaml": entry})
    repository.branch("mine")
    repository.commit("be late", **{"kernel/time.c": "slow"})
    assert _review() == 0
    verdict, markdown, _ = _left()
    assert [(one["status"], one["kind"]) for one in verdict["verdicts"]][:1] == [("DONE", "waived")]
    assert "**What is waived**\n\n```text\nDONE virt-arm64 latency/cyclictest:idle: known (a, until" in markdown


def test_a_waiver_of_the_merge_request_itself_does_not_count(repository: Repository, builds: Builds) -> None:
    repository.branch("mine")
    entry = "- {board: virt-arm64, case: 'latency/cyclictest:idle', largest: 1 s, owner: a, reason: b, link: c, "
    entry += "expires: 2999-12-31}\n"
    repository.commit("be late", **{"kernel/time.c": "slow", ".rtgate/waivers.yaml": entry})
    assert _review() == 1


def test_the_first_commit_that_does_not_build_is_named(repository: Repository, builds: Builds) -> None:
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two"})
    guilty = repository.commit("be broken @all", **{"kernel/time.c": "broken"})
    for number in range(3):
        repository.commit(f"more {number}", README=str(number))
    assert _review() == 1
    _, markdown, _ = _left()
    told = f"{guilty[:12]} be broken @all (commit 2 of 5, found by 2 further gates)"
    assert f"**The first commit that fails**\n\n```text\n{told}\n```" in markdown
    (log,) = Path("report/build-logs").iterdir()
    assert log.read_text() == "build 2, of candidate"  # the answer names it, and not what was built to bisect


def test_a_commit_that_conflicts_by_itself_is_not_taken_for_the_guilty_one(
    repository: Repository, builds: Builds
) -> None:
    """The last commit takes the conflict of the others away, and is broken."""
    repository.branch("mine")
    repository.commit("conflicting", **{"shared.c": "mine"})
    repository.commit("conflicting still", README="1")
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"shared.c": "theirs"})
    repository.git("checkout", "--quiet", "mine")
    repository.git("rm", "--quiet", "shared.c")
    (repository.place / "kernel/time.c").write_text("broken")
    guilty = repository.commit("be broken")
    assert _review() == 1
    _, _, text = _left()
    assert (
        f"{guilty[:12]} be broken (commit 3 of 3, found by 0 further gates), or commit 1 to 2; not tried: commit 1 "
        "conflicts with the target branch, commit 2 conflicts with the target branch"
    ) in " ".join(text.split())


@pytest.mark.long("four measurements with a fake QEMU; that a broken build is bisected is in make test")
def test_the_first_commit_that_is_slow_is_named(repository: Repository, builds: Builds) -> None:
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two"})
    repository.commit("be tidier", **{"kernel/time.c": "three"})
    guilty = repository.commit("be late", **{"kernel/time.c": "slow"})
    assert _review() == 1
    _, _, text = _left()
    assert f"The first commit that fails:\n  {guilty[:12]} be late (commit 3 of 3, found by 2 further gates)\n" in text


@pytest.mark.long("three measurements with a fake QEMU")
def test_a_limit_that_the_target_branch_breaks_is_no_commit_s_fault(
    repository: Repository, builds: Builds, capfd: pytest.CaptureFixture[str]
) -> None:
    repository.commit("be late already", **{"kernel/time.c": "slow"})
    repository.branch("mine")
    repository.commit("be tidy", README="two")
    repository.commit("be tidier", **{"kernel/time.c": "slow two"})
    assert _review() == 1
    verdict, markdown, _ = _left()
    assert "the baseline breaks this limit too" in str(verdict)
    assert "first commit that fails" not in markdown
    assert (
        "not bisected: the target branch fails latency/cyclictest:idle on virt-arm64 as well" in capfd.readouterr().err
    )


@pytest.mark.long("two measurements with a fake QEMU")
def test_a_commit_that_was_not_measured_is_neither_good_nor_bad(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Suites.measure

    def fail_to_measure(suites: Suites, batch: Batch) -> bool:
        tried_one = suites.output.parent.name == "bisect" and suites.output.name != "target-branch"
        return False if tried_one else measure(suites, batch)

    monkeypatch.setattr(Suites, "measure", fail_to_measure)
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two"})
    guilty = repository.commit("be late", **{"kernel/time.c": "slow"})
    assert _review() == 1
    _, _, text = _left()
    assert (
        f"{guilty[:12]} be late (commit 2 of 2, found by 0 further gates), or commit 1; not tried: commit 1 was not"
        in (" ".join(text.split()))
    )


def test_what_nobody_has_read_is_built_in_confinement_and_its_baseline_alike(
    repository: Repository, builds: Builds
) -> None:
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken"})
    assert _review("--untrusted") == 1
    assert builds.trusted == [False, False]


@pytest.mark.parametrize("name", ["report/verdict.json", "build/x/build.json", "cache/boots/x.gz", "cache"])
def test_files_of_the_clone_are_not_taken_for_what_rtgate_keeps(
    repository: Repository,
    builds: Builds,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a pipeline the current directory is the merge request's, and it may have planted boots or a slow baseline."""
    monkeypatch.setenv("RTGATE_CACHE", str(repository.place / "cache"))
    monkeypatch.chdir(repository.place)
    repository.branch("mine")
    repository.commit("plant", **{"kernel/time.c": "two", name: "{}"})
    assert main.main(["review", "--base", "main", "--head", "mine"]) == 2
    assert f"the clone has {name!r}" in capsys.readouterr().err
    assert builds.made == []


@pytest.mark.parametrize("more", ["", "builds: [virt-arm64-generic]\n"])
def test_a_merge_request_that_is_no_kernel_any_more_is_its_author_s_to_mend(
    repository: Repository, builds: Builds, more: str
) -> None:
    """What was built before and cannot be built now is not a mistake of whoever maintains the pipeline."""
    repository.commit("more", **{".rtgate/policy.yaml": POLICY + more, "README": "0"})
    repository.branch("mine")
    repository.commit("first", README="1")
    build = "virt-arm64-generic" if more else "virt-arm64-preempt_rt"
    repository.commit("remove Kconfig", **{"kernel/time.c": f"no tree for {build}"})
    assert _review() == 1
    _, markdown, _ = _left()
    assert "it is not a kernel tree" in markdown


def test_a_further_build_that_can_be_made_of_neither_commit_takes_no_verdict_away(
    repository: Repository, builds: Builds
) -> None:
    """Its patch series may apply to neither."""
    neither = {"kernel/time.c": "no tree for virt-arm64-generic"}
    repository.commit("more", **{".rtgate/policy.yaml": POLICY + "builds: [virt-arm64-generic]\n", **neither})
    repository.branch("mine")
    repository.commit("be tidy", README="1")
    assert _review() == 3
    verdict, markdown, _ = _left()
    assert "virt-arm64-generic can be built neither before nor after" in markdown
    assert any(entry["case"] == "latency/cyclictest:idle" for entry in verdict["verdicts"])


@pytest.mark.parametrize(("before", "code"), [("one\n", 1), ("broken in virt-arm64-generic", 3)])
def test_a_kernel_that_cannot_be_built_for_a_board_is_answered(
    repository: Repository, builds: Builds, before: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGATE_LAVA_URL", "http://lava.invalid")
    monkeypatch.setenv("RTGATE_LAVA_TOKEN", "0123456789abcdef")
    board = "boards:\n  - {board: lab-virt-arm64, build: virt-arm64-generic, cases: all}\n"
    repository.commit("a board", **{".rtgate/policy.yaml": POLICY + board, "kernel/time.c": before})
    repository.branch("mine")
    repository.commit("break it", **{"kernel/time.c": "broken in virt-arm64-generic", "README": "1"})
    assert _review() == code
    verdict, markdown, _ = _left()
    (found,) = (one for one in verdict["verdicts"] if one["kind"] == "build")
    assert (found["status"], found["board"]) == ("FAIL" if code == 1 else "MISS", "lab-virt-arm64")
    assert "kernel/time.c:12: error" in markdown


@pytest.mark.parametrize(
    ("keys", "message"),
    [("budget: 5 min", "the boots of lab-virt-arm64 alone take"), ("suites: [latenci]", "unknown value 'latenci'")],
)
def test_a_board_of_the_policy_that_cannot_work_is_said_before_anything_is_built(
    repository: Repository,
    builds: Builds,
    keys: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RTGATE_LAVA_URL", "http://lava.invalid")
    monkeypatch.setenv("RTGATE_LAVA_TOKEN", "0123456789abcdef")
    board = f"boards:\n  - {{board: lab-virt-arm64, build: virt-arm64-generic, {keys}}}\n"
    repository.commit("a board", **{".rtgate/policy.yaml": POLICY + board})
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two"})
    assert _review() == 2
    assert message in capsys.readouterr().err
    assert builds.made == []


def test_the_history_is_what_everything_is_judged_by(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def judged(request: JudgingRequest) -> Judging:
        asked.append(request.criteria.history)
        return judge_run(request)

    monkeypatch.setattr("rtgate.workflow.review.judge_run", judged)
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken"})
    assert _review("--history", "sqlite:///history.db") == 1
    assert asked == ["sqlite:///history.db"]  # once: no board of a lab is asked by what the screen says


def test_a_history_that_cannot_be_opened_is_said_before_anything_is_built(
    repository: Repository, builds: Builds, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two"})
    assert _review("--history", "sqlite:///nowhere/history.db") == 2
    assert "nowhere does not exist" in capsys.readouterr().err
    assert builds.made == []


def test_what_was_measured_stands_though_a_later_board_s_emulator_is_replaced(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that was upgraded meanwhile is nobody's regression, and hides none."""
    run = gate.run_gate

    def upgrade_before_the_second(suites: Suites, *words: Any, **options: Any) -> Any:
        if suites.options.board == "virt-arm64-smp2":
            raise ChangedError("qemu-system-aarch64 is not what the run began with")
        return run(suites, *words, **options)

    monkeypatch.setattr("rtgate.workflow.review.run_gate", upgrade_before_the_second)
    policy = POLICY.replace("unproven", "  - {board: virt-arm64-smp2, profile: smoke, select: idle}\nunproven")
    repository.commit("two boards", **{".rtgate/policy.yaml": policy})
    repository.branch("mine")
    repository.commit("be slow", **{"kernel/time.c": "slow"})
    assert _review() == 1
    verdicts, note, _ = _left()
    said = {(one["board"], one["status"]) for one in verdicts["verdicts"]}
    assert {("virt-arm64", "FAIL"), ("virt-arm64-smp2", "ERROR")} <= said
    assert "is not what the run began with" in note


class Refusing:
    """A forge that takes no answer."""

    def __init__(self, error: RtgateError) -> None:
        self._error = error

    def merge_request(self) -> MergeRequest:
        return MergeRequest(base="main", head="mine")

    def fetch(self, tree: Path, request: MergeRequest) -> None:
        pass

    def check_access(self) -> None:
        pass

    def publish(self, answer: Answer) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("of_review", "error", "code"),
    [
        (0, InfrastructureError("away"), 3),
        (5, InfrastructureError("away"), 3),
        (5, ConfigError("refused"), 2),
        (1, InfrastructureError("away"), 1),
        (4, InfrastructureError("away"), 4),
    ],
)
def test_an_answer_that_was_not_published_is_never_less_than_that(
    of_review: int, error: RtgateError, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A review that ended with 5 is yellow: a forge that was away must not look like it."""
    answer = Answer(exit_code=of_review, markdown="", text="")
    monkeypatch.setattr(review_command, "review", lambda _: answer)
    monkeypatch.setattr(review_command, "_forge", lambda _: Refusing(error))
    assert main.main(["review"]) == code


class Recording:
    """A forge that keeps its answers; its merge request is `mine`, or an error."""

    def __init__(self, error: RtgateError | None = None, access: RtgateError | None = None) -> None:
        self.answers: list[Answer] = []
        self._error = error
        self.access = access

    def merge_request(self) -> MergeRequest:
        if self._error:
            raise self._error
        return MergeRequest(base="main", head="mine", name="!7", title="be tidy", target="main")

    def fetch(self, tree: Path, request: MergeRequest) -> None:
        pass

    def check_access(self) -> None:
        if self.access:
            raise self.access

    def publish(self, answer: Answer) -> None:
        self.answers.append(answer)


def test_a_mistake_in_the_policy_is_an_answer_that_says_whose_file_it_is(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = repository.commit("wrong", **{".rtgate/policy.yaml": "screen: []\n"})
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two"})
    forge = Recording()
    monkeypatch.setattr(review_command, "_forge", lambda _: forge)
    assert main.main(["review", "--tree", "linux"]) == 2
    told = f"{base[:12]}:.rtgate/policy.yaml:1:9: names no board: nothing would be measured"
    assert told in capsys.readouterr().err
    (answer,) = forge.answers
    assert answer.exit_code == 2
    assert " ".join(answer.text.split()) == (
        f"ERROR: wrong usage or configuration !7: be tidy Why nothing was reviewed: {told} "
        "Whoever wrote the file, the commit or the option that it names must act. The kernel was not judged."
    )
    assert "`be tidy`" in answer.markdown
    assert told[:70] in answer.markdown


@pytest.mark.parametrize(
    ("error", "code", "answers"),
    [
        (ConfigError("the clone lacks it"), 2, 1),
        (InfrastructureError("the forge is away"), 3, 0),  # nobody could read it
    ],
)
def test_why_a_merge_request_cannot_be_had_is_answered_too(
    error: RtgateError, code: int, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge = Recording(error)
    monkeypatch.setattr(review_command, "_forge", lambda _: forge)
    assert main.main(["review"]) == code
    assert len(forge.answers) == answers


def test_a_token_that_is_refused_ends_a_review_before_anything_is_built(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two"})
    forge = Recording(access=ConfigError("GitLab does not accept the token (Token is expired)"))
    monkeypatch.setattr(review_command, "_forge", lambda _: forge)
    assert main.main(["review", "--tree", "linux"]) == 2
    assert builds.made == []
    assert forge.answers == []
    assert capsys.readouterr().err.count("Token is expired") == 1
    assert "Token is expired" in Path("report/note.md").read_text()


def test_a_forge_that_is_away_at_the_start_may_be_back_at_the_end(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "broken"})
    forge = Recording(access=InfrastructureError("away for ten minutes"))
    monkeypatch.setattr(review_command, "_forge", lambda _: forge)
    assert main.main(["review", "--tree", "linux"]) == 1
    assert [answer.exit_code for answer in forge.answers] == [1]


class Tokenless(Recording):
    """A forge that writes nothing."""

    def publish(self, answer: Answer) -> None:
        say("no token")


def test_why_there_was_no_review_is_in_the_report_and_said_before_what_became_of_the_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(review_command, "_forge", lambda _: Tokenless(ConfigError("CI_MERGE_REQUEST_IID is not set")))
    assert main.main(["review"]) == 2
    told = capsys.readouterr().err
    assert told.count("CI_MERGE_REQUEST_IID is not set") == 1
    assert told.index("CI_MERGE_REQUEST_IID is not set") < told.index("no token")
    assert "CI_MERGE_REQUEST_IID is not set" in Path("report/note.md").read_text()
    assert "CI_MERGE_REQUEST_IID is not set" in Path("report/note.txt").read_text()


@pytest.mark.parametrize("name", ["verdict.json", "somebody-s.txt"])
def test_a_refusal_takes_no_older_report_and_nobody_s_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / name).write_text("{}")
    monkeypatch.setattr(review_command, "_forge", lambda _: Tokenless(ConfigError("no")))
    assert main.main(["review"]) == 2
    assert not (tmp_path / "report/note.md").exists()


def test_the_lab_s_failure_is_an_answer_too(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Path:
        raise InfrastructureError("the disk is full")

    monkeypatch.setattr(kernels, "build_commit", full)
    repository.branch("mine")
    repository.commit("mine", **{"kernel/time.c": "two"})
    forge = Recording()
    monkeypatch.setattr(review_command, "_forge", lambda _: forge)
    assert main.main(["review", "--tree", "linux"]) == 3
    (answer,) = forge.answers
    assert answer.text.startswith("MISS: the lab failed")
    assert "  the disk is full\n  Whoever runs this machine, or the lab, must act." in answer.text


def test_a_series_that_does_not_apply_gets_a_reply(
    repository: Repository, builds: Builds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.branch("mine")
    repository.commit("be tidy", **{"kernel/time.c": "two\n"})
    text = repository.git("format-patch", "--stdout", "main..mine") + "\n"
    (tmp_path / "v1.mbox").write_text(text)
    repository.git("checkout", "--quiet", "main")
    repository.commit("theirs", **{"kernel/time.c": "three\n"})
    words = ("--tree", "linux", "--base", "main", "--series", str(tmp_path / "v1.mbox"), "-o", "replied")
    assert main.main(["review", *words]) == 1, capsys.readouterr().err
    reply = Path("replied/reply.eml").read_text()
    assert "Subject: Re: [PATCH] be tidy" in reply
    assert "FAIL: the kernel does not merge into its target branch" in reply
    assert "patch 1 of 1, 'be tidy', does not apply to" in reply
    assert "kernel/time.c: hunk 1 at line 1" in " ".join(reply.split())


@pytest.mark.parametrize("option", [(), ("--untrusted",)])
def test_a_series_is_repeated_from_its_mailbox_and_confined_as_here(
    repository: Repository, builds: Builds, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    """Nobody but the reviewer has its commits."""
    repository.branch("mine")
    repository.commit("be broken", **{"kernel/time.c": "broken"})
    (tmp_path / "v1 of mine.mbox").write_text(repository.git("format-patch", "--stdout", "main..mine") + "\n")
    words = ("--tree", "linux", "--base", "main", "--series", str(tmp_path / "v1 of mine.mbox"), "-o", "replied")
    assert main.main(["review", *words, *option]) == 1, capsys.readouterr().err
    base = repository.git("rev-parse", "main").strip()[:12]
    line = " ".join(["rtgate review --tree . --base", base, "--series 'v1 of mine.mbox'", *option])
    assert Path("replied/note.txt").read_text().endswith(f"  {line}\n")


def test_nobody_is_innocent_below_a_commit_that_does_not_build(
    repository: Repository, builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was measured: a change below it may be slow, and must not get a vote of +1."""
    repository.branch("mine")
    repository.commit("be late", **{"kernel/time.c": "slow"})
    guilty = repository.commit("be broken", **{"kernel/time.c": "broken"})
    forge = Recording()
    monkeypatch.setattr(review_command, "_forge", lambda _: forge)
    assert main.main(["review", "--tree", "linux"]) == 1
    (answer,) = forge.answers
    assert answer.blame is not None
    assert (answer.blame.suspects, answer.blame.innocents) == ((guilty,), ())


@pytest.mark.parametrize(("name", "votes"), [("gerrit", True), ("gitlab", False)])
def test_gerrit_alone_votes_on_each_commit(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, name: str, *, votes: bool
) -> None:
    requests: list[ReviewRequest] = []

    def review(request: ReviewRequest) -> Answer:
        requests.append(request)
        raise ConfigError("enough")

    monkeypatch.setattr(review_command, "_forge", lambda _: Recording())
    monkeypatch.setattr(review_command, "review", review)
    assert main.main(["review", "--tree", "linux", "--forge", name]) == 2
    assert [request.votes for request in requests] == [votes]
