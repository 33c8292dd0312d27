# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgate.errors import ConfigError
from rtgate.strict_yaml import Value, dump, load, parse

FILE = Path("some.yaml")


def read(text: str) -> Value:
    return parse(text, FILE)


def mistake(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "some.yaml:1:1: the file is empty"),
        ("# only a comment\n", "some.yaml:1:1: the file is empty"),
        ("a: 1\nb: [1, 2\nc: 3\n", "some.yaml:3:2: not YAML: expected ',' or ']', but got ':'"),
        ("a: 1\n\tb: 2\n", "some.yaml:2:1: not YAML: found character '\\t' that cannot start any token"),
        ("a: b: c\n", "some.yaml:1:5: not YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2\n", "some.yaml:2:1: not YAML: but found another document"),
        ("a: &x 1\nb: *x\n", "some.yaml:2:4: aliases are not allowed: write the value out"),
        ("a: 1\nb: \x07\n", "some.yaml:2:4: not YAML: special characters are not allowed: '\\x07'"),
        ("\x07", "some.yaml:1:1: not YAML: special characters are not allowed: '\\x07'"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_place(text: str, message: str) -> None:
    assert mistake(lambda: read(text)) == message


MAPPING = "name: x\nsize: 3\nlist: [a, b]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MAPPING + "nmae: y\n", "some.yaml:4:1: unknown key 'nmae' (allowed: list, name, size)"),
        (MAPPING + "name: y\n", "some.yaml:4:1: duplicate key 'name' (first at line 1)"),
        ("size: 3\n", "some.yaml:1:1: missing key 'name', 'list'"),
        ("- name\n", "some.yaml:1:1: expected a mapping, found a list"),
        ("name\n", "some.yaml:1:1: expected a mapping, found text"),
        ("---\n", "some.yaml:2:1: expected a mapping, found nothing"),
        ("[a]: 1\n", "some.yaml:1:1: expected a name as key"),
        ("<<: {name: x}\n", "some.yaml:1:1: unknown key '<<' (allowed: list, name, size)"),
        (MAPPING + "1: x\n", "some.yaml:4:1: unknown key '1' (allowed: list, name, size)"),
    ],
)
def test_keys_are_exactly_the_allowed_ones(text: str, message: str) -> None:
    assert mistake(lambda: read(text).mapping(("name", "list"), ("size",))) == message


def test_a_mapping_without_allowed_keys_says_so() -> None:
    assert mistake(lambda: read("a: 1").mapping()) == "some.yaml:1:1: unknown key 'a' (allowed: nothing)"


@pytest.mark.parametrize(
    ("text", "call", "message"),
    [
        ("a: 1", lambda value: value.text(), "expected text, found a whole number"),
        ("a: 1.5", lambda value: value.text(), "expected text, found a number"),
        ("a: yes", lambda value: value.text(), "expected text, found true or false"),
        ("a:", lambda value: value.text(), "expected text, found nothing"),
        ("a: {}", lambda value: value.text(), "expected text, found a mapping"),
        (
            "a: 2024-01-01",
            lambda value: value.text(),
            "expected text, found a value of the YAML type tag:yaml.org,2002:",
        ),
        ("a: ' '", lambda value: value.text(), "expected text, found an empty one"),
        ("a: c", lambda value: value.text(("b", "a")), "unknown value 'c' (allowed: a, b)"),
        ("a: 1.5", lambda value: value.word(), "expected text, found a number"),
        ("a: x", lambda value: value.integer(), "expected a whole number, found text"),
        ("a: '1'", lambda value: value.integer(), "expected a whole number, found text"),
        ("a: 1.0", lambda value: value.integer(), "expected a whole number, found a number"),
        ("a: 0b_", lambda value: value.integer(), "expected a whole number, found '0b_'"),
        ("a: !!int x", lambda value: value.integer(), "expected a whole number, found 'x'"),
        ("a: 0", lambda value: value.integer(1), "0 is out of range (allowed: at least 1)"),
        ("a: 9", lambda value: value.integer(maximum=8), "9 is out of range (allowed: at most 8)"),
        ("a: 9", lambda value: value.integer(1, 8), "9 is out of range (allowed: at least 1 and at most 8)"),
        ("a: x", lambda value: value.number(), "expected a number, found text"),
        ("a: true", lambda value: value.number(), "expected a number, found true or false"),
        ("a: [1]", lambda value: value.number(), "expected a number, found a list"),
        ("a:", lambda value: value.number(), "expected a number, found nothing"),
        ("a: inf", lambda value: value.number(), "expected a number, found text"),
        ("a: nan", lambda value: value.number(), "expected a number, found text"),
        ("a: 1e999", lambda value: value.number(), "expected a number, found text"),
        ("a: 1", lambda value: value.flag(), "expected true or false, found a whole number"),
        ("a: 'true'", lambda value: value.flag(), "expected true or false, found text"),
        ("a: x", lambda value: value.items(), "expected a list, found text"),
        ("a: {b: 1}", lambda value: value.items(), "expected a list, found a mapping"),
    ],
)
def test_wrong_values_are_told_with_their_place(text: str, call: Callable[[Value], object], message: str) -> None:
    document = read(f"# a comment\nfirst: 1\n{text}\n")
    value = document.entries()["a"].value
    found = mistake(partial(call, value))
    column = 4 if text != "a:" else 3
    assert found.startswith(f"some.yaml:3:{column}: {message}")


