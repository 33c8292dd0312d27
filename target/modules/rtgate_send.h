/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Raises interrupts of the other side back to back, from a thread on one CPU that never sleeps: a CPU that measures
 * anything else must not be it, so it has to be named.
 */
#ifndef RTGATE_SEND_H
#define RTGATE_SEND_H

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/time64.h>

#define RTGATE_BURST 256	/* raised between two looks at the clock */

static int cpu = -1;
module_param(cpu, int, 0444);
MODULE_PARM_DESC(cpu, "the CPU that sends and does nothing else; must be given");

static unsigned int seconds = 60;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long to send; 0: until the module is removed (default 60)");

struct rtgate_sender {
	const char *kind;		/* "msi" or "elbi" */
	void (*raise)(void);
	bool (*there)(void);		/* whether the other side can still be reached; may be NULL */
	struct task_struct *task;
};

static int rtgate_send_loop(void *data)
{
	struct rtgate_sender *sender = data;
	u64 began = ktime_get_ns(), said = began, sent = 0, now;
	bool sending = true;
	int i;

	while (sending && !kthread_should_stop()) {
		for (i = 0; i < RTGATE_BURST; i++)
			sender->raise();
		sent += RTGATE_BURST;
		now = ktime_get_ns();
		if (now - said >= NSEC_PER_SEC) {
			said = now;
			pr_info("%s sent=%llu in %lluns\n", sender->kind, sent, now - began);
			if (sender->there && !sender->there()) {
				pr_err("the other side is gone: sending ends\n");
				sending = false;
			}
		}
		if (seconds && now - began >= (u64)seconds * NSEC_PER_SEC)
			sending = false;
		cond_resched();
	}
	pr_info("%s sent=%llu in %lluns, ended\n", sender->kind, sent, ktime_get_ns() - began);
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
	}
	return 0;
}

/* Whether the CPU that was named can send; says why not. */
static int rtgate_send_check(void)
{
	if (cpu < 0 || cpu >= nr_cpu_ids || !cpu_online(cpu)) {
		pr_err("cpu=%d: name an online CPU that sends and measures nothing\n", cpu);
		return -EINVAL;
	}
	return 0;
}

static int rtgate_send_start(struct rtgate_sender *sender)
{
	sender->task = kthread_create(rtgate_send_loop, sender, KBUILD_MODNAME);
	if (IS_ERR(sender->task))
		return PTR_ERR(sender->task);
	kthread_bind(sender->task, cpu);
	wake_up_process(sender->task);
	return 0;
}

static void rtgate_send_stop(struct rtgate_sender *sender)
{
	kthread_stop(sender->task);
}

#endif
