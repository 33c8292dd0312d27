// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every section in which a CPU had interrupts or preemption off, and what bounds a wake-up, by the kernel's tracepoints.
 *
 * The order of events matters: an interrupt that comes with preemption off is no part of the section, and a section that
 * switches threads is another term of the bound than one that does not. So each event is followed when it comes, and
 * only sums are kept. The terms are those of de Oliveira, Casini, de Oliveira, Cucinotta, "Demystifying the Real-Time
 * Linux Scheduling Latency" (ECRTS 2020); src/rtgate/explain/sections.c follows the same on virtual time.
 *
 * An open file that the priority of the measured threads was written to (`99`) is a run: it ends when that file is
 * closed, whoever dies. Reading gives the result as JSON, times in ns of the CPU's clock, for each CPU:
 *
 *   irqsoff, preemptoff, preemptirqsoff   sections with interrupts, with preemption, with either of the two off
 *   poid          either of the two, without a switch of threads, and no interrupt that came to code that was preemptible
 *   switch        the same with a switch of threads
 *   entry         the longest time from where threads could be switched, and were to be, to the section that did so
 *   way           the longest time that a measured thread ran, from the switch to it until it slept
 *   tail          the longest time that following an event took after its clock was read: a section that the event ends
 *                 is longer by it
 *   windows       the most that interrupts, and threads of the kernel that are not below the measured ones (stoppers),
 *                 took of a time that ended while the CPU was not idle, and their number
 *
 * Of each kind of section the sites with the longest are listed. Interrupts that came with preemption off count to
 * irqsoff alone. NMIs are counted, as far as they are known: they are in no term, and behind one the kernel leaves out an
 * event. A CPU that is taken offline has one section for as long as it is away.
 */
#include <linux/hardirq.h>
#include <linux/hash.h>
#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/rt.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/trace_clock.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#define SITES_BITS 14			/* a kernel under load has some 600 of each kind; half of the table is used */
#define SITES (1 << SITES_BITS)
#define LISTED 16			/* sites of each kind and CPU that are printed */
#define INTERFERENCES 1024			/* in the longest window; a power of 2 */
#define WINDOWS 24
#define SHORTEST_NS 16000		/* each window is a third longer than the one before, up to 12 ms */

enum kind { IRQSOFF, PREEMPTOFF, PREEMPTIRQSOFF, POID, KINDS, SWITCH = KINDS, LISTS };
static const char *const names[] = { "irqsoff", "preemptoff", "preemptirqsoff", "poid", "switch" };

struct place {
	unsigned long ip, caller;
};

struct site {
	struct place begin, end;
	u64 list;			/* one of `names` */
	u64 count, longest;
};

struct section {
	bool open, switched;
	struct place begin;
	u64 since, taken;		/* when it began; the CPU's `taken` then */
	u64 taken_in_all;		/* as of the CPU */
	u64 before;			/* of POID: as `entry`, until it began */
	struct place ready_at;
};

struct interference {
	u64 start, length;
};

struct window {
	u64 length, sum, most, most_count;
	u32 first;			/* number of its first */
};

struct cpu_log {
	bool irqs_off, preempt_off;
	bool waiting;			/* between the events that begin and end idle time */
	bool idle;			/* and nothing runs */
	bool interrupt;			/* one is being handled */
	bool preemptible;		/* what it came to */
	u64 irqs_since;			/* when interrupts went off */
	u64 taken, taken_in_all;	/* by interrupts that came with preemption off; by all */
	u64 ready;			/* when threads could be switched, and were to be; 0: they were not */
	struct place ready_at, entry_begin, entry_end;
	u64 ran_since, ran_taken;	/* the measured thread that runs */
	u64 above_since;		/* a thread of the kernel runs that is above it */
	u64 entry, way, tail, interrupts, nmis, lost;
	struct section sections[KINDS];
	struct interference ring[INTERFERENCES];
	u32 ring_end;			/* how many there were */
	struct window windows[WINDOWS];
	u32 site_count;
	struct site sites[SITES];
};

static DEFINE_MUTEX(mutex);		/* of all below, but for what the probes change */
static struct cpu_log *cpus;
static unsigned int priority;
static struct file *run;		/* that is going on */
static bool following;			/* probes come and go one after another: all or none count */

