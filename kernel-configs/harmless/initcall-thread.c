// SPDX-License-Identifier: GPL-2.0-only
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kthread.h>

static int placebo_thread(void *unused)
{
	return 0;
}

static int __init placebo_init(void)
{
	return PTR_ERR_OR_ZERO(kthread_run(placebo_thread, NULL, "placebo"));
}
late_initcall(placebo_init);
