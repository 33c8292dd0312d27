# SPDX-License-Identifier: MIT
"""Learning placebos with kernels and boots that are faked: what is asked, what is kept, what is written."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from selftests.fake_target import ROOTFS, FakeTarget, arm, files, measured_outcome

from rtgate import files as regular_file
from rtgate import site
from rtgate.board import boards
from rtgate.errors import BuildError, ConfigError, InfrastructureError
from rtgate.judge.compare.placebos import load_placebos
from rtgate.kernel import artefacts
from rtgate.kernel.configuration import load_description
from rtgate.kernel.harmless import UNPATCHED, KernelChange
from rtgate.kernel.identity import SourceIdentity
from rtgate.kernel.source import Tree
from rtgate.kernel.version import KernelVersion
from rtgate.measure.case import Arm, Case
from rtgate.target.outcome import Outcome, State
from rtgate.target.plan import Plan
from rtgate.target.virtual import VirtualBoard
from rtgate.tools.cyclictest import Cyclictest
from rtgate.tools.pip_stress import PipStress
from rtgate.tools.xenomai import XenomaiLatency
from rtgate.workflow import harmless_boots, placebos, suites
from rtgate.workflow.arms import ArmRequest
from rtgate.workflow.placebos import Request

IDLE = Case(suite="latency", tool=Cyclictest(), load="idle")
LOADED = replace(IDLE, load="hackbench")
WORDS = {name: KernelChange(name=name, command_line=f"{name}=1") for name in ("a", "b", "c", "d", "e")}
OPTION = KernelChange(name="option", fragment=Path("option.config"))
CHANGES = {**WORDS, "option": OPTION}
TREE = Tree(
    Path("/linux"),
    KernelVersion(6, 18, 2),
    SourceIdentity(kind="git", version="6.18.2", path="/linux", fingerprint="f" * 64),
)


@dataclass(frozen=True)
class FakeBoard(VirtualBoard):
    """A virtual board whose boots are faked; each kernel has data of its own."""

    target: FakeTarget = field(default_factory=FakeTarget)

    def run(self, plan: Plan) -> Outcome:
        outcome = self.target.run(plan)
        return replace(outcome, machine={**outcome.machine, **self.inputs(plan)})

    def inputs(self, plan: Plan) -> dict[str, str]:
        return {"rootfs": ROOTFS, "qemu_sha256": self.qemu_sha256, "command": f"-m {self.board.memory_mib}"}


@dataclass
class Machine:
    """What was built and booted."""

    built: list[str] = field(default_factory=list)
    booted: list[tuple[str, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    broken: frozenset[str] = frozenset()
    dies_at: int = 10_000
    lost: frozenset[tuple[str, int]] = frozenset()
    qemu: str = "9" * 64
    memory_mib: int = 512

    def build(self, _description: object, tree: Tree, output: Path, _options: object) -> Any:
        assert tree.path.name == output.name
        if output.name in self.broken:
            raise BuildError("CONFIG_X is not in the final configuration\nmore")
        self.built.append(output.name)
        output.mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(directory=output)

    def make_arms(self, request: ArmRequest, _stop: threading.Event) -> tuple[Arm, ...]:
        ((name, directory),) = request.kernels.items()
        made = arm(FakeTarget(), name, board=request.board)
        made = replace(made, board=replace(made.board, memory_mib=self.memory_mib))
        target = FakeBoard(
            board=made.board,
            image=directory / "Image",
            rootfs=lambda _: SimpleNamespace(),  # type: ignore[arg-type,return-value]
            qemu_sha256=self.qemu,
            target=FakeTarget({None: lambda plan: self._boot(directory.name, plan)}),
        )
        return (replace(made, target=target),)

    def _boot(self, kernel: str, plan: Plan) -> Outcome:
        if len(self.booted) == self.dies_at:
            raise InfrastructureError("the disk is full")
        self.booted.append((kernel, plan.seed))
        if (kernel, plan.seed) in self.lost:
            return Outcome(state=State.LAB, message="QEMU ended with exit code -9: no message")
        return measured_outcome(cyclictest_json=files()["cyclictest.json"])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    # Each boot is parsed and judged: as few as show the same.
    monkeypatch.setattr(placebos, "FEWEST_BOOTS", 2)
    for name in ("RTGATE_SITE", "RTGATE_TREE", "RTGATE_SHARE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(placebos, "build", made.build)
    monkeypatch.setattr(placebos, "SourceCopy", lambda *_: SimpleNamespace(with_change=_tree_of))
    monkeypatch.setattr(KernelChange, "description", lambda _, build: build)
    monkeypatch.setattr(artefacts, "load", lambda _: SimpleNamespace(toolchain="gcc (Debian) 12.2.0, ld 2.40"))
    monkeypatch.setattr(regular_file, "require_free_space", lambda *_, **__: None)
    monkeypatch.setattr(suites, "cases", lambda *_, board, **__: (IDLE,) if board == "virt-arm64" else ())
    monkeypatch.setattr(harmless_boots, "make_arms", made.make_arms)
    return made


def _tree_of(change: KernelChange | None) -> Tree:
    return replace(TREE, path=Path(change.name if change else UNPATCHED))


@pytest.fixture
def request_of(tmp_path: Path, machine: Machine) -> Callable[..., Request]:
    def made(**changes: Any) -> Request:
        usual: Mapping[str, Any] = {
            "board": boards.board("virt-arm64"),
            "build": load_description(site.find("kernel-configs", "virt-arm64-preempt_rt.yaml")),
            "tree": TREE,
            "changes": CHANGES,
            "output": tmp_path / "lab" / "placebos.yaml",
            "work": tmp_path / "work",
            "seeds": tuple(range(1, 3)),
            "say": machine.said.append,
        }
        return Request(**{**usual, **changes})

    return made


def _told(request: Request) -> str:
    """Learn one case, and return what is said of it."""
    (result,) = placebos.learn(request)
    assert result.has_model == ("nothing to learn from" not in result.sentence)
    return result.sentence


def test_kernels_are_built_and_booted_and_teach(machine: Machine, request_of: Callable[..., Request]) -> None:
    request = request_of()
    told = _told(request)
    assert told == "virt-arm64 latency/cyclictest:idle: 6 harmless kernels, 0 of them with data of their own"
    assert machine.built == [UNPATCHED, "option"]  # words need no build
    assert len(machine.booted) == 7 * 2
    assert {kernel for kernel, _ in machine.booted} == {UNPATCHED, "option"}
    (key,) = (known := load_placebos([request.output], site.names("boards"))).cases
    assert key == ("virt-arm64", "preempt_rt", "latency/cyclictest:idle")
    (model,) = known.cases[key]
    assert (model.qemu, model.linux, model.compiler) == ("7.2", "6.12", "gcc 12")
    assert model.figures["latency maximum"].boots == 2
    assert "14 boots, of which 0 were measured before" in machine.said


def test_a_run_that_was_stopped_goes_on(machine: Machine, request_of: Callable[..., Request]) -> None:
    machine.dies_at = 5
    with pytest.raises(InfrastructureError, match="the disk is full"):
        placebos.learn(request_of(jobs=1))
    assert not request_of().output.exists()
    machine.dies_at = 10_000
    placebos.learn(request_of(jobs=1))
    assert len(machine.booted) == 7 * 2  # none twice
    assert "14 boots, of which 5 were measured before" in machine.said
    placebos.learn(request_of())
    assert len(machine.booted) == 7 * 2


def test_another_qemu_boots_everything_again(machine: Machine, request_of: Callable[..., Request]) -> None:
    placebos.learn(request_of())
    machine.qemu = "8" * 64
    placebos.learn(request_of())
    assert len(machine.booted) == 2 * 7 * 2


def test_another_machine_boots_everything_again(machine: Machine, request_of: Callable[..., Request]) -> None:
    """A site changes its board's file: boots of the old memory, CPU or command line teach nothing of the new one."""
    placebos.learn(request_of())
    machine.memory_mib = 1024
    placebos.learn(request_of())
    assert len(machine.booted) == 2 * 7 * 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'"qemu_sha256": "{"9" * 64}"', '"qemu_sha256": ""'),
        ('"qemu_sha256":', '"emulator_sha256":'),
        ('"argv": [', '"colour": "red",\n "argv": ['),
    ],
)
def test_a_boot_whose_qemu_is_not_known_or_whose_record_is_damaged_does_not_count(
    machine: Machine, request_of: Callable[..., Request], before: str, after: str
) -> None:
    request = request_of()
    placebos.learn(request)
    path = min((request.work / "records").rglob("record.json"))
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    placebos.learn(request)
    assert len(machine.booted) == 7 * 2 + 1


