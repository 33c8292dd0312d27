# SPDX-License-Identifier: MIT
"""`rtgate rootfs`: build, find and describe root filesystems of targets."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rtgate.arches import ARCHES
from rtgate.errors import InfrastructureError
from rtgate.report.notices import step_printer
from rtgate.rootfs import images, recipe

DESCRIPTION = """\
Build the root filesystem that a target boots into, or find it in the cache, and print where it is.

It is made from Debian packages by a recipe, target/rootfs/NAME.yaml; neither root nor a cross compiler is needed.
The image is an initrd for the kernel. Two builds of the same versions give the same bytes.

examples:
  rtgate rootfs                          the image `core` for arm64
  rtgate rootfs core --arch x86_64 -o initrd.gz
  rtgate rootfs --list                   the recipes that exist
  rtgate rootfs core --update-lock       lock the recipe to the newest versions in the archive"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("name", nargs="?", default="core", help="name of the recipe (default: core)")
    parser.add_argument("--arch", choices=tuple(ARCHES), default="arm64", help="default: arm64")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="copy the image to FILE")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list the recipes and end")
    action.add_argument("--update-lock", action="store_true", help="write the recipe's lock file and end")


def run(args: argparse.Namespace) -> int:
    """Carry the command out; return the exit code."""
    if args.list:
        for name in recipe.names():
            print(name)
        return 0
    if args.update_lock:
        with step_printer() as say:
            print(images.update_lock(args.name, progress=say))
        return 0
    with step_printer() as say:
        image = images.image(args.name, args.arch, progress=say)
    if args.output:
        try:
            shutil.copyfile(image.path, args.output)
        except OSError as error:
            raise InfrastructureError(f"{args.output} cannot be written: {error.strerror}") from error
    print(_describe(image, args.output or image.path))
    return 0


def _describe(image: images.RootfsImage, path: Path) -> str:
    lines = [
        str(path),
        f"  {image.name} for {image.arch}, {image.path.stat().st_size:,} bytes",
        f"  SHA-256   {image.sha256}",
        f"  manifest  {image.manifest}",
        "  packages",
    ]
    return "\n".join([*lines, *(f"    {name:<20} {version}" for name, version in sorted(image.versions.items()))])
