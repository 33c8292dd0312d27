# SPDX-License-Identifier: MIT
"""Rules for what people read: plain words, short sentences, and pages that follow the code."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import pytest

from rtgate.kernel.configuration import load_description
from rtgate.tools.registry import TOOLS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = "docs/reference/commands.md"  # its words are those of the program
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*DOCS.rglob("*.md"), *map(ROOT.joinpath, ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")))
)

# What a reader stumbles over, and what to write instead.
PHRASES = {
    r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer|more|worse|less|other)[a-z]": "is not a ...",
    r"(?<![\d.,+-])\b1 (?:boots|cases|errors|files|kernels|pairs|records|runs|samples|seeds)\b": "1 boot",
    r"\btrees? as (?:it|they) lies?\b": "the working tree",
    r"\bat worst\b": "at most, reached",
    r"\bfor good\b": "permanently",
    r"\bgood a judge\b": "noise and smallest detectable change",
    r"\b(?:booted|measured|boots) in turns\b": "booted alternately",
    r"\bsays `rtgate ": "see `rtgate ...`",
    r"\bdo(?:es)? not decide\b": "not enough ... to decide",
    r"\bran longer\b": "slower",
    r"\bcopies of (?:a boot|boots)\b(?! loader)": "duplicate results",
    r"\b(?:is|are|was|were|be|been|have|has|had|sensor) told\b": "is shown, is reported",
    r"\blearnt\b": "measured, measured with",
    r"\.venv/bin/(?:rtgate|pytest)\b": "rtgate (the environment is activated once)",
}

# "Harmless change" elsewhere.
PLACEBO = ("docs/explanation/", "docs/decisions/0003-", "docs/glossary.md", "docs/how-to/learn-placebos.md")

SENTENCE_WORDS = 25


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose(markdown: str) -> str:
    """Return a page without its fences and indented examples."""
    without = re.sub(r"^ *(?:```|~~~).*?^ *(?:```|~~~)$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^(?: {4,}(?![-*\d ])|\t).*$", "", without, flags=re.MULTILINE)


def sentences(markdown: str) -> list[str]:
    """Return the sentences of a page: a cell, an item of a list and a heading end one, too."""
    plain = re.sub(r"`[^`]*`", "CODE", prose(markdown))
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|^#+ .*$|\|", plain, flags=re.MULTILINE)
    return [
        " ".join(sentence.split())
        for block in blocks
        for sentence in re.split(r"(?<=[.!?:;])[)*\"]*\s+", block)
        if sentence.strip()
    ]


def too_long(page: str) -> list[str]:
    return [one for one in sentences(text(page)) if len(re.findall(r"[^\W_][\w'.,/%+-]*", one)) > SENTENCE_WORDS]


@pytest.mark.parametrize("phrase", PHRASES)
def test_pages_use_plain_words(phrase: str) -> None:
    stumbles = [
        f"{page}: {match[0]!r}: write {PHRASES[phrase]!r}"
        for page in PAGES
        if page != GENERATED
        for match in re.finditer(
            phrase, text(page) if "venv" in phrase else re.sub(r"`[^`]*`", "CODE", prose(text(page)))
        )
    ]
    assert stumbles == []


def test_placebo_is_a_word_of_explanations() -> None:
    pages = [page for page in PAGES if not page.startswith(PLACEBO) and page != GENERATED]
    words = {page: re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(text(page))).lower() for page in pages}
    assert [page for page, said in words.items() if "placebo" in said] == []


@pytest.mark.parametrize(
    "line",
    [
        "`build` is no setting",
        "in 1 boots",
        "the tree as it lies",
        "it was at worst 3 us",
        "worse for good",
        "booted in turns",
        "says `rtgate lab-check`",
        "run .venv/bin/rtgate gate",
        "it is told by the line",
        "limits were learnt with it",
    ],
)
def test_the_phrases_find_what_they_are_for(line: str) -> None:
    assert any(re.search(phrase, line) for phrase in PHRASES)


@pytest.mark.parametrize("line", ["there is no board", "it is no longer there", "no worse", "in 21 boots", "1 boot"])
def test_the_phrases_leave_alone(line: str) -> None:
    assert not any(re.search(phrase, line) for phrase in PHRASES)


def messages(module: Path) -> Iterator[str]:
    """Yield the texts of a module that are not docstrings, `{}` in place of what is filled in."""
    nodes = [*ast.walk(ast.parse(module.read_text(encoding="utf-8")))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_messages_use_plain_words_too() -> None:
    """Not the scripts of the target: who edits their text learns limits and campaigns again."""
    stumbles = [
        f"{module.relative_to(ROOT)}: {match[0]!r}: write {instead!r}"
        for module in sorted((ROOT / "src" / "rtgate").rglob("*.py"))
        if module.name != "storage.py"
        for message in messages(module)
        if len(message.split()) > 2
        for phrase, instead in PHRASES.items()
        if "venv" not in phrase
        for match in re.finditer(phrase, message)
    ]
    assert stumbles == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != GENERATED])
def test_sentences_are_short(page: str) -> None:
    assert too_long(page) == []


def test_the_readme_reads_in_two_minutes() -> None:
    """At 240 words in a minute; examples are looked at, and tables are read."""
    assert len(re.findall(r"[^\W_][\w'.,/%+-]*", re.sub(r"\]\([^)]*\)", "]", prose(text("README.md"))))) <= 480


def test_the_tools_are_counted_alike() -> None:
    of_page = re.search(r"Of (\d+) tools (\d+) have run", text("docs/reference/tools/README.md"))
    of_readme = re.search(r"Of (\d+) tools (\d+) have run", text("README.md"))
    assert of_page is not None
    assert of_readme is not None
    assert of_readme.groups() == of_page.groups()
    assert int(of_page[1]) == len(TOOLS)


def test_sentences_are_told_apart() -> None:
    assert sentences(
        "# A title\n\nOne two. Three `a b c` four!\n\n* five\n* six\n\n| a | b c |\n\n```\nx. y\n```\n"
    ) == [*("One two.", "Three CODE four!", "* five", "* six", "a", "b c")]


@pytest.mark.parametrize("page", [page for page in PAGES if page != GENERATED])
def test_what_belongs_to_an_item_of_a_list_is_indented_by_four(page: str) -> None:
    """A forge takes less, the site does not: there the item ends, and its example becomes a paragraph."""
    lines = re.sub(r"^( *)(```|~~~).*?^ *\2$", r"\1FENCE", text(page), flags=re.MULTILINE | re.DOTALL).split("\n")
    starts = [line for before, line in pairwise(lines) if line and (not before or line.endswith("FENCE"))]
    assert [line for line in starts if (len(line) - len(line.lstrip())) % 4] == []
    item = re.compile(r" *(?:[*-]|\d+\.) ")
    glued = [
        line
        for before, line in pairwise(lines)
        if item.match(line) and re.match(r"\S", before) and not item.match(before)
    ]
    assert glued == []


def test_every_page_says_at_once_what_the_reader_gets() -> None:
    """After the title comes text, not a list, a table or another title."""
    starts = {page: text(page).partition("\n")[2].lstrip()[:1] for page in PAGES}
    assert [page for page, start in starts.items() if start in ("", "#", "|", "-", "*", "`")] == []


DEAD = {
    "[a](nothing.md)": "a link 'nothing.md'",
    "[a](../target/nothing.c)": "a link 'repository/target/nothing.c'",
    "[a](glossary.md#nowhere)": "an anchor '#nowhere'",
}


def test_a_dead_link_or_a_page_out_of_reach_fails_the_build(tmp_path: Path) -> None:
    for name in ("docs", "ci", "target"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "orphan.md").write_text("# Orphan\n\nNobody finds it.\n", encoding="utf-8")
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write("\n" + " ".join(DEAD) + "\n")
    with (tmp_path / "README.md").open("a", encoding="utf-8") as page:
        page.write("\n[a](docs/none.md)\n")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["ci/docs/build"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    for reason in (*DEAD.values(), "orphan.md", "a link '../none.md'"):
        assert reason in done.stdout


@pytest.mark.parametrize("program", ["commands.py", "checks.py", "picture.py"])
def test_what_is_made_from_the_code_is_up_to_date(program: str) -> None:
    done = subprocess.run(
        [sys.executable, f"ci/docs/{program}", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_arrow_of_the_picture_points_upwards() -> None:
    picture = text("docs/explanation/architecture.svg")
    assert picture.count("<path ") > 50
    assert "#dc2626" not in picture


def _layers() -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter", encoding="utf-8")
    return re.findall(r"\w+", parser["importlinter:contract:layers"]["layers"])


def test_the_architecture_page_has_every_layer_in_its_order() -> None:
    page = text("docs/explanation/architecture.md")
    table = page.partition("## What each layer knows")[2].partition("\n## ")[0]
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert set(named) == set(_layers())
    there = {path.stem for path in (ROOT / "src" / "rtgate").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(named) == there - {"__init__", "__pycache__"} - {path for path in there if path.startswith("py")}
    # Rows may gather modules of one layer, and the order from top to bottom is that of the contract.
    order = {name: number for number, name in enumerate(_layers())}
    firsts = [
        min(order[name] for name in re.findall(r"`(\w+)`", row))
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    ]
    assert firsts == sorted(firsts)


def test_the_way_of_a_measurement_names_modules_that_exist() -> None:
    page = text("docs/explanation/architecture.md")
    way = page.partition("## The way of one measurement")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| \d+ \| (.*?) \|", way, re.MULTILINE)
    assert len(cells) == 11
    package = ROOT / "src" / "rtgate"
    for name in (name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)):
        path = package / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_the_page_of_dependencies_has_every_library() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    needed = {re.split(r"[\[><=]", line)[0].lower() for line in (*project["dependencies"], *chain(*extras.values()))}
    page = text("docs/explanation/dependencies.md").lower().replace("material for mkdocs", "mkdocs-material")
    cells = " ".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))
    missing = {name for name in needed if name not in cells and not name.startswith("types-")}
    assert missing == set()


def test_the_page_of_dependencies_names_modules_that_exist() -> None:
    page = text("docs/explanation/dependencies.md").partition("## Ours")[2]
    package = ROOT / "src" / "rtgate"
    names = [
        name
        for row in re.findall(r"^\| .*? \| (`.*?) \|", page, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row)
    ]
    assert len(names) > 10
    for name in names:
        path = package / (name if "/" in name else name.replace(".", "/"))
        assert path.exists() or path.with_suffix(".py").is_file(), name


def test_the_page_of_boards_has_every_board_and_device_tree() -> None:
    page = (ROOT / "docs/reference/boards.md").read_text()
    builds = [load_description(path) for path in (ROOT / "kernel-configs").glob("*.yaml") if "lock" not in path.name]
    trees = {name.split("/")[1] for build in builds for name in build.device_trees if build.name[:6] != "rk3572"}
    boards = {path.stem for path in (ROOT / "boards").glob("*.yaml")}
    assert {name for name in boards | trees if f"`{name}`" not in page} == set()
    assert len(trees) == 10


def test_the_table_of_decisions_has_every_record() -> None:
    records = {path.name for path in (DOCS / "decisions").glob("[0-9]*.md")}
    assert set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", text("docs/decisions/README.md"))) == records
    assert sorted(int(name[:4]) for name in records) == list(range(1, len(records) + 1))
