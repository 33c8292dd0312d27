# SPDX-License-Identifier: MIT
"""`python -m rtgate` is `rtgate`."""

from rtgate.cli.main import main

raise SystemExit(main())
