# SPDX-License-Identifier: MIT
"""Reports: what people read. Made from records and verdicts alone; nothing is judged here."""
