// SPDX-License-Identifier: GPL-2.0-only
#include <linux/compiler.h>

static void __used placebo_code(void)
{
	asm volatile(".rept 16384\n\tnop\n\t.endr");
}
