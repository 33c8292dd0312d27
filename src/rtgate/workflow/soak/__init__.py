# SPDX-License-Identifier: MIT
"""Soaks on the host: a case measured for hours in chunks, each of them a record, whatever becomes of the console."""
