# SPDX-License-Identifier: MIT
"""The history: every boot that was ever measured, in a database that comparisons and calibration learn from.

It is the one place that knows SQLAlchemy. `database` opens it, `schema` has its tables, `store` adds records, `queries`
finds them again; `baselines` says which kernels are good, `pairing` which boots of it may serve for what.
"""
