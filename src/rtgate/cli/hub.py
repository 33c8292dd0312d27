# SPDX-License-Identifier: MIT
"""`rtgate hub`: share a console among clients that do not hold each other up.

`python3 -m rtgate.cli.hub` is the same without the packages that measuring needs: Python alone is enough.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from rtgate.console.hub import Hub, Settings
from rtgate.console.line import address
from rtgate.errors import ConfigError, RtgateError

DESCRIPTION = """\
Share one console among LAVA, rtgate and people. The line is always read: a client that does not read loses its oldest
bytes, which is said in its own stream, and the others notice nothing. A line that is lost is opened again and again.
Clients are not asked who they are: listen on a network only where everybody may use the board.
More: docs/how-to/share-a-console.md

examples:
  rtgate hub serial:/dev/ttyUSB0:1500000 --telnet 7001 --log /var/log/rtgate/board1.log
  rtgate hub tcp:ser2net.example:4001 --telnet 7001 --raw 7002
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("line", metavar="LINE", help="serial:DEVICE[:BAUD], tcp:HOST:PORT (raw, not telnet), unix:PATH")
    place = "[HOST:]PORT"
    parser.add_argument("--telnet", metavar=place, action="append", default=[], help="for telnet: LAVA, people")
    parser.add_argument("--raw", metavar=place, action="append", default=[], help="for programs, by --console tcp:")
    parser.add_argument("--log", type=Path, metavar="FILE", help="everything that the line says, with times")
    parser.add_argument("--log-limit", type=int, default=256, metavar="MIB", help="moved to FILE.1 then (default: 256)")
    parser.add_argument("--pending", type=int, default=256, metavar="KIB", help="a slow client's bytes (default: 256)")
    parser.add_argument("--clients", type=int, default=32, metavar="N", help="at a time (default: 32)")


def run(arguments: argparse.Namespace) -> int:
    """Run the command until it is interrupted."""
    if not arguments.telnet and not arguments.raw:
        raise ConfigError("nobody could connect: say where, for example --telnet 7001")
    for name in ("log_limit", "pending", "clients"):
        if getattr(arguments, name) < 1:
            raise ConfigError(f"--{name.replace('_', '-')} {getattr(arguments, name)}: it must be at least 1")
    hub = Hub(
        Settings(
            line=arguments.line,
            telnet=tuple(address(text) for text in arguments.telnet),
            raw=tuple(address(text) for text in arguments.raw),
            pending=arguments.pending << 10,
            log=arguments.log,
            log_limit=arguments.log_limit << 20,
            clients=arguments.clients,
        )
    )

    def stop(_signal: int, _frame: FrameType | None) -> None:
        hub.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    places = ", ".join(f"{host}:{port}" for host, port in hub.addresses)
    print(f"rtgate hub: {arguments.line} on {places}", file=sys.stderr, flush=True)
    hub.run()
    return 0


def main() -> int:
    """Run the command alone."""
    parser = argparse.ArgumentParser(
        prog="rtgate hub", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    try:
        return run(parser.parse_args())
    except RtgateError as error:
        print(f"rtgate: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