static void add(struct cpu_log *cpu, u64 list, const struct place *begin, const struct place *end, u64 length)
{
	u32 at = hash_64(begin->ip * 31 + begin->caller * 37 + end->ip * 41 + end->caller * 43 + list, SITES_BITS);
	struct site *site;

	for (;; at = (at + 1) % SITES) {
		site = &cpu->sites[at];
		if (!site->count)
			break;
		if (site->list == list && !memcmp(&site->begin, begin, sizeof(*begin)) &&
		    !memcmp(&site->end, end, sizeof(*end)))
			goto sum;
	}
	if (cpu->site_count == SITES / 2) {
		cpu->lost++;
		return;
	}
	cpu->site_count++;
	*site = (struct site){ .begin = *begin, .end = *end, .list = list };
sum:
	site->count++;
	site->longest = max(site->longest, length);
}

static bool is_measured(const struct task_struct *task)
{
	return task->rt_priority == priority && !(task->flags & PF_KTHREAD);
}

/* It delays the measured threads, as an interrupt does; with the switch to it. */
static bool is_above(const struct task_struct *task)
{
	return task->rt_priority >= priority && task->flags & PF_KTHREAD;
}

static void be_ready(struct cpu_log *cpu, const struct place *place, u64 now)
{
	if (!test_thread_flag(TIF_NEED_RESCHED)) {
		cpu->ready = 0;
	} else if (!cpu->ready) {
		cpu->ready = now;
		cpu->ready_at = *place;
	}
}

static void end_section(struct cpu_log *cpu, enum kind kind, const struct place *place, u64 now)
{
	struct section *section = &cpu->sections[kind];
	u64 length = now - section->since;
	bool switched = kind == POID && section->switched;

	section->open = false;
	if (kind != IRQSOFF)
		length -= cpu->taken - section->taken;
	add(cpu, switched ? SWITCH : kind, &section->begin, place, length);
	if (kind != POID)
		return;
	be_ready(cpu, place, now);
	if (!switched)
		return;
	if (section->before > cpu->entry) {
		cpu->entry = section->before;
		cpu->entry_begin = section->ready_at;
		cpu->entry_end = section->begin;
	}
	if (is_measured(current)) {
		cpu->ran_since = now;
		cpu->ran_taken = cpu->taken_in_all;
	}
}

static void follow(struct cpu_log *cpu, const struct place *place, u64 now)
{
	bool off = !cpu->idle && (cpu->irqs_off || cpu->preempt_off);
	bool open[KINDS] = {
		[IRQSOFF] = !cpu->idle && cpu->irqs_off,
		[PREEMPTOFF] = !cpu->idle && cpu->preempt_off,
		[PREEMPTIRQSOFF] = off,
		[POID] = off && !(cpu->interrupt && cpu->preemptible),
	};
	enum kind kind;

	for (kind = 0; kind < KINDS; kind++) {
		struct section *section = &cpu->sections[kind];

		if (section->open && !open[kind])
			end_section(cpu, kind, place, now);
		else if (!section->open && open[kind])
			*section = (struct section){ .open = true, .begin = *place, .since = now, .taken = cpu->taken,
						     .taken_in_all = cpu->taken_in_all,
						     .before = cpu->ready ? now - cpu->ready : 0,
						     .ready_at = cpu->ready_at };
	}
}

static void forget_interferences(struct cpu_log *cpu)
{
	int i;

	for (i = 0; i < WINDOWS; i++) {
		cpu->windows[i].sum = 0;
		cpu->windows[i].first = cpu->ring_end;
	}
}

static void add_interference(struct cpu_log *cpu, struct interference last)
{
	int i;

	cpu->ring[cpu->ring_end++ % INTERFERENCES] = last;
	for (i = 0; i < WINDOWS; i++) {
		struct window *window = &cpu->windows[i];
		const struct interference *first;

		if (cpu->ring_end - window->first > INTERFERENCES) {
			cpu->lost++;
			forget_interferences(cpu);
			return;
		}
		window->sum += last.length;
		while (first = &cpu->ring[window->first % INTERFERENCES], first->start + window->length <= last.start) {
			window->sum -= first->length;
			window->first++;
		}
		if (window->sum > window->most) {
			window->most = window->sum;
			window->most_count = cpu->ring_end - window->first;
		}
	}
}

