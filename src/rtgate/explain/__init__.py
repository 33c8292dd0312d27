# SPDX-License-Identifier: MIT
"""Explanations: which functions a slow wake-up went through on a virtual-time board, and which kernel's are longer."""
