# SPDX-License-Identifier: MIT
"""`rtgate where`: say which file a name comes from."""

from __future__ import annotations

import argparse

from rtgate import site
from rtgate.errors import ConfigError
from rtgate.workflow.references import outside

DESCRIPTION = """\
Say which file a name comes from, and which others it hides. Names are looked up in the site directory (--site or
RTGATE_SITE), then in the kernel repository's .rtgate/, then in what rtgate ships.

examples:
  rtgate where virt-arm64                a board, a build or an image
  rtgate where my-tool                   a tool or a load that does not come with rtgate
  rtgate where thresholds.yaml           a file at the top
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("name", help="a board, build, image, tool or load, or a file's name")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    name = arguments.name
    places = [(kind, site.matches(kind, f"{name}.yaml")) for kind in site.KINDS]
    places.append(("", site.matches("", name)))
    hits = [(kind, matches) for kind, matches in places if matches]
    extensions = [extension for extension in outside() if extension.name == name]
    if not hits and not extensions:
        directories = ", ".join(f"{layer.directory} ({layer.origin})" for layer in site.layers())
        raise ConfigError(f"no board, build, image or file is called {name!r} (searched: {directories})")
    for kind, matches in hits:
        for number, (layer, path) in enumerate(matches):
            state = "wins" if number == 0 else "hidden"
            print(f"{kind or 'file'}: {path} ({layer.origin}, {state})")
    for extension in extensions:
        print(f"{extension.kind.value}: {extension.place}")
    return 0