static void be_idle(struct cpu_log *cpu, const struct place *place, u64 now)
{
	cpu->idle = true;
	follow(cpu, place, now);
	cpu->ready = 0;
	forget_interferences(cpu);
}

static void end_interrupt(struct cpu_log *cpu, u64 now)
{
	struct interference last = { cpu->irqs_since, now - cpu->irqs_since };

	cpu->interrupt = false;
	cpu->interrupts++;
	cpu->taken_in_all += last.length;
	if (!cpu->preemptible)
		cpu->taken += last.length;
	add_interference(cpu, last);
}

static void change_irqs(struct cpu_log *cpu, bool off, const struct place *place, u64 now)
{
	if (off) {
		cpu->idle = false;
		cpu->irqs_since = now;
		cpu->preemptible = !cpu->preempt_off;
	} else if (cpu->interrupt) {
		end_interrupt(cpu, now);
	}
	cpu->irqs_off = off;
	/* Some ways of waiting let an interrupt in, and go on. */
	if (!off && cpu->waiting && is_idle_task(current) && !test_thread_flag(TIF_NEED_RESCHED))
		be_idle(cpu, place, now);
	else
		follow(cpu, place, now);
}

/* What was off until here was so because an interrupt had come. */
static void begin_interrupt(struct cpu_log *cpu)
{
	if (!in_hardirq() || !cpu->irqs_off || cpu->interrupt)
		return;
	cpu->interrupt = true;
	if (cpu->preemptible)
		cpu->sections[POID].open = false;
}

/* The preemption count has the interrupt in it until irq_exit(), after which the scheduler may be called. */
static void change_preemption(struct cpu_log *cpu, bool off, const struct place *place, u64 now)
{
	if (!off && cpu->interrupt) {
		end_interrupt(cpu, now);
		be_ready(cpu, place, now);
	}
	cpu->preempt_off = off;
	if (off)
		begin_interrupt(cpu);
	follow(cpu, place, now);
}

static void change_idle(struct cpu_log *cpu, bool idle, const struct place *place, u64 now)
{
	cpu->waiting = idle;
	cpu->irqs_since = now;
	if (idle)
		return be_idle(cpu, place, now);
	cpu->idle = false;
	follow(cpu, place, now);
}

static void count_nmi(void)
{
	if (READ_ONCE(following))
		cpus[raw_smp_processor_id()].nmis++;
}

typedef void change_fn(struct cpu_log *cpu, bool off, const struct place *place, u64 now);

static void change(change_fn *how, bool off, unsigned long ip, unsigned long caller)
{
	struct place place = { ip, caller };
	struct cpu_log *cpu;
	unsigned long flags;
	u64 now;

	if (!READ_ONCE(following))
		return;
	if (in_nmi())
		return count_nmi();
	raw_local_irq_save(flags);
	cpu = &cpus[raw_smp_processor_id()];
	now = trace_clock_local();
	how(cpu, off, &place, now);
	cpu->tail = max(cpu->tail, trace_clock_local() - now);
	raw_local_irq_restore(flags);
}

static void on_irq_disable(void *data, unsigned long ip, unsigned long caller)
{
	change(change_irqs, true, ip, caller);
}

static void on_irq_enable(void *data, unsigned long ip, unsigned long caller)
{
	change(change_irqs, false, ip, caller);
}

static void on_preempt_disable(void *data, unsigned long ip, unsigned long caller)
{
	change(change_preemption, true, ip, caller);
}

static void on_preempt_enable(void *data, unsigned long ip, unsigned long caller)
{
	change(change_preemption, false, ip, caller);
}

static void cpu_idle(void *data, unsigned int state, unsigned int cpu)
{
	change(change_idle, state != (u32)-1, _THIS_IP_, 0);
}

static void on_sched_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next,
			    unsigned int prev_state)
{
	struct cpu_log *cpu = &cpus[raw_smp_processor_id()];
	const struct section *section = &cpu->sections[POID];
	unsigned long flags;
	enum kind kind;

	if (!READ_ONCE(following))
		return;
	raw_local_irq_save(flags);
	if (cpu->above_since && section->open)
		add_interference(cpu, (struct interference){ cpu->above_since, section->since - cpu->above_since });
	cpu->above_since = section->open && is_above(next) ? section->since : 0;
	if (cpu->ran_since && section->open && is_measured(prev))
		cpu->way = max(cpu->way,
			       section->since - cpu->ran_since - (section->taken_in_all - cpu->ran_taken));
	cpu->ran_since = 0;
	cpu->ready = 0;
	for (kind = 0; kind < KINDS; kind++)
		cpu->sections[kind].switched = true;
	raw_local_irq_restore(flags);
}

