# SPDX-License-Identifier: MIT
"""The profiles that limits name: what they ask of a case."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rtgate import site
from rtgate.judge.thresholds import ProfileCase
from rtgate.measure import profiles
from rtgate.measure.profiles import Profile
from rtgate.strict_yaml import Value
from rtgate.tools.case_name import CaseName


@dataclass(slots=True)
class LimitProfiles:
    """Finds the profiles that limits name; each profiles.yaml is read once."""

    _cache: dict[Path, dict[str, Profile]] = field(default_factory=dict)

    def case(self, name: Value, board: str, case: CaseName) -> ProfileCase:
        """Return how the profile that a limit names measures its case on its board.

        Raises:
            ConfigError: at `name`: there is no such profile, or it does not measure the case with options of its own.
        """
        if name.path not in self._cache:
            self._cache[name.path] = _profiles(name.path)
        by_name = self._cache[name.path]
        profile = by_name[name.text(by_name)].on(board)
        if not profile.has(case.suite, case.tool, case.load):
            name.fail(f"the profile {profile.name} does not measure {case.without_tuning} on {board}")
        options = profile.asks(case.tool, case.suite, case.load)
        if not options:
            name.fail(
                f"the profile {profile.name} measures {case.without_tuning} with the tool's own options: "
                "remove `profile`, and the limit is for it too"
            )
        return ProfileCase(options, profile.of(case.tool, case.suite, case.load).duration_s)


def _profiles(path: Path) -> dict[str, Profile]:
    """Return the profiles that a limits file may name.

    The limits of a layer are for its profiles and those of later layers: a site's profile of the same name has other
    options than those with which the shipped limits were measured.
    """
    # A directory may go by several names; a file that is a link belongs to the directory that has the link.
    directories = [layer.directory.resolve() for layer in site.layers()]
    own = path.parent.resolve()
    later = directories[directories.index(own) :] if own in directories else directories
    by_name: dict[str, Profile] = {}
    for directory in reversed(later):
        if (directory / "profiles.yaml").is_file():
            by_name.update(profiles.read(directory / "profiles.yaml"))
    return by_name
