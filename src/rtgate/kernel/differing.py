# SPDX-License-Identifier: MIT
"""Which functions, data and options differ between two kernels.

Code that only moved is the same code: where bytes differ, the addresses in them are compared by what they point to. So
is code that only has another name. A function that was inlined changes its callers, and they show as changed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rtgate.errors import ConfigError
from rtgate.kernel.carried_images import carried_images, is_vdso
from rtgate.kernel.configuration import read_config
from rtgate.kernel.fragments import UNSET
from rtgate.kernel.known_functions import is_known
from rtgate.kernel.relocation import same_code, same_data
from rtgate.kernel.unnamed_code import unnamed_code
from rtgate.kernel.vmlinux import Symbol, Vmlinux, plain_name

# Tables that the build makes of all symbols: they differ whenever anything does, and nobody changed them.
_MADE = re.compile(
    r"kallsyms_|__ksymtab|__kstrtab|__kcrctab|linux_banner|linux_proc_banner|init_uts_ns|vermagic$|__bug_|vdso|__param|descriptor\."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What differs between two kernels, by names of the source: those of the candidate, where a function has two.

    Attributes:
        changed, added, removed: functions.
        renames: functions of the baseline that do not differ, and the candidate's names of them.
        data: variables and constants whose first value or size differs, or that only one kernel has, and files that a
            kernel carries as they are, such as its vDSO. Where no function differs, code without a name that does is
            among them: whether it ran is as little known.
        options: Kconfig options as (baseline, candidate); a side without the option is an empty string.
    """

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, str]]

    @property
    def functions(self) -> frozenset[str]:
        """Every function that differs."""
        return frozenset((*self.changed, *self.added, *self.removed))


def differing(
    baseline: Vmlinux, candidate: Vmlinux, configs: tuple[Path | None, Path | None] = (None, None)
) -> Differences:
    """Compare two kernels function by function.

    Raises:
        ConfigError: they are of different architectures, or a configuration cannot be read.
    """
    if baseline.arch != candidate.arch:
        raise ConfigError(f"a kernel for {baseline.arch} and one for {candidate.arch} have no function in common")
    renames = find_renames(baseline, candidate)
    baseline = baseline.with_names(renames)
    code = _compare(_functions(baseline), _functions(candidate), lambda a, b: same_code(baseline, a, candidate, b))
    data = _compare(_variables(baseline), _variables(candidate), lambda a, b: same_data(baseline, a, candidate, b))
    # A piece of a function (`f.cold`, `f.part.0`) that is new is a change of that function, not a new function.
    there = {plain_name(symbol.name) for symbol in baseline.symbols if symbol.function}
    here = {plain_name(symbol.name) for symbol in candidate.symbols if symbol.function}
    additions, removals = code.added - there, code.removed - here
    any_function = code.changed or code.added or code.removed
    unnamed = set[str]() if any_function else _unnamed_code(baseline, candidate)
    return Differences(
        changed=tuple(sorted((code.changed | code.added | code.removed) - additions - removals)),
        added=tuple(sorted(additions)),
        removed=tuple(sorted(removals)),
        renames=renames,
        data=tuple(sorted(data.changed | data.added | data.removed | _images(baseline, candidate) | unnamed)),
        options=_options(*configs),
    )


def _images(baseline: Vmlinux, candidate: Vmlinux) -> set[str]:
    """Return the files that differ of those that the kernels carry, in words."""
    old, new = carried_images(baseline), carried_images(candidate)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _unnamed_code(baseline: Vmlinux, candidate: Vmlinux) -> set[str]:
    """Return the sections in which code differs that has no name, in words."""
    old, new = (_table(unnamed_code(kernel)) for kernel in (baseline, candidate))

    def same(mine: Symbol, theirs: Symbol) -> bool:
        # Between code of assembler are addresses that it loads.
        kernels = baseline, mine, candidate, theirs
        return same_code(*kernels) or same_data(*kernels)

    names = _compare(old, new, same)
    return {f"code without a name in {section}" for section in names.changed | names.added | names.removed}


def find_renames(baseline: Vmlinux, candidate: Vmlinux) -> dict[str, str]:
    """Return functions of the baseline whose code the candidate has under another name, and this name.

    Each of the two names is in one kernel alone, and all code of that name is equal, with calls of functions that were
    renamed as well. It is in the same file, or global in both. Where several have equal code nobody knows which is
    which, and none of them is returned. Both kernels must be of one architecture.
    """
    old, new = _code_of_one(baseline, candidate), _code_of_one(candidate, baseline)
    renames: dict[str, str] = {}
    # What only one kernel has is named alike in both at first, or it could not be found where it calls itself, or
    # another one that was renamed. Each round knows more of these.
    while old and new:
        mine = baseline.with_names(dict.fromkeys(old, _ANY) | renames)
        theirs = candidate.with_names(dict.fromkeys(new, _ANY))
        pairs = _pairs(old, new, lambda a, b: same_code(mine, a, theirs, b))  # noqa: B023 - called in this round
        if not pairs:
            break
        renames |= pairs
        old = {name: symbols for name, symbols in old.items() if name not in pairs}
        new = {name: symbols for name, symbols in new.items() if name not in pairs.values()}
    return _confirm(renames, baseline, candidate)


_ANY = "?"  # no function has this name
_LEAST = 16  # bytes of code that say enough of a function


