// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver rtgate_sections as a program: what it needs of the kernel stands here, DRIVER names its source. Each line of
 * the input is `TIME EVENT [PLACE]` on CPU 0, with a number for a place; in the end the driver's JSON is printed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef int64_t s64;
struct task_struct {
	int rt_priority;
	unsigned int flags;
};
struct tracepoint {
	const char *name;
	void *probe;
};
struct file {
	void *private_data;
};
struct seq_file;
struct inode;
struct irqaction;
struct file_operations {
	int owner;
	int (*open)(struct inode *, struct file *), (*release)(struct inode *, struct file *);
	int read, llseek;
	ssize_t (*write)(struct file *, const char *, size_t, loff_t *);
};
struct miscdevice {
	int minor, mode;
	const char *name;
	const struct file_operations *fops;
};

enum { PF_KTHREAD = 1, MISC_DYNAMIC_MINOR, THIS_MODULE, seq_read, seq_lseek };
enum { nr_cpu_ids = 1, TIF_NEED_RESCHED };
enum { CONFIG_PREEMPT_RT = 1, CONFIG_X86_LOCAL_APIC = 1, CONFIG_SMP = 1 };
#define IS_ENABLED(option) (option)
#define KBUILD_MODNAME "rtgate_sections"
#define __user
#define __init
#define __exit
#define DEFINE_MUTEX(name) int name
#define mutex_lock(mutex) ((void)(mutex))
#define mutex_unlock(mutex) ((void)(mutex))
#define max(a, b) ({ __auto_type x = (a); __auto_type y = (b); x > y ? x : y; })
#define min(a, b) ({ __auto_type x = (a); __auto_type y = (b); x < y ? x : y; })
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))
#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define _THIS_IP_ 1
#define hash_64(value, bits) ((u32)((value) * 0x61c8864680b583ebull >> (64 - (bits))))
#define raw_local_irq_save(flags) ((flags) = 0)
#define raw_local_irq_restore(flags) ((void)(flags))
#define raw_smp_processor_id() 0
#define for_each_possible_cpu(cpu) for (cpu = 0; cpu < 1; cpu++)
#define for_each_online_cpu(cpu) for (cpu = 0; cpu < 1; cpu++)
#define array_size(count, size) ((count) * (size))
#define vzalloc(size) calloc(1, size)
#define vmalloc malloc
#define vfree(memory) free((void *)(memory))
#define sort(base, count, size, compare, swap) qsort(base, count, size, compare)
#define seq_printf(file, ...) ((void)(file), printf(__VA_ARGS__))
#define seq_puts(file, text) ((void)(file), printf("%s", text))
#define pr_err printf
#define single_open(file, show, data) ((void)(file), (show) == NULL)
#define single_release(inode, file) ((void)(file), 0)
#define misc_register(node) ((node)->fops == NULL)
#define misc_deregister(node) ((void)(node))
#define kstrtouint_from_user(from, size, base, to) ((void)(size), *(to) = strtoul(from, NULL, base), 0)
#define tracepoint_synchronize_unregister()
#define module_init(function) static int (*const begin)(void) = function;
#define module_exit(function) static void (*const end)(void) = function;
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)

static u64 now, slow; /* slow: from one reading of the clock to the next one */
static bool asked, hardirq, nmi; /* for a switch of threads; in one of them */
static struct task_struct thread = { 99 }, kernel_thread = { 99, PF_KTHREAD }, other = { 98 }, idle, *current = &other;
static struct tracepoint tracepoints[] = { { "irq_disable" },	  { "irq_enable" }, { "preempt_disable" },
					   { "preempt_enable" }, { "cpu_idle" },   { "sched_switch" },
					   { "irq_handler_entry" }, { "local_timer_entry" },
					   { "reschedule_entry" },   { "call_function_entry" },
					   { "call_function_single_entry" }, { "nmi_handler" } };

static u64 trace_clock_local(void)
{
	u64 then = now;

	now += slow;
	return then;
}

static bool test_thread_flag(int flag)
{
	return flag == TIF_NEED_RESCHED && asked;
}

static bool is_idle_task(const struct task_struct *task)
{
	return task == &idle;
}

static bool in_hardirq(void)
{
	return hardirq;
}

static bool in_nmi(void)
{
	return nmi;
}

static int tracepoint_probe_register(struct tracepoint *tracepoint, void *probe, void *data)
{
	(void)data;
	tracepoint->probe = probe;
	return 0;
}

static void tracepoint_probe_unregister(struct tracepoint *tracepoint, void *probe, void *data)
{
	(void)data;
	if (tracepoint->probe == probe)
		tracepoint->probe = NULL;
}

static void for_each_kernel_tracepoint(void (*function)(struct tracepoint *, void *), void *data)
{
	for (size_t i = 0; i < ARRAY_SIZE(tracepoints); i++)
		function(&tracepoints[i], data);
}

#include DRIVER

static void switch_to(struct task_struct *next)
{
	struct task_struct *prev = current;

	current = next;
	on_sched_switch(NULL, false, prev, next, 0);
}

static bool happen(const char *event, unsigned long place)
{
	if (!strcmp(event, "irq_disable"))
		on_irq_disable(NULL, place, 0);
	else if (!strcmp(event, "irq_enable"))
		on_irq_enable(NULL, place, 0);
	else if (!strcmp(event, "preempt_disable"))
		on_preempt_disable(NULL, place, 0);
	else if (!strcmp(event, "preempt_enable"))
		on_preempt_enable(NULL, place, 0);
	else if (!strcmp(event, "idle"))
		cpu_idle(NULL, place, 0);
	else if (!strcmp(event, "measured"))
		switch_to(&thread);
	else if (!strcmp(event, "other"))
		switch_to(&other);
	else if (!strcmp(event, "kernel_thread"))
		switch_to(&kernel_thread);
	else if (!strcmp(event, "idle_thread"))
		switch_to(&idle);
	else if (!strcmp(event, "slow"))
		slow = place;
	else if (!strcmp(event, "asked"))
		asked = place;
	else if (!strcmp(event, "handler"))
		on_irq_handler(NULL, 0, NULL);
	else if (!strcmp(event, "vector"))
		on_vector(NULL, 0);
	else if (!strcmp(event, "hardirq"))
		hardirq = place;
	else if (!strcmp(event, "nmi"))
		nmi = place;
	else if (!strcmp(event, "nmi_handler"))
		on_nmi(NULL, NULL, 0, 0);
	else
		return false;
	return true;
}

int main(void)
{
	struct file file = { NULL }, other_file = { NULL };
	unsigned long long time;
	unsigned long place;
	char event[32];
	int words;

	if (begin() || operations.open(NULL, &file) || sections_show(NULL, NULL) != -ENODATA)
		return 1;
	/* Of the first run nothing is left. */
	if (operations.write(&other_file, "99\n", 3, NULL) != 3)
		return 1;
	on_preempt_disable(NULL, 1, 0);
	now = 5;
	on_preempt_enable(NULL, 1, 0);
	operations.release(NULL, &other_file);
	if (operations.write(&file, "99\n", 3, NULL) != 3 || operations.write(&other_file, "99\n", 3, NULL) != -EBUSY ||
	    sections_show(NULL, NULL) != -EBUSY || operations.release(NULL, &other_file) || !tracepoints[0].probe)
		return 1;
	while ((words = scanf("%llu %31s %lu\n", &time, event, &place)) == 3) {
		now = time;
		if (!happen(event, place))
			return 2;
	}
	operations.release(NULL, &file);
	if (words != EOF || tracepoints[0].probe || sections_show(NULL, NULL))
		return 3;
	end();
	return 0;
}
