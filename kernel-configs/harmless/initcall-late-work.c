// SPDX-License-Identifier: GPL-2.0-only
#include <linux/init.h>
#include <linux/workqueue.h>

static unsigned int placebo_done;

static void placebo_work(struct work_struct *work)
{
	placebo_done++;
}
static DECLARE_DELAYED_WORK(placebo, placebo_work);

static int __init placebo_init(void)
{
	schedule_delayed_work(&placebo, 2 * HZ);
	return 0;
}
late_initcall(placebo_init);
