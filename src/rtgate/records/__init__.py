# SPDX-License-Identifier: MIT
"""Records: typed data of one boot of one case, as files that measuring writes and judging reads."""
