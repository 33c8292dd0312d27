# SPDX-License-Identifier: MIT
"""Which history is meant: by an option, or by the environment. Naming one loads no database library."""

from __future__ import annotations

import os

from rtgate.errors import ConfigError

VARIABLE = "RTGATE_HISTORY"
EXAMPLES = "sqlite:////var/lib/rtgate/history.db, postgresql+psycopg://user@host/database"


def history_url(option: str | None) -> str | None:
    """Return the URL of an option, or of the environment; None for no history."""
    return option or os.environ.get(VARIABLE) or None


def require_url(option: str | None) -> str:
    """Return the URL of an option, or of the environment. Raises ConfigError when there is neither."""
    url = history_url(option)
    if url is None:
        raise ConfigError(f"which history? Name it with --history URL or ${VARIABLE} (for example {EXAMPLES})")
    return url