def _code_of_one(kernel: Vmlinux, other: Vmlinux) -> dict[str, list[Symbol]]:
    """Return the symbols of each name that only one of two kernels has, only as code, and that rtgate does not know.

    Functions of a few instructions are left out: unrelated ones are equal, such as all that only return an error.
    """
    names = {plain_name(symbol.name) for symbol in other.symbols}
    by_name: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in kernel.symbols:
        if plain_name(symbol.name) not in names:
            by_name[plain_name(symbol.name)].append(symbol)
    return {
        name: symbols
        for name, symbols in by_name.items()
        if sum(symbol.size for symbol in symbols) >= _LEAST
        and all(_is_code(kernel, symbol) and not is_known(kernel, symbol) for symbol in symbols)
    }


def _pairs(
    old: Mapping[str, Sequence[Symbol]], new: Mapping[str, Sequence[Symbol]], same: Callable[[Symbol, Symbol], bool]
) -> dict[str, str]:
    """Return the names whose code equals that of one other name, which equals no third one's."""
    by_place: dict[_Places, list[str]] = defaultdict(list)
    for name, symbols in new.items():
        by_place[_places(symbols)].append(name)
    equals = {
        name: [other for other in by_place[_places(symbols)] if _is_permutation(symbols, new[other], same)]
        for name, symbols in old.items()
    }
    counts = Counter(other for others in equals.values() for other in others)
    return {name: others[0] for name, others in equals.items() if len(others) == 1 and counts[others[0]] == 1}


_Places = tuple[tuple[str, int], ...]


def _places(symbols: Iterable[Symbol]) -> _Places:
    """Return file and size of each symbol: functions of one that is renamed have the same."""
    return tuple(sorted((symbol.file, symbol.size) for symbol in symbols))


def _confirm(renames: dict[str, str], baseline: Vmlinux, candidate: Vmlinux) -> dict[str, str]:
    """Return the largest part of some renames by which none of these functions differs, whatever they call.

    A static function or variable that they use is known by its file as well: another file's of that name is another.
    """
    theirs = candidate.with_files() if renames else candidate  # sorts all symbols again
    while renames:
        renamed, names = baseline.with_names(renames), frozenset(renames.values())
        mine = renamed.with_files()
        code = _compare(
            _functions(renamed, names),
            _functions(candidate, names),
            lambda a, b: same_code(mine, a, theirs, b),  # noqa: B023 - called in this round
        )
        wrong = code.changed | code.added | code.removed
        if not wrong:
            break
        renames = {old: new for old, new in renames.items() if new not in wrong}
    return renames


@dataclass(frozen=True, slots=True)
class _Names:
    changed: set[str]
    added: set[str]
    removed: set[str]


_Table = dict[tuple[str, str], list[Symbol]]


def _functions(kernel: Vmlinux, names: Collection[str] | None = None) -> _Table:
    """Return all functions; with `names` these only."""
    return _table(
        symbol
        for symbol in kernel.symbols
        if _is_code(kernel, symbol) and (names is None or plain_name(symbol.name) in names)
    )


def _is_code(kernel: Vmlinux, symbol: Symbol) -> bool:
    return symbol.size > 0 and kernel.sections[symbol.section].code


def _variables(kernel: Vmlinux) -> _Table:
    return _table(
        symbol
        for symbol in kernel.symbols
        if symbol.data
        and symbol.size > 0
        and not kernel.sections[symbol.section].code
        and not _MADE.match(symbol.name)
        and not is_vdso(symbol)
    )


def _table(symbols: Iterable[Symbol]) -> _Table:
    table: _Table = defaultdict(list)
    for symbol in symbols:
        table[plain_name(symbol.name), symbol.file].append(symbol)
    return table


def _compare(old: _Table, new: _Table, same: Callable[[Symbol, Symbol], bool]) -> _Names:
    names = _Names(set(), set(), set())
    for key in old.keys() | new.keys():
        mine, theirs = old.get(key, []), new.get(key, [])
        if not mine:
            names.added.add(key[0])
        elif not theirs:
            names.removed.add(key[0])
        elif len(mine) != len(theirs) or not _is_permutation(mine, theirs, same):
            names.changed.add(key[0])
    # A function that became global or static, or moved to another file, is in both tables under another key.
    both = names.added & names.removed
    for name in both:
        mine = [symbol for key, symbols in old.items() if key[0] == name and key not in new for symbol in symbols]
        theirs = [symbol for key, symbols in new.items() if key[0] == name and key not in old for symbol in symbols]
        if len(mine) != len(theirs) or not _is_permutation(mine, theirs, same):
            names.changed.add(name)
    return _Names(names.changed, names.added - both, names.removed - both)


def _is_permutation(mine: Sequence[Symbol], theirs: Sequence[Symbol], same: Callable[[Symbol, Symbol], bool]) -> bool:
    """Return whether each of several symbols of one name has its equal, in whatever order they were linked."""
    rest = list(theirs)
    for symbol in mine:
        match = next((candidate for candidate in rest if same(symbol, candidate)), None)
        if match is None:
            return False
        rest.remove(match)
    return True


def _options(baseline: Path | None, candidate: Path | None) -> dict[str, tuple[str, str]]:
    if baseline is None or candidate is None:
        return {}
    old, new = options(baseline), options(candidate)
    return {
        name: (old.get(name, ""), new.get(name, ""))
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "") != new.get(name, "")
    }


def options(config: Path) -> dict[str, str]:
    """Return the options of a `.config` that are set. Raises ConfigError: it cannot be read."""
    return {f"CONFIG_{symbol}": value for symbol, value in read_config(config).items() if value != UNSET}
