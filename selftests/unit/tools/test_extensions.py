# SPDX-License-Identifier: MIT
"""A tool and a load of a site directory or of an installed package: those of docs/how-to/contribute."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from selftests.fake_target import FakeTarget, arm, arms, measured_outcome
from selftests.unit.recipes import blocks

from rtgate.board import boards
from rtgate.cli import suite_options
from rtgate.errors import ConfigError
from rtgate.lava.job import cases
from rtgate.measure import profiles
from rtgate.measure.case import Case
from rtgate.measure.case_plan import plan
from rtgate.measure.run import Run, records_by_case
from rtgate.tools import extensions, loads, registry
from rtgate.tools.registry import COMPANIONS, TOOLS
from rtgate.units import Quantity, Unit

pytest_plugins = ["pytester"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "contribute" / "bring-your-own-tool.md"
FILES = {
    block.title.removeprefix("my-lab/"): block.text
    for block in blocks(PAGE.read_text(encoding="utf-8"))
    if block.title.startswith("my-lab/")
}
TOOL, LOAD = "tools/naps.py", "loads/chatter.py"
PRINTED = b"0.85 0.10\n1.91 0.90\n"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site directory with nothing in it."""
    for name in ("RTGATE_TREE", "RTGATE_SHARE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RTGATE_SITE", str(tmp_path / "lab"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab").mkdir()
    return tmp_path / "lab"


@pytest.fixture
def site_tool(lab: Path) -> Path:
    """The site directory of the page."""
    for name, text in FILES.items():
        (lab / name).parent.mkdir(parents=True, exist_ok=True)
        (lab / name).write_text(text)
    return lab


@pytest.fixture
def package(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Install what the page has as a package, with these entry points."""

    def install(tools: str, loads: str) -> None:
        place = tmp_path / "site-packages"
        info = place / "lab_tools-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-tools\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[rtgate.tools]\n{tools}\n[rtgate.loads]\n{loads}\n")
        (place / "lab_naps.py").write_text(FILES[TOOL])
        (place / "lab_chatter.py").write_text(FILES[LOAD])
        monkeypatch.syspath_prepend(str(place))
        for name in ("lab_naps", "lab_chatter"):
            monkeypatch.delitem(sys.modules, name, raising=False)

    return install


def _case(load: str = "chatter") -> Case:
    return Case(suite="latency", tool=TOOLS["naps"](), load=load)


def _is_planned_and_parsed() -> None:
    made = plan(_case(), arm(FakeTarget()), 1)
    assert made.argv[:2] == ("sh", "-c")
    assert "sleep 0.01" in made.argv[2]
    assert made.load.argv[2] == "while :; do echo chatter; done >/dev/null"
    assert cases.from_json(cases.as_json(_case())) == _case()
    assert dict(registry.reports("latency/naps:chatter")) == dict(TOOLS["naps"].reports)


def test_a_site_s_tool_and_load_are_planned(site_tool: Path) -> None:
    assert "naps" in TOOLS
    assert "naps" in list(TOOLS)
    assert "chatter" in loads.names()
    assert "naps" not in COMPANIONS
    _is_planned_and_parsed()


def test_so_are_those_of_an_installed_package(package: Callable[[str, str], None]) -> None:
    package("naps = lab_naps:Naps", "chatter = lab_chatter:load")
    assert "lab_naps" not in sys.modules  # their names are known without them
    assert "naps" in TOOLS
    assert "lab_naps" not in sys.modules
    _is_planned_and_parsed()


def test_without_them_nothing_is_there(lab: Path) -> None:
    assert set(TOOLS) == set(registry.SHIPPED)
    assert len(TOOLS) == len(registry.SHIPPED)
    assert loads.names() == loads.SHIPPED


def test_a_kernel_repository_may_bring_them_too(
    site_tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_tool.rename(tmp_path / ".rtgate")
    monkeypatch.delenv("RTGATE_SITE")
    _is_planned_and_parsed()


def _measured(records: Path) -> None:
    outcome = measured_outcome(tool_out=PRINTED, cyclictest_json=None)
    run = Run(arms=(arm(FakeTarget({None: outcome})),), seeds=(1, 2), records=records)
    run.measure(_case("idle"), lambda _: None)


def test_a_boot_becomes_records_that_are_read_again(site_tool: Path, tmp_path: Path) -> None:
    _measured(tmp_path / "records")
    one, other = records_by_case(tmp_path / "records", None)["latency/naps:idle"]
    assert [(each.name, each.quantity) for each in one.measurements] == [
        ("elapsed", Quantity(1_060_000, Unit.VIRTUAL_US))
    ]
    assert (one.state, one.discrepancies, other.discrepancies) == ("measured", (), ())


def test_an_edited_figure_is_found_with_its_parser(site_tool: Path, tmp_path: Path) -> None:
    _measured(tmp_path / "records")
    for path in (tmp_path / "records").rglob("record.json"):
        path.write_text(path.read_text().replace("1060000", "1000000"))
    for record in records_by_case(tmp_path / "records", None)["latency/naps:idle"]:
        assert "its raw output 1060000 virtual us" in record.discrepancies[0]


def test_where_its_tool_is_not_known_a_record_is_refused(
    site_tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _measured(tmp_path / "records")
    monkeypatch.delenv("RTGATE_SITE")
    with pytest.raises(ConfigError) as caught:
        records_by_case(tmp_path / "records", None)
    assert str(tmp_path / "records") in str(caught.value)
    assert "cannot be judged here: unknown tool 'naps'" in str(caught.value)
    assert "--site DIR or RTGATE_SITE" in str(caught.value)


def test_a_job_that_measured_with_it_needs_it_where_it_is_fetched(
    site_tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = cases.as_json(_case())
    monkeypatch.delenv("RTGATE_SITE")
    with pytest.raises(ConfigError, match="unknown tool 'naps': if it comes from a site directory"):
        cases.from_json(data)


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        ("2.5 virtual s", "PASS"),
        pytest.param("1 virtual s", "FAIL", marks=pytest.mark.long("another limit of the same")),
    ],
)
def test_its_suite_measures_and_judges(
    site_tool: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, limit: str, status: str
) -> None:
    limits = site_tool / "thresholds.yaml"
    limits.write_text(limits.read_text().replace("2.5 virtual s", limit))
    outcome = measured_outcome(tool_out=PRINTED, cyclictest_json=None)
    monkeypatch.setattr(suite_options, "make_arms", arms(arm(FakeTarget({None: outcome}))))
    suites = ("-p", "rtgate.plugin", "-p", "no:cacheprovider", str(site_tool / "tests"), "-k", "idle")
    known = ("--profile", "naps", "--board", "virt-arm64")
    done = pytester.runpytest_inprocess(*suites, *known, "--kernel", "k", "--seeds", "1-2")
    done.assert_outcomes(**{"passed" if status == "PASS" else "failed": 1}, deselected=1)
    pytester.runpytest_inprocess(*suites, *known, "--replay", "records", "--verdict", "again.json")
    for name in ("records/verdict.json", "again.json"):
        found = json.loads((pytester.path / name).read_text())["verdicts"]
        assert [(one["case"], one["status"]) for one in found] == [("latency/naps:idle", status)]


MISTAKES = [
    (TOOL, "def parse", "def pars", r":1:1: Naps does not define parse: define them"),
    (TOOL, "frozen=True, ", "", r":1:1: Naps is not a frozen dataclass: decorate it"),
    (TOOL, "count: int = 100", "count: int", r":1:1: Naps has options without a default value: give one to count"),
    (TOOL, '= "naps"', '= "nap"', r":1:1: Naps calls itself 'nap', and is to be 'naps': give both one name"),
    (TOOL, '("latency",)', '"latency"', r":1:1: Naps has no suites: `suites` is a tuple"),
    (TOOL, "Reports.TIME}", "'time'}", r":1:1: Naps does not say what it measures: `reports` has a value of Reports"),
    (TOOL, "class Naps(Tool)", "class Naps", r":1:1: the file defines 0 tools \(none\): define one class"),
    (
        TOOL,
        "    count: int = 100\n",
        '    count: int = 100\n    image: ClassVar[str] = "mine"\n',
        "names the image 'mine'",
    ),
    (
        TOOL,
        "    count: int = 100\n",
        "    count: int = 100\n    companion: ClassVar[bool] = True\n    cleanup: ClassVar[str] = ':'\n",
        r":1:1: Naps runs as a load as well \(`companion`\), where a plan ignores its cleanup: remove `companion`,",
    ),
    *(
        (
            TOOL,
            "    count: int = 100\n",
            f"    count: int = 100\n    ranges: ClassVar[object] = {ranges}\n",
            r":1:1: Naps has wrong ranges: `ranges` has \(least, most\) or \(least, None\) by option",
        )
        for ranges in (
            "['count']",
            "{'count': ('a', None)}",
            "{'count': (1, 2, 3)}",
            "{'count': 1}",
            "{'count': (1, 2.5)}",
            "{'cuont': (10, 20)}",
        )
    ),
    (TOOL, "import re\n", "import re\nimport no_such\n", r":6:1: the file cannot be imported \(ModuleNotFoundError: "),
    (TOOL, "import re\n", "import re re\n", r":5:1: the file cannot be imported \(SyntaxError: "),
    (
        TOOL,
        "_UPTIMES = ",
        "raise SystemError('oh')\n_UPTIMES = ",
        r"cannot be imported \(SystemError: oh\): correct it",
    ),
    (
        TOOL,
        "_UPTIMES = ",
        "import sys\nsys.exit(0)\n_UPTIMES = ",
        r":16:1: the file cannot be imported \(SystemExit: 0\): correct it",
    ),
    (LOAD, "\ndef load", "\nraise SystemExit\n\n\ndef load", r":9:1: the file cannot be imported \(SystemExit\): "),
    (LOAD, "return Load", "assert board.nothing\n    return Load", r":11:1: its function failed \(AttributeError: "),
    (LOAD, "return Load", "raise SystemExit(0)\n    return Load", r":11:1: its function failed \(SystemExit: 0\): "),
    (LOAD, "def load", "def loads", r":1:1: None is not a function: define `def load\(board: Board\) -> Load`"),
    (LOAD, "import Board", "import Bored", r":5:1: the file cannot be imported \(ImportError: "),
    (LOAD, "Load(name", "dict(name", r":1:1: its function returned \{.*\}: return a rtgate.tools.loads.Load"),
    (
        LOAD,
        '"chatter", ',
        '"chat", ',
        r":1:1: its load calls itself 'chat', and is to be 'chatter': give both one name",
    ),
    (LOAD, ', argv=("sh", "-c", "while :; do echo chatter; done >/dev/null")', "", "its load has no command"),
]


@pytest.mark.parametrize(("name", "before", "after", "message"), MISTAKES)
def test_a_mistake_is_told_with_its_place(
    site_tool: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: str, after: str, message: str
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # of two texts of a second that are equally long
    path = site_tool / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    assert (set(TOOLS) - set(registry.SHIPPED), set(loads.names()) - set(loads.SHIPPED)) == ({"naps"}, {"chatter"})
    with pytest.raises(ConfigError, match=message) as caught:
        plan(_case(), arm(FakeTarget()), 1)
    assert str(caught.value).startswith(str(path))
    path.write_text(FILES[name])
    plan(_case(), arm(FakeTarget()), 1)  # who corrected it goes on


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise SystemExit(0)", r"tools/naps\.py:29:1: its function failed \(SystemExit: 0\): correct it"),
        ("raise TypeError('oh')", r"tools/naps\.py:29:1: its function failed \(TypeError: oh\): correct it"),
        ("raise ValueError('oh')", r"profiles\.yaml:8:\d+: oh$"),
    ],
)
def test_what_a_tool_makes_of_a_profile_s_options_is_told_with_its_place(
    site_tool: Path, statement: str, message: str
) -> None:
    path = site_tool / TOOL
    lines = f"    count: int = 100\n\n    def __post_init__(self) -> None:\n        {statement}\n"
    path.write_text(path.read_text().replace("    count: int = 100\n", lines, 1))
    profiles_file = site_tool / "profiles.yaml"
    profiles_file.write_text(f"{profiles_file.read_text()}  tools: {{naps: {{options: {{count: 7}}}}}}\n")
    with pytest.raises(ConfigError, match=message):
        profiles.profile("naps")


def test_a_broken_file_does_not_stop_another_tool(site_tool: Path) -> None:
    (site_tool / TOOL).write_text("oh no")
    assert TOOLS["cyclictest"].name == "cyclictest"
    assert loads.load("chatter", boards.board("virt-arm64")).name == "chatter"


def test_a_tool_that_is_a_load_as_well(site_tool: Path) -> None:
    text = FILES[TOOL].replace("    count: int", "    companion: ClassVar[bool] = True\n    count: int")
    (site_tool / TOOL).write_text(text)
    assert COMPANIONS["naps"] is TOOLS["naps"]
    assert "naps" in list(COMPANIONS)
    (site_tool / "loads" / "naps.py").write_text(FILES[LOAD])
    with pytest.raises(ConfigError, match=r"loads/naps.py:1:1: the tool naps is a load as well: rename yours"):
        COMPANIONS.get("naps")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("tools/cyclictest.py", "rtgate has 'cyclictest' among its own tools: rename yours"),
        ("loads/idle.py", "rtgate has 'idle' among its own loads: rename yours"),
        ("tools/My Tool.py", "'My Tool' cannot be the name of one of the tools (allowed: lower-case letters"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(lab: Path, path: str, message: str) -> None:
    (lab / path).parent.mkdir()
    (lab / path).write_text("")
    with pytest.raises(ConfigError, match=re.escape(f"{lab / path}:1:1: {message}")):
        _ = (list(TOOLS), loads.names())


def test_two_of_one_name_are_refused(site_tool: Path, package: Callable[[str, str], None]) -> None:
    package("naps = lab_naps:Naps", "")
    with pytest.raises(ConfigError) as caught:
        list(TOOLS)
    assert str(caught.value) == (
        f"the entry point `naps = lab_naps:Naps` (rtgate.tools) of lab-tools 1.5: {site_tool}/tools/naps.py is called "
        "'naps', too: rename or remove one of them"
    )


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("naps = lab_naps:Nap", "cannot be loaded (AttributeError: "),
        (
            "naps = lab_nap:Naps",
            "cannot be loaded (ModuleNotFoundError: No module named 'lab_nap'): correct the package",
        ),
        ("naps = lab_naps:_SCRIPT", "is not a class derived from rtgate.tools.Tool: name one"),
        ("naps = lab_naps", "the file defines"),
    ],
)
def test_a_wrong_entry_point_names_its_package(package: Callable[[str, str], None], point: str, message: str) -> None:
    package(point, "")
    if message == "the file defines":
        assert TOOLS["naps"].name == "naps"  # the module of one tool is as good as its class
        return
    with pytest.raises(ConfigError) as caught:
        _ = TOOLS["naps"]
    assert f"`{point}` (rtgate.tools) of lab-tools 1.5" in str(caught.value)
    assert message in str(caught.value)


def test_a_package_that_ends_the_program_is_named(package: Callable[[str, str], None], tmp_path: Path) -> None:
    package("naps = lab_naps:Naps", "chatter = lab_chatter:load")
    naps, chatter = (tmp_path / "site-packages" / f"lab_{name}.py" for name in ("naps", "chatter"))
    naps.write_text("raise SystemExit('naps needs numpyx')\n")
    with pytest.raises(ConfigError, match=r"lab-tools 1\.5 cannot be loaded \(SystemExit: naps needs numpyx\): "):
        _ = TOOLS["naps"]
    chatter.write_text("def load(board):\n    return board.nothing\n")
    with pytest.raises(ConfigError, match=r"lab-tools 1\.5: its function failed \(AttributeError: "):
        loads.load("chatter", boards.board("virt-arm64"))


def test_files_for_others_to_import_are_left_alone(lab: Path) -> None:
    (lab / "tools").mkdir()
    (lab / "tools" / "_common.py").write_text("oh no")
    assert set(TOOLS) == set(registry.SHIPPED)


def test_the_same_file_is_imported_once(site_tool: Path) -> None:
    assert TOOLS["naps"] is TOOLS["naps"]
    assert replace(TOOLS["naps"](), count=3) == TOOLS["naps"](count=3)  # type: ignore[call-arg,type-var]


def test_two_boots_that_use_a_load_at_once_both_get_the_whole_of_it(site_tool: Path) -> None:
    path = site_tool / "loads" / "chatter.py"
    # The second comes while the first is still in the middle of the file.
    path.write_text(path.read_text().replace("\ndef load", "\n__import__('time').sleep(0.2)\n\n\ndef load"))
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda _: loads.load("chatter", boards.board("virt-arm64")), range(2)))
    assert [one.name for one in found] == ["chatter", "chatter"]


def test_a_load_takes_no_options_that_it_does_not_have(site_tool: Path) -> None:
    with pytest.raises(ConfigError, match="the load chatter has no option 'cpu'"):
        loads.load("chatter", boards.board("virt-arm64"), {"cpu": 1})


def test_what_is_outside_can_be_listed(site_tool: Path) -> None:
    found = extensions.extensions(extensions.Kind.TOOL, registry.SHIPPED)
    assert {name: one.place for name, one in found.items()} == {"naps": str(site_tool / TOOL)}


def test_whoever_reads_a_file_looks_once_and_the_next_one_again(site_tool: Path) -> None:
    with extensions.cached_lookup(), extensions.cached_lookup():
        assert "naps" in TOOLS
        (site_tool / TOOL).rename(site_tool / "tools" / "nods.py")
        assert "naps" in TOOLS
        assert "nods" not in TOOLS
    assert "naps" not in TOOLS
    assert "nods" in TOOLS