def test_a_value_in_a_list_has_a_place_of_its_own() -> None:
    items = read("a:\n  - x\n  - [1, y]\n").entries()["a"].value.items()
    assert mistake(items[1].items()[1].integer) == "some.yaml:3:9: expected a whole number, found text"


@pytest.mark.parametrize(
    ("text", "found"), [("3", 3), ("-3", -3), ("0x10", 16), ("0755", 493), ("0b11", 3), ("1_000", 1000)]
)
def test_whole_numbers(text: str, found: int) -> None:
    assert read(text).integer() == found


@pytest.mark.parametrize(("text", "found"), [("3", 3), ("1e-6", 1e-6), ("1.5", 1.5), ("-.5", -0.5), ("2e-6", 2e-6)])
def test_numbers(text: str, found: float) -> None:
    assert read(text).number() == found


@pytest.mark.parametrize(
    ("text", "found"), [("true", True), ("Yes", True), ("ON", True), ("false", False), ("no", False), ("Off", False)]
)
def test_flags(text: str, found: bool) -> None:
    assert read(text).flag() is found


def test_words_are_text_or_whole_numbers() -> None:
    assert [item.word() for item in read("[3, 1-4, '5', 010]").items()] == ["3", "1-4", "5", "010"]


def test_optional_keys_have_defaults() -> None:
    mapping = read("a: x\nlist: [b, c]\n").mapping(("a",), ("b", "list", "none"))
    assert mapping["a"].text() == "x"
    assert mapping.get("b") is None
    assert (mapping.text("a", "d"), mapping.text("b", "d")) == ("x", "d")
    assert (mapping.texts("list"), mapping.texts("none")) == (("b", "c"), ())
    assert "a" in mapping
    assert "b" not in mapping
    assert list(mapping) == ["a", "list"]
    assert mistake(lambda: mapping.text("a", "y", ("y", "z"))) == "some.yaml:1:4: unknown value 'x' (allowed: y, z)"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert mistake(lambda: load(tmp_path / "no.yaml")) == f"{tmp_path}/no.yaml: no such file"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4\n")
    assert mistake(lambda: load(tmp_path / "latin.yaml")).startswith(f"{tmp_path}/latin.yaml: cannot be read: ")
    assert mistake(lambda: load(tmp_path)).startswith(f"{tmp_path}: cannot be read: ")


@pytest.mark.parametrize(
    "text",
    ['"\\UFFFFFFFF"', f"%YAML 1.{'1' * 5000}\n--- x", "{a: " * 900 + "}" * 900],
    ids=["escape", "digits", "depth"],
)
def test_what_pyyaml_cannot_take_is_no_yaml(text: str) -> None:
    assert mistake(lambda: read(text)).startswith("some.yaml:1:1: not YAML: ")


@pytest.mark.parametrize("text", ['!!int ""', '!!int "-"', "0x" + "f" * 5000, "1" * 5000, "9223372036854775808"])
def test_whole_numbers_are_written_out_and_fit_64_bits(text: str) -> None:
    assert mistake(lambda: read(text).integer(maximum=3)).startswith("some.yaml:1:1: ")


def walk(value: Value) -> None:
    readers: tuple[Callable[[], object], ...] = (
        *(value.text, value.word, value.integer, value.number, value.flag, value.items, value.mapping),
    )
    for reader in readers:
        placed(reader)


def placed(call: Callable[[], object]) -> object:
    """Return what the call returns, or None after a mistake, which must have a place."""
    try:
        return call()
    except ConfigError as error:
        place = error.location
    assert place is not None
    assert min(place.line, place.column) >= 1
    return None


@given(st.text(alphabet="ab01 :-[]{}\n'\"#&*!|>%?,.\t\x07_xeE+~<", max_size=60))
def test_any_text_is_a_value_or_a_mistake_with_a_place(text: str) -> None:
    value = placed(lambda: read(text))
    if isinstance(value, Value):
        walk(value)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("0000:01:00.0", "0000:01:00.0"),
        ("12:30", "12:30"),
        ("off", "off"),
        ("true", True),
        ("-1", -1),
        ("0", 0),
        ("007", "007"),
        ("1.50", 1.5),
        ("'8'", "8"),
        ("[a, {b: 2}]", ["a", {"b": 2}]),
        ("", None),
    ],
)
def test_what_is_copied_reads_as_it_was_written(written: str, found: object, tmp_path: Path) -> None:
    copied = parse(f"key: {written}\n", tmp_path).as_written()
    assert copied == {"key": found}
    again = parse(dump(copied), tmp_path).as_written()
    assert again == copied