static void interrupted(void)
{
	unsigned long flags;

	if (!READ_ONCE(following))
		return;
	if (in_nmi())
		return count_nmi();
	raw_local_irq_save(flags);
	begin_interrupt(&cpus[raw_smp_processor_id()]);
	raw_local_irq_restore(flags);
}

static void on_irq_handler(void *data, int irq, struct irqaction *action)
{
	interrupted();
}

static void on_vector(void *data, int vector)
{
	interrupted();
}

static void on_nmi(void *data, void *handler, s64 length, int handled)
{
	count_nmi();
}

static struct probe {
	const char *name;
	void *function;
	bool required;
	struct tracepoint *tracepoint;
	bool registered;
} probes[] = {
	{ "irq_disable", on_irq_disable, true },
	{ "irq_enable", on_irq_enable, true },
	{ "preempt_disable", on_preempt_disable, true },
	{ "preempt_enable", on_preempt_enable, true },
	{ "cpu_idle", cpu_idle, true },
	{ "sched_switch", on_sched_switch, true },
	{ "irq_handler_entry", on_irq_handler, true },
	/* x86 has vectors without a handler in this sense. */
	{ "local_timer_entry", on_vector, IS_ENABLED(CONFIG_X86_LOCAL_APIC) },
	{ "reschedule_entry", on_vector, IS_ENABLED(CONFIG_X86_LOCAL_APIC) && IS_ENABLED(CONFIG_SMP) },
	{ "call_function_entry", on_vector, IS_ENABLED(CONFIG_X86_LOCAL_APIC) && IS_ENABLED(CONFIG_SMP) },
	{ "call_function_single_entry", on_vector, IS_ENABLED(CONFIG_X86_LOCAL_APIC) && IS_ENABLED(CONFIG_SMP) },
	{ "irq_work_entry", on_vector },
	{ "error_apic_entry", on_vector },
	{ "spurious_apic_entry", on_vector },
	{ "x86_platform_ipi_entry", on_vector },
	{ "thermal_apic_entry", on_vector },
	{ "threshold_apic_entry", on_vector },
	{ "deferred_error_apic_entry", on_vector },
	{ "nmi_handler", on_nmi },
};

static void find(struct tracepoint *tracepoint, void *data)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tracepoint->name, probes[i].name))
			probes[i].tracepoint = tracepoint;
}

static void stop(void)
{
	int i;

	WRITE_ONCE(following, false);
	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (probes[i].registered)
			tracepoint_probe_unregister(probes[i].tracepoint, probes[i].function, NULL);
	tracepoint_synchronize_unregister();
	for (i = 0; i < ARRAY_SIZE(probes); i++)
		probes[i].registered = false;
	run = NULL;
}

static int start(void)
{
	int cpu, i, ret;

	vfree(cpus);
	cpus = vzalloc(array_size(nr_cpu_ids, sizeof(*cpus)));
	if (!cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		u64 length = SHORTEST_NS;

		for (i = 0; i < WINDOWS; i++, length = length * 4 / 3)
			cpus[cpu].windows[i].length = length;
	}
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		if (!probes[i].tracepoint)
			continue;
		ret = tracepoint_probe_register(probes[i].tracepoint, probes[i].function, NULL);
		if (ret)
			return ret;
		probes[i].registered = true;
	}
	WRITE_ONCE(following, true);
	return 0;
}

static ssize_t sections_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	int ret;

	mutex_lock(&mutex);
	ret = run ? -EBUSY : kstrtouint_from_user(from, size, 10, &priority);
	if (!ret) {
		ret = start();
		run = file;
		if (ret)
			stop();
	}
	mutex_unlock(&mutex);
	return ret ? ret : size;
}

static int by_length(const void *first, const void *second)
{
	const struct site *one = *(const struct site *const *)first, *other = *(const struct site *const *)second;

	if (one->longest != other->longest)
		return one->longest < other->longest ? 1 : -1;
	return 0;
}

