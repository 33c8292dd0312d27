# SPDX-License-Identifier: MIT
"""Tables of the history, and the numbered steps that made them what they are.

A step is never changed once it is released: a new one follows it. Names begin with `rtgate_`, because a PostgreSQL
database may be shared with other programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata: Final = MetaData()

# One row: how new the tables are.
version: Final = Table("rtgate_schema", metadata, Column("version", Integer, nullable=False))

# Environments repeat from boot to boot. `digest` is of all that must be equal, `id` of everything.
environments: Final = Table(
    "rtgate_environments",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("fields", Text, nullable=False),
)

boots: Final = Table(
    "rtgate_boots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("board", String, nullable=False),
    Column("device", String, nullable=False),
    Column("flavour", String, nullable=False),
    Column("case_name", String, nullable=False),
    Column("tuning", String, nullable=False),
    Column("profile", String, nullable=False),
    Column("arm", String, nullable=False),
    Column("run", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("kernel", String, nullable=False),
    Column("kernel_name", String, nullable=False),
    Column("kernel_release", String, nullable=False),
    Column("kernel_image", String, nullable=False),
    Column("kernel_source", String, nullable=False),
    Column("kernel_commit", String, nullable=False),
    Column("environment", String(64), ForeignKey(environments.c.id), nullable=False),
    Column("comparable", String(64), nullable=False),
    Column("boot_id", String, nullable=False),
    Column("seed", Integer),
    Column("stored_at", String, nullable=False),
    Column("state", String, nullable=False),
    Column("valid", Boolean, nullable=False),
    Column("why_invalid", Text, nullable=False),
    Column("faults", Integer, nullable=False),
    Column("minutes", Float),
    Column("measurements", LargeBinary, nullable=False),
    Column("rest", LargeBinary, nullable=False),
)
# What a gate asks: the newest good boots that may be compared with the ones it has just measured.
Index("rtgate_boots_comparable", boots.c.comparable, boots.c.valid, boots.c.id)
# What people ask: a board, perhaps a case, perhaps a run.
Index("rtgate_boots_board", boots.c.board, boots.c.case_name, boots.c.run)
# What revoking asks: every boot of a kernel.
Index("rtgate_boots_kernel", boots.c.kernel, boots.c.board)

# Kernels that are good, each on a board: a verdict is about both.
promotions: Final = Table(
    "rtgate_promotions",
    metadata,
    Column("kernel", String, primary_key=True),
    Column("board", String, primary_key=True),
    Column("run", String, nullable=False),
    Column("promoted_at", String, nullable=False),
    Column("promoted_by", String, nullable=False),
    Column("verdict", String, nullable=False),
    Column("unjudged", Text, nullable=False),
)

# Kernels that were found to be bad, on every board.
revocations: Final = Table(
    "rtgate_revocations",
    metadata,
    Column("kernel", String, primary_key=True),
    Column("revoked_at", String, nullable=False),
    Column("revoked_by", String, nullable=False),
    Column("reason", Text, nullable=False),
)

# What boots said of a case holds for these: of qualifications and of screens, the newest row of each place counts.
PLACE: Final = ("board", "device", "flavour", "case_name", "environment")
ANY_ENVIRONMENT: Final = ""  # of what no boot said where it was: it holds for each

# What a night of equal kernels said of a device, case by case.
# `kernels` is JSON: which kernels' boots it rests on.
qualifications: Final = Table(
    "rtgate_qualifications",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("board", String, nullable=False),
    Column("device", String, nullable=False),
    Column("flavour", String, nullable=False),
    Column("case_name", String, nullable=False),
    Column("environment", String(64), nullable=False),
    Column("stored_at", String, nullable=False),
    Column("qualified", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    Column("figures", Text, nullable=False),
    Column("kernels", Text, nullable=False),
)
Index("rtgate_qualifications_case", qualifications.c.board, qualifications.c.device, qualifications.c.case_name)

# At which level the screen of a comparison flags a metric, as `rtgate calibrate` proposed.
screens: Final = Table(
    "rtgate_screens",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("board", String, nullable=False),
    Column("device", String, nullable=False),
    Column("flavour", String, nullable=False),
    Column("case_name", String, nullable=False),
    Column("environment", String(64), nullable=False),
    Column("stored_at", String, nullable=False),
    Column("level", Float, nullable=False),
    Column("flagged", Integer, nullable=False),
    Column("sessions", Integer, nullable=False),
    Column("kernels", Text, nullable=False),
)
Index("rtgate_screens_case", screens.c.board, screens.c.device, screens.c.case_name)


def _first(connection: Connection) -> None:
    tables = [version, environments, boots, promotions, revocations, qualifications, screens]
    metadata.create_all(connection, tables=tables)


STEPS: Final[tuple[Callable[[Connection], None], ...]] = (_first,)
