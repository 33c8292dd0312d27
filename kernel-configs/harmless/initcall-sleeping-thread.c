// SPDX-License-Identifier: GPL-2.0-only
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/sched.h>

static int placebo_thread(void *unused)
{
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		schedule();
	}
	return 0;
}

static int __init placebo_init(void)
{
	return PTR_ERR_OR_ZERO(kthread_run(placebo_thread, NULL, "placebo"));
}
late_initcall(placebo_init);