static void show_ends(struct seq_file *file, u64 longest, const struct place *begin, const struct place *end)
{
	seq_printf(file, "\"longest\": %llu, \"begin\": \"%ps\", \"begin_caller\": \"%ps\", \"end\": \"%ps\", "
		   "\"end_caller\": \"%ps\"", longest, (void *)begin->ip, (void *)begin->caller, (void *)end->ip,
		   (void *)end->caller);
}

static void show_sites(struct seq_file *file, const struct cpu_log *cpu, u64 list, const struct site **sites)
{
	u64 count = 0;
	int i, found = 0;

	for (i = 0; i < SITES; i++) {
		if (!cpu->sites[i].count || cpu->sites[i].list != list)
			continue;
		count += cpu->sites[i].count;
		sites[found++] = &cpu->sites[i];
	}
	sort(sites, found, sizeof(*sites), by_length, NULL);
	seq_printf(file, ",\n\"%s\": {\"count\": %llu, \"sites\": {", names[list], count);
	for (i = 0; i < min(found, LISTED); i++) {
		seq_printf(file, "%s\n\"%d\": {", i ? "," : "", i);
		show_ends(file, sites[i]->longest, &sites[i]->begin, &sites[i]->end);
		seq_puts(file, "}");
	}
	seq_puts(file, "}}");
}

static void show_cpu(struct seq_file *file, const struct cpu_log *cpu, const struct site **sites)
{
	u64 list;
	int i;

	seq_printf(file, "{\"lost\": %llu, \"way\": %llu, \"tail\": %llu, \"interrupts\": %llu, \"nmis\": %llu,\n\"entry\": {",
		   cpu->lost, cpu->way, cpu->tail, cpu->interrupts, cpu->nmis);
	show_ends(file, cpu->entry, &cpu->entry_begin, &cpu->entry_end);
	seq_puts(file, "},\n\"windows\": {");
	for (i = 0; i < WINDOWS; i++)
		seq_printf(file, "%s\n\"%llu\": {\"taken\": %llu, \"count\": %llu}", i ? "," : "", cpu->windows[i].length,
			   cpu->windows[i].most, cpu->windows[i].most_count);
	seq_puts(file, "}");
	for (list = 0; list < LISTS; list++)
		show_sites(file, cpu, list, sites);
	seq_puts(file, "}");
}

static int sections_show(struct seq_file *file, void *unused)
{
	const struct site **sites;
	const char *between = "";
	int cpu, ret = 0;

	mutex_lock(&mutex);
	sites = vmalloc(array_size(SITES, sizeof(*sites)));
	if (run || !cpus || !sites) {
		ret = run ? -EBUSY : cpus ? -ENOMEM : -ENODATA;
		goto out;
	}
	seq_printf(file, "{\"preempt_rt\": %d, \"cpu\": {", IS_ENABLED(CONFIG_PREEMPT_RT));
	for_each_online_cpu(cpu) {
		seq_printf(file, "%s\n\"%d\": ", between, cpu);
		show_cpu(file, &cpus[cpu], sites);
		between = ",";
	}
	seq_puts(file, "}}\n");
out:
	vfree(sites);
	mutex_unlock(&mutex);
	return ret;
}

static int sections_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;	/* misc_open() left the device there, which seq_open() warns of */
	return single_open(file, sections_show, NULL);
}

static int sections_release(struct inode *inode, struct file *file)
{
	mutex_lock(&mutex);
	if (run == file)
		stop();
	mutex_unlock(&mutex);
	return single_release(inode, file);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = sections_open,
	.read = seq_read,
	.write = sections_write,
	.llseek = seq_lseek,
	.release = sections_release,
};

static struct miscdevice node = {
	.minor = MISC_DYNAMIC_MINOR, .name = KBUILD_MODNAME, .fops = &operations, .mode = 0600
};

static int __init sections_init(void)
{
	int i;

	for_each_kernel_tracepoint(find, NULL);
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		if (!probes[i].tracepoint && probes[i].required) {
			pr_err(KBUILD_MODNAME ": the kernel has no tracepoint %s\n", probes[i].name);
			return -ENODEV;
		}
	}
	return misc_register(&node);
}

static void __exit sections_exit(void)
{
	misc_deregister(&node);
	vfree(cpus);
}

module_init(sections_init);
module_exit(sections_exit);
MODULE_DESCRIPTION("Sections with interrupts or preemption off, and the bound of a wake-up, by tracepoints");
MODULE_LICENSE("GPL");
