# SPDX-License-Identifier: MIT
"""Root filesystems of targets: recipes, packages, images."""
