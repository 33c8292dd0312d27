// SPDX-License-Identifier: GPL-2.0-only
#include <linux/cache.h>
#include <linux/compiler.h>

static char __used placebo_memory[1 << 20] __aligned(64);