def test_a_boot_that_the_lab_broke_is_made_again(machine: Machine, request_of: Callable[..., Request]) -> None:
    machine.lost = frozenset({("option", 2)})
    told = _told(request_of())
    assert "5 harmless kernels have 2 measured boots or more, and 6 are the fewest that teach" in told
    assert machine.said[-1] == "this machine lost 1 boot: the same command boots again what is missing"
    machine.lost = frozenset()
    told = _told(request_of())
    assert "6 harmless kernels" in told
    assert machine.booted[7 * 2 :] == [("option", 2)]
    assert "14 boots, of which 13 were measured before" in machine.said


def test_a_case_that_the_board_can_never_run_was_not_lost(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    cobalt = replace(IDLE, tool=XenomaiLatency())  # the kernels are PREEMPT_RT
    monkeypatch.setattr(suites, "cases", lambda *_, board, **__: (cobalt,) if board == "virt-arm64" else ())
    for _ in range(2):
        assert "no boot of the kernel without a change has a valid measurement" in _told(request_of())
    assert machine.booted == []
    assert not [line for line in machine.said if "this machine lost" in line]
    assert "14 boots, of which 14 were measured before" in machine.said


def test_too_few_boots_of_the_unpatched_kernel_teach_nothing(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Words are added to the kernel without a change: only its own boots are lost.
    monkeypatch.setattr(harmless_boots.ChangedKernels, "directory", lambda kernels, name: kernels.kernels / name)
    machine.lost = frozenset({(UNPATCHED, 2)})
    request = request_of()
    told = _told(request)
    assert "only 1 valid boot of the kernel without a change, and 2 are the fewest that teach" in told
    assert not request.output.exists()


def test_a_change_that_this_kernel_cannot_have_is_left_out(
    machine: Machine, request_of: Callable[..., Request]
) -> None:
    machine.broken = frozenset({"option"})
    seventh = KernelChange(name="f", command_line="f=1")
    told = _told(request_of(changes={**CHANGES, "f": seventh}))
    assert "6 harmless kernels" in told
    assert "option is left out: CONFIG_X is not in the final configuration" in machine.said
    with pytest.raises(ConfigError, match="only 5 harmless changes can be built from /linux"):
        placebos.learn(request_of())


def test_a_kernel_that_cannot_be_built_at_all_ends_it(machine: Machine, request_of: Callable[..., Request]) -> None:
    machine.broken = frozenset({UNPATCHED})
    with pytest.raises(BuildError):
        placebos.learn(request_of())
    assert machine.booted == []


def test_what_the_file_says_already_stays(machine: Machine, request_of: Callable[..., Request]) -> None:
    request = request_of()
    request.output.parent.mkdir()
    request.output.write_text((site.shipped_directory() / "placebos.yaml").read_text())
    placebos.learn(request)
    before = load_placebos([site.shipped_directory() / "placebos.yaml"], site.names("boards")).cases
    after = load_placebos([request.output], site.names("boards")).cases
    assert set(after) == set(before)
    idle = ("virt-arm64", "preempt_rt", "latency/cyclictest:idle")
    assert {key: models for key, models in after.items() if key != idle} == {
        key: models for key, models in before.items() if key != idle
    }
    placebos.learn(request)  # an entry of the same command, QEMU and series is replaced
    assert load_placebos([request.output], site.names("boards")).cases == after


def test_a_case_whose_tool_fails_teaches_nothing(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_boot", lambda *_: measured_outcome(cyclictest_json=b""))
    request = request_of()
    told = _told(request)
    assert "nothing to learn from: no boot of the kernel without a change has a valid measurement" in told
    assert not request.output.exists()


def test_a_file_to_which_nothing_is_added_is_not_written(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_boot", lambda *_: measured_outcome(cyclictest_json=b""))
    request = request_of()
    request.output.parent.mkdir()
    before = (site.shipped_directory() / "placebos.yaml").read_text()
    request.output.write_text(before)
    assert "nothing to learn from" in _told(request)
    assert request.output.read_text() == before


def test_a_profile_with_too_few_seeds_is_found_before_anything_is_built(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placebos, "FEWEST_BOOTS", 8)
    with pytest.raises(
        ConfigError, match=r"cyclictest:idle: quick has 4 seeds, .* teach nothing: name them with --seeds"
    ):
        placebos.learn(request_of(profile="quick", seeds=()))
    # Only the cases that are selected must have enough: under load it is eight seeds, idle twelve.
    monkeypatch.setattr(placebos, "FEWEST_BOOTS", 12)
    monkeypatch.setattr(suites, "cases", lambda *_, board, **__: (IDLE, LOADED) if board == "virt-arm64" else ())
    with pytest.raises(ConfigError, match="cyclictest:hackbench: compare has 8 seeds"):
        placebos.learn(request_of(seeds=()))
    assert machine.built == []
    machine.broken = frozenset({UNPATCHED})
    with pytest.raises(BuildError):
        placebos.learn(request_of(seeds=(), cases=(IDLE.name,)))


def test_a_profile_that_compares_nothing_is_found_before_anything_is_built(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    inversions = Case(suite="scheduling", tool=PipStress(), load="idle")
    monkeypatch.setattr(suites, "cases", lambda *_, board, **__: (inversions,) if board == "virt-arm64" else ())
    with pytest.raises(ConfigError, match="compare compares no case on virt-arm64"):
        placebos.learn(request_of())
    assert machine.built == []


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"board": boards.board("rk3568-evb1")}, "rk3568-evb1 is not a virtual-time board"),
    ({"board": boards.board("virt-x86_64")}, "virt-arm64-preempt_rt.yaml is for arm64, virt-x86_64 is x86_64"),
    ({"changes": WORDS}, "5 harmless changes teach nothing: name at least 6"),
    ({"seeds": (1,)}, "1 of 2 seeds at least: fewer boots of a kernel teach nothing"),
    ({"cases": ("latency/cyclictest:idel",)}, "no such case of compare .there are: latency/cyclictest:idle"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes_are_found_before_anything_is_built(
    machine: Machine, request_of: Callable[..., Request], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        placebos.learn(request_of(**changes))
    assert machine.built == []


def test_a_wrong_output_is_found_before_anything_is_built(
    machine: Machine, request_of: Callable[..., Request], tmp_path: Path
) -> None:
    (tmp_path / "placebos.yaml").write_text("virt-arm65: {}\n")
    with pytest.raises(ConfigError, match=r"placebos.yaml:1:1: unknown board 'virt-arm65'"):
        placebos.learn(request_of(output=tmp_path / "placebos.yaml"))
    assert machine.built == []


def test_an_output_that_cannot_be_written_is_found_before_anything_is_built(
    machine: Machine, request_of: Callable[..., Request], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path} is not a regular file: name the placebos.yaml to write with -o"):
        placebos.learn(request_of(output=tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(InfrastructureError, match=f"{tmp_path}/file cannot be written: "):
        placebos.learn(request_of(output=tmp_path / "file" / "placebos.yaml"))
    assert machine.built == []


def test_an_output_that_cannot_be_written_any_more_is_the_lab_s(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_text(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(regular_file, "write_text", write_text)
    with pytest.raises(InfrastructureError, match=r"placebos\.yaml cannot be written: No space left on device"):
        placebos.learn(request_of())


def test_two_runs_add_to_one_file(
    machine: Machine, request_of: Callable[..., Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run, of another build, ends while this one reads its records."""
    lesson_of, request = placebos._lesson, request_of()
    shipped = (site.shipped_directory() / "placebos.yaml").read_text()

    def lesson(*arguments: Any) -> Any:
        request.output.parent.mkdir(exist_ok=True)
        request.output.write_text(shipped)
        return lesson_of(*arguments)

    monkeypatch.setattr(placebos, "_lesson", lesson)
    assert "6 harmless kernels" in _told(request)
    others = set(load_placebos([site.shipped_directory() / "placebos.yaml"], site.names("boards")).cases)
    assert len(others) > 1
    assert set(load_placebos([request.output], site.names("boards")).cases) >= others


def test_kernels_of_another_source_are_kept_apart() -> None:
    other = replace(TREE, identity=replace(TREE.identity, fingerprint="e" * 64))
    assert placebos.work_directory("b", TREE) != placebos.work_directory("b", other)
    assert placebos.work_directory("b", TREE).name.startswith("b-6.18.2-")
