/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts interrupts of a line that another driver handles, and prints once a second what came.
 *
 * The line is shared: the driver's handler and ours are both called. With threaded interrupts (PREEMPT_RT, threadirqs)
 * both run in threads, and a thread is woken once for what comes while it runs: what is counted is how often the
 * handlers ran, as in the vendor's guide, not what crossed the link.
 */
#ifndef RTGATE_COUNT_H
#define RTGATE_COUNT_H

#include <linux/atomic.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/time64.h>
#include <linux/workqueue.h>

struct rtgate_counter {
	const char *kind;	/* "msi" or "elbi", as the line begins */
	int irq;		/* 0 while nothing is counted */
	atomic_t count;
	int printed;		/* the count of the last line */
	u64 printed_ns;
	struct delayed_work print;
};

static irqreturn_t rtgate_count_interrupt(int irq, void *data)
{
	struct rtgate_counter *counter = data;

	atomic_inc(&counter->count);
	return IRQ_HANDLED;
}

/*
 * The guide's line, "msi count=%d %lluus", with what its integer quotient hides: how many came, in which time. A second
 * without any is no division.
 */
static void rtgate_count_print(struct work_struct *work)
{
	struct rtgate_counter *counter = container_of(to_delayed_work(work), struct rtgate_counter, print);
	int count = atomic_read(&counter->count);
	u64 now = ktime_get_ns();
	u32 new = (u32)count - (u32)counter->printed;
	u64 period_us = new ? (u32)USEC_PER_SEC / new : 0;

	pr_info("%s count=%d %lluus +%u in %lluns\n", counter->kind, count, period_us, new, now - counter->printed_ns);
	counter->printed = count;
	counter->printed_ns = now;
	schedule_delayed_work(&counter->print, HZ);
}

static int rtgate_count_start(struct rtgate_counter *counter, int irq)
{
	int ret;

	INIT_DELAYED_WORK(&counter->print, rtgate_count_print);
	atomic_set(&counter->count, 0);
	ret = request_irq(irq, rtgate_count_interrupt, IRQF_SHARED, KBUILD_MODNAME, counter);
	if (ret) {
		pr_err("interrupt %d cannot be shared: %d\n", irq, ret);
		return ret;
	}
	counter->irq = irq;
	counter->printed_ns = ktime_get_ns();
	schedule_delayed_work(&counter->print, HZ);
	return 0;
}

static void rtgate_count_stop(struct rtgate_counter *counter)
{
	if (!counter->irq)
		return;
	cancel_delayed_work_sync(&counter->print);
	free_irq(counter->irq, counter);
	counter->irq = 0;
}

#endif
