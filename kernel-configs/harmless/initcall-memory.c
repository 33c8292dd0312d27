// SPDX-License-Identifier: GPL-2.0-only
#include <linux/init.h>
#include <linux/slab.h>

static void *placebo_objects[16];

static int __init placebo_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(placebo_objects); i++)
		placebo_objects[i] = kmalloc(200, GFP_KERNEL);
	for (i = 1; i < ARRAY_SIZE(placebo_objects); i++)
		kfree(placebo_objects[i]);
	return 0;
}
device_initcall(placebo_init);
