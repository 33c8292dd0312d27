// SPDX-License-Identifier: GPL-2.0-only
#include <linux/init.h>

static int __init placebo_init(void)
{
	int left;

	for (left = 1; left; left--)
		asm volatile("nop");
	return 0;
}
late_initcall(placebo_init);
