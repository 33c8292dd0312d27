// SPDX-License-Identifier: MIT
/*
 * sections: how long each CPU of a virtual-time board (arm64 or x86-64) could not take interrupts, could not be
 * preempted, or either of the two, and between which places of the kernel. And what bounds the latency of the scheduler:
 * how long it is postponed by anything but interrupts, and when interrupts ran.
 *
 * Nothing in the guest is touched, and nothing is guessed: at the beginning of each block the mask is read in QEMU's
 * own state of the CPU, and the preemption count in the guest's memory. All that changes the mask ends a block (msr
 * daifset, daifclr and daif, eret; sti, popf, iretq, sysretq; exceptions), so it cannot change within one. Only cli does
 * not, and is seen when it runs. Stores to the preemption count are seen one by one. A length is the number of the CPU's
 * own instructions after the one that disabled, including the one that enabled. The instruction that waits for an
 * interrupt ends a section, and begins the next one.
 *
 * Lines of the order:
 *   count OFFSET           of the preemption count in struct task_struct (arm64); asks for sections
 *   percpu COUNT CURRENT   addresses behind gs of the preemption count and of the task that runs (x86-64); asks for them
 *   softirq OFFSET MASK    of what says in the task that a softirq runs (32 bits); without it the preemption count does
 *   exception START END    an exception begins with a block that begins in here
 *   interrupt START END    the same, and it is an interrupt
 *   helper, altered        for callers.c and calls.c, and others for locks.c and handlers.c
 *
 * PREFIX.interrupts, .switches and .followed are written: records as below, and text. sites.c writes those of sections.
 */
#include "accesses.h"
#include "base.h"
#include "caches.h"
#include "callers.h"
#include "calls.h"
#include "guest.h"
#include "handlers.h"
#include "locks.h"
#include "machine.h"
#include "qemu.h"
#include "ranges.h"
#include "sections.h"
#include "sites.h"

enum { KINDS = 4, TASKS = 1 << 16 };
/* The last: preemption or interrupts disabled, but for the interrupts in it, which postpone the scheduler themselves. */
enum kind { IRQSOFF, PREEMPTOFF, PREEMPTIRQSOFF, POID };
enum context { THREAD, SOFTIRQ, HARDIRQ, NMI, SWITCHED = 1 << 8 };
/* Of the preemption count; x86-64 has in its uppermost bit whether a switch of threads is not asked for. */
enum { HARDIRQ_COUNT = 0xf0000, NMI_COUNT = 0xf00000, COUNT = 0x7fffffff };

struct place {
	struct location at;
	bool vector; /* an exception begins here */
	bool interrupt; /* and it is an interrupt */
	bool returns; /* the instruction returns from an exception */
	bool locks; /* a function begins here that locks */
	uint32_t altered; /* what `calls_function` says of it */
	struct handler_place handlers;
	uint32_t source; /* the register that the instruction writes to sp_el0 */
};

/* An interrupt, from its vector to irq_exit() or, with preemption off, to its return; or a POID section that switches. */
struct passage {
	uint64_t from, to; /* n */
	uint64_t before; /* instructions that nothing postponed the scheduler before it */
	uint32_t cpu, stretch; /* how often it had waited for an interrupt */
};

struct task {
	uint64_t address;
	const uint32_t *count, *softirq; /* the first one on arm64 only */
	struct handlers handlers; /* that run in this thread */
};

struct spot {
	const struct place *place;
	uint64_t caller;
};

struct section {
	bool open;
	uint64_t begin; /* as `time_of` counts */
	struct misses begin_misses, taken_misses;
	uint64_t from; /* n */
	struct spot spot;
	uint32_t context;
	uint64_t before; /* as of a passage */
};

struct cpu {
	struct guest_cpu guest;
	bool ready; /* guest is known */
	uint64_t own; /* instructions of its own until it was this one's turn */
	struct task *task;
	const uint32_t *count; /* its preemption count */
	uint32_t off; /* as it was last seen */
	uint64_t base; /* of the CPU's own variables: gs (x86-64) */
	const uint64_t *current; /* the address of its task (x86-64) */
	const struct place *block; /* that ran last */
	bool masked, waiting;
	const struct place *changer; /* the last instruction, if it may have changed the mask */
	const struct place *switcher; /* the last instruction, if it wrote sp_el0 */
	bool interrupted; /* one came with preemption off, and has not returned */
	uint64_t interrupt, taken; /* when it came; how long all such took */
	struct misses interrupt_misses, taken_misses; /* the same */
	uint64_t stack; /* the stack pointer of what it interrupted */
	enum { NONE, ENTERED, COUNTED } handler; /* of one that came with preemption on: also in the preemption count */
	uint64_t from; /* n when an interrupt came; one alone, as hard interrupts do not nest */
	uint64_t end; /* n when the last POID section or interrupt had ended */
	uint32_t stretch;
	struct section sections[KINDS];
	struct calls calls[POID];
	struct handlers hard_handlers; /* that run in interrupts */
};

static bool wanted, with_calls; /* the second is asked at each block */
static uint64_t count_offset, current_offset, softirq_offset;
static uint32_t softirq_mask;
static struct ranges exceptions;
static struct cpu cpus[CPUS];
static struct cpu *running;
static uint64_t since; /* n when the running CPU's turn began */
static struct task *tasks[TASKS];
static size_t task_count;
static uint64_t unseen; /* changes of the preemption count that no store was seen of */
static FILE *interrupts, *switches;

bool sections_order(const char *line)
{
	unsigned long long a, b;

	if (sscanf(line, "count %llu", &a) == 1) {
		wanted = true;
		count_offset = a;
	} else if (sscanf(line, "percpu %llx %llx", &a, &b) == 2) {
		wanted = true;
		count_offset = a;
		current_offset = b;
	} else if (sscanf(line, "softirq %llu %llx", &a, &b) == 2) {
		softirq_offset = a;
		softirq_mask = b;
	} else if (sscanf(line, "exception %llx %llx", &a, &b) == 2) {
		ranges_add(&exceptions, (struct range){ a, b, false });
	} else if (sscanf(line, "interrupt %llx %llx", &a, &b) == 2) {
		ranges_add(&exceptions, (struct range){ a, b, true });
	} else {
		return callers_order(line) || calls_order(line) || locks_order(line) || handlers_order(line);
	}
	return true;
}

void sections_install(void)
{
	if (!wanted)
		return;
	guest_install();
	locks_install();
	handlers_install();
	accesses_install();
	sites_install();
	with_calls = calls_wanted();
	interrupts = opened("interrupts");
	switches = opened("switches");
}

static uint64_t own(const struct cpu *cpu)
{
	return cpu->own + *instruction_count - since;
}

/* Return which of a CPU's instructions belong to a section of a kind; no interrupt comes while they are masked. */
static uint64_t time_of(const struct cpu *cpu, enum kind kind, uint64_t now)
{
	return now - (kind == IRQSOFF ? 0 : cpu->taken);
}

static struct task *task_at(uint64_t address)
{
	size_t place = (address >> 6) % TASKS;
	uint64_t count = machine_arm64 ? count_offset : 0;
	const char *memory;

	while (tasks[place] && tasks[place]->address != address)
		place = (place + 1) % TASKS;
	if (tasks[place])
		return tasks[place];
	if (++task_count == TASKS / 2)
		fail("more tasks than there is room for", "sections");
	memory = guest_memory(address, (softirq_offset > count ? softirq_offset : count) + 4);
	tasks[place] = room_for(sizeof(struct task));
	tasks[place]->address = address;
	tasks[place]->count = (const uint32_t *)(memory + count);
	tasks[place]->softirq = (const uint32_t *)(memory + softirq_offset);
	return tasks[place];
}

static uint32_t count_of(const struct cpu *cpu)
{
	return *cpu->count & COUNT;
}

static uint32_t context(const struct cpu *cpu, const struct place *place)
{
	uint32_t count = count_of(cpu);

	if (count & NMI_COUNT)
		return NMI;
	if (count & HARDIRQ_COUNT || place->interrupt)
		return HARDIRQ;
	if (softirq_offset ? *cpu->task->softirq & softirq_mask : count & 0x100)
		return SOFTIRQ;
	return THREAD;
}

static void log_passage(FILE *stream, const struct cpu *cpu, uint64_t from, uint64_t before)
{
	struct passage passage = { from, *instruction_count, before, cpu - cpus, cpu->stretch };

	fwrite(&passage, sizeof(passage), 1, stream);
}

/* Return what a section has missed, as `time_of` counts its instructions. */
static struct misses misses_of(const struct cpu *cpu, enum kind kind)
{
	const struct section *section = &cpu->sections[kind];
	struct misses all = misses_between(section->begin_misses, caches_misses);

	if (kind == IRQSOFF)
		return all;
	return misses_between(misses_between(section->taken_misses, cpu->taken_misses), all);
}

static void end_of(struct cpu *cpu, enum kind kind, struct spot spot, uint64_t now)
{
	struct section *section = &cpu->sections[kind];
	struct site site = { section->spot.place->at.address, section->spot.caller, spot.place->at.address, spot.caller,
			     kind, section->context };
	struct length length = { time_of(cpu, kind, now) - section->begin, misses_of(cpu, kind), section->from };
	struct known_site *known = sites_add(&site, &length);

	if (kind != POID)
		calls_end(&cpu->calls[kind], known, time_of(cpu, kind, now));
	section->open = false;
}

/* An interrupt that came with preemption on ends where irq_exit() no longer counts it: what follows may switch. */
static void follow_handler(struct cpu *cpu, bool mask, uint32_t off)
{
	if (cpu->handler == NONE || cpu->interrupted)
		return;
	if (off & HARDIRQ_COUNT) {
		cpu->handler = COUNTED;
	} else if (cpu->handler == COUNTED || !mask) {
		log_passage(interrupts, cpu, cpu->from, 0);
		cpu->handler = NONE;
		cpu->end = *instruction_count;
	}
}

static void enter_helper(const struct cpu *cpu, const struct place *block)
{
	bool returned = cpu->changer && cpu->changer->returns;

	callers_block(&cpu->guest, &block->at, returned || !cpu->block ? NULL : &cpu->block->at);
}

/* A CPU is at a place with interrupts masked or not, and preemption on or off: end and begin sections. */
static void follow(struct cpu *cpu, const struct place *place, uint64_t now, bool mask, uint32_t off)
{
	bool states[KINDS] = { mask, off, mask || off };
	struct spot spot = { place, 0 };
	bool changes = false;

	follow_handler(cpu, mask, off);
	/* An interrupt in a section does not end it. */
	states[POID] = cpu->interrupted ? cpu->sections[POID].open : cpu->handler == NONE && (mask || off);

	for (int kind = 0; kind < KINDS; kind++)
		changes = changes || states[kind] != cpu->sections[kind].open;
	if (changes)
		spot.caller = callers_caller(&cpu->guest, &place->at);
	for (int kind = 0; changes && kind < KINDS; kind++) {
		struct section *section = &cpu->sections[kind];

		if (section->open && !states[kind]) {
			end_of(cpu, kind, spot, now);
			if (kind == POID && section->context & SWITCHED)
				log_passage(switches, cpu, section->from, section->before);
			if (kind == POID)
				cpu->end = *instruction_count;
		} else if (!section->open && states[kind]) {
			*section = (struct section){ true, time_of(cpu, kind, now), caches_misses, cpu->taken_misses, *instruction_count, spot,
						     context(cpu, place), *instruction_count - cpu->end };
		}
	}
	cpu->masked = mask;
	cpu->off = off;
	if (!off)
		locks_preemptible(cpu - cpus);
}

static void on_store(unsigned int number, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct cpu *cpu = &cpus[qemu_cpu(number)];

	(void)info;
	if (cpu->task && address == cpu->task->address + count_offset)
		follow(cpu, data, own(cpu), cpu->masked, count_of(cpu));
}

static void switch_to(struct cpu *cpu, uint64_t address)
{
	if (!(address >> 63) || (cpu->task && cpu->task->address == address))
		return;
	for (int kind = 0; cpu->task && kind < KINDS; kind++)
		cpu->sections[kind].context |= SWITCHED;
	for (int kind = 0; kind < POID; kind++)
		calls_switch(&cpu->calls[kind], time_of(cpu, kind, own(cpu)));
	if (cpu->task)
		handlers_leave(&cpu->task->handlers, own(cpu));
	else
		cpu->waiting = true; /* nothing was followed until now */
	cpu->task = task_at(address);
	handlers_go_on(&cpu->task->handlers, own(cpu));
}

/* x86-64: the CPU's own variables are known from here on. They move once, while the kernel starts. */
static void find_variables(struct cpu *cpu, uint64_t base)
{
	cpu->base = base;
	cpu->count = guest_memory(base + count_offset, sizeof(*cpu->count));
	cpu->current = guest_memory(base + current_offset, sizeof(*cpu->current));
	switch_to(cpu, *cpu->current);
}

/*
 * x86-64: a CPU may have written its preemption count, or the task that runs. QEMU 7.2 also says so of what an interrupt
 * behind the instruction stores, where gs may be a program's.
 */
static void on_own_variable(unsigned int number, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct cpu *cpu = &cpus[qemu_cpu(number)];
	uint64_t base;

	(void)info;
	cpu->ready = cpu->ready || guest_prepare(&cpu->guest);
	if (!cpu->ready)
		return;
	if (cpu->task && address == cpu->base + count_offset) {
		follow(cpu, data, own(cpu), cpu->masked, count_of(cpu));
	} else if (cpu->task && address == cpu->base + current_offset) {
		switch_to(cpu, *cpu->current);
	} else {
		base = guest_gs();
		if (base >> 63 && (base != cpu->base || !cpu->task))
			find_variables(cpu, base);
	}
}

static void on_release(unsigned int number, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	struct cpu *cpu = &cpus[qemu_cpu(number)];

	(void)info;
	(void)data;
	if (cpu->task)
		locks_release(cpu - cpus, address, own(cpu) - cpu->taken);
}

static void on_mask(unsigned int number, void *data)
{
	struct cpu *cpu = &cpus[qemu_cpu(number)];

	if (cpu->task && !cpu->masked)
		follow(cpu, data, own(cpu) + 1, true, count_of(cpu));
}

static void on_change(unsigned int number, void *data)
{
	cpus[qemu_cpu(number)].changer = data;
}

static void on_switch(unsigned int number, void *data)
{
	cpus[qemu_cpu(number)].switcher = data;
}

static void on_wait(unsigned int number, void *data)
{
	struct cpu *cpu = &cpus[qemu_cpu(number)];

	if (!cpu->task)
		return;
	if (cpu->interrupted)
		fail("an interrupt has returned in a way that is not known", "sections");
	guest_check(&cpu->guest);
	follow(cpu, data, own(cpu) + 1, false, 0);
	cpu->waiting = true;
	cpu->stretch++;
	cpu->changer = data;
}

struct place *sections_translated(uint64_t address)
{
	const struct range *exception;
	struct place *place;

	if (!wanted)
		return NULL;
	place = room_for(sizeof(*place));
	place->at.address = address;
	place->at.helper = callers_helper(address);
	exception = ranges_find(&exceptions, address);
	place->vector = exception;
	place->interrupt = exception && exception->interrupt;
	place->locks = locks_begin(address);
	place->altered = calls_function(address);
	place->handlers = handlers_place(address);
	return place;
}

void sections_instruction(struct qemu_plugin_insn *insn, struct place *block)
{
	uint64_t address = qemu_plugin_insn_vaddr(insn);
	uint8_t bytes[INSTRUCTION];
	struct effect effect;
	struct place *place;
	bool store;

	if (!block || !(address >> 63))
		return;
	block->at.end = address + qemu_plugin_insn_size(insn);
	effect = machine_effect(bytes, qemu_bytes(insn, bytes));
	block->handlers.calls = block->handlers.dispatcher && effect.calls;
	store = effect.accesses && (!machine_arm64 || effect.operand == count_offset);
	if (effect.clears)
		qemu_plugin_register_vcpu_mem_cb(insn, on_release, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, NULL);
	if (!(effect.changes || effect.masks || effect.switches || effect.waits || store))
		return;
	place = sections_translated(address);
	place->vector = place->interrupt = place->locks = false;
	place->returns = effect.returns;
	place->source = effect.source;
	if (store)
		qemu_plugin_register_vcpu_mem_cb(insn, machine_arm64 ? on_store : on_own_variable,
						 QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, place);
	else
		qemu_plugin_register_vcpu_insn_exec_cb(insn,
						       effect.waits	  ? on_wait :
						       effect.switches ? on_switch :
						       effect.masks	  ? on_mask :
									    on_change,
						       QEMU_PLUGIN_CB_NO_REGS, place);
}

/* sp_el0 was written: with a task while the kernel runs, with a program's stack pointer on the way to it. */
static void switched(struct cpu *cpu)
{
	uint32_t source = cpu->switcher->source;
	struct task *before = cpu->task;

	if (source == 31) /* zero */
		return;
	switch_to(cpu, cpu->guest.registers[source]);
	if (cpu->task == before)
		return;
	cpu->count = cpu->task->count;
	/* The count is the new task's from here on, and not one that a store was missed of. */
	if (!!count_of(cpu) == !!cpu->off)
		cpu->off = count_of(cpu);
}

/* Return the stack pointer of what an interrupt has come into, at its first block. */
static uint64_t interrupted_stack(const struct cpu *cpu)
{
	uint64_t stack = guest_stack(&cpu->guest), before = stack;

	/* x86-64 has pushed five words, the stack pointer as the fourth. */
	if (!machine_arm64 && !guest_read(stack + 24, &before, sizeof(before)))
		fail("the stack of an interrupt cannot be read", "sections");
	return before;
}

/*
 * Interrupts that come with preemption off are not part of the section that they interrupt: how many come is a matter of
 * chance, and they are sections of their own. They return to where they came, with its stack pointer, as nobody can be
 * preempted there; exceptions within them, and the iretq with which x86-64 waits for all instructions before it, do not.
 */
static void follow_interrupt(struct cpu *cpu, const struct place *block, uint32_t off)
{
	uint64_t stack = guest_stack(&cpu->guest);

	if (cpu->interrupted && cpu->changer && cpu->changer->returns && stack == cpu->stack) {
		cpu->interrupted = false;
		cpu->taken += own(cpu) - cpu->interrupt;
		cpu->taken_misses = misses_sum(cpu->taken_misses, misses_between(cpu->interrupt_misses, caches_misses));
		log_passage(interrupts, cpu, cpu->from, 0);
	}
	if (cpu->interrupted || !block->interrupt || !off)
		return;
	cpu->interrupted = true;
	cpu->interrupt = own(cpu);
	cpu->interrupt_misses = caches_misses;
	cpu->from = *instruction_count;
	cpu->stack = interrupted_stack(cpu);
}

static void follow_handlers(struct cpu *cpu, const struct place *block)
{
	struct handler_moment moment;

	if (!cpu->block || !handlers_matter(&cpu->hard_handlers, &cpu->task->handlers, &block->handlers,
					    &cpu->block->handlers))
		return;
	moment = (struct handler_moment){
		.address = block->at.address,
		.before_end = cpu->block->at.end,
		.block = &block->handlers,
		.before = &cpu->block->handlers,
		.stack = block->interrupt ? interrupted_stack(cpu) : guest_stack(&cpu->guest),
		.time = own(cpu),
		.interrupt = block->interrupt,
		.returned = cpu->changer && cpu->changer->returns,
	};
	handlers_block(&cpu->hard_handlers, &cpu->task->handlers, &cpu->guest, &moment);
}

/* Interrupts have sections of their own. */
static void follow_calls(struct cpu *cpu, const struct place *block)
{
	for (int kind = 0; kind < POID; kind++)
		if (cpu->sections[kind].open && (kind == IRQSOFF || !cpu->interrupted))
			calls_block(&cpu->calls[kind], &cpu->guest, block->at.address, block->altered,
				    time_of(cpu, kind, own(cpu)));
}

/* A function that locks begins, or may have returned. Interrupts that came with preemption off are not part of a hold. */
static void follow_lock(const struct cpu *cpu, const struct place *block)
{
	const uint64_t *registers = cpu->guest.registers;
	uint64_t stack = guest_stack(&cpu->guest), time = own(cpu) - cpu->taken;
	struct guest_return back;
	struct lock_call call;

	if (locks_wait(cpu - cpus))
		locks_block(cpu - cpus, block->at.address, stack, time);
	if (!block->locks)
		return;
	back = guest_return(&cpu->guest, stack);
	call = (struct lock_call){
		.lock = registers[machine_arm64 ? 0 : GUEST_RDI],
		.owner = callers_caller(&cpu->guest, &block->at),
		.caller = back.address,
		.stack = back.stack,
	};
	locks_call(cpu - cpus, &call);
}

void sections_block(unsigned int number, struct place *block)
{
	struct cpu *cpu = &cpus[number];
	uint32_t off;
	bool mask;

	if (!block)
		return;
	if (running != cpu) {
		if (number >= CPUS)
			fail("more CPUs than there is room for", "sections");
		if (running)
			running->own += *instruction_count - since;
		since = *instruction_count;
		running = cpu;
	}
	if (cpu->switcher) {
		cpu->ready = cpu->ready || guest_prepare(&cpu->guest);
		if (cpu->ready)
			switched(cpu);
		cpu->switcher = NULL;
	}
	if (!cpu->task)
		return;
	if (block->at.helper)
		enter_helper(cpu, block);
	if (block->interrupt)
		accesses_moment();
	mask = guest_masked(&cpu->guest);
	off = count_of(cpu);
	if (cpu->waiting && block->interrupt && cpu->changer) {
		/* x86-64 waits with interrupts on: what waited went on, for no instruction. */
		follow(cpu, cpu->changer, own(cpu), false, off);
		cpu->waiting = false;
		cpu->changer = NULL;
	}
	follow_interrupt(cpu, block, off);
	follow_handlers(cpu, block);
	if (mask && cpu->masked && block->vector && cpu->changer) {
		/* An exception right behind what has unmasked: in between interrupts were on. */
		follow(cpu, cpu->changer, own(cpu), false, off);
		cpu->changer = NULL;
	}
	if (block->interrupt && !cpu->interrupted) {
		cpu->handler = ENTERED;
		cpu->from = *instruction_count;
	}
	if (mask != cpu->masked || off != cpu->off || cpu->waiting) {
		if (off != cpu->off && !cpu->waiting)
			unseen++;
		cpu->waiting = false;
		/* What has let an interrupt in is not what masks others now. */
		follow(cpu, cpu->changer && !block->interrupt ? cpu->changer : block, own(cpu), mask, off);
	}
	if (block->locks || locks_wait(number))
		follow_lock(cpu, block);
	if (with_calls)
		follow_calls(cpu, block);
	cpu->changer = NULL;
	cpu->block = block;
}

void sections_end(void)
{
	FILE *stream;

	if (!wanted)
		return;
	locks_end();
	handlers_end();
	accesses_end();
	sites_end();
	closed(interrupts, "interrupts");
	closed(switches, "switches");
	stream = opened("followed");
	fprintf(stream, "unseen %llu\n", (unsigned long long)unseen);
	for (size_t i = 0; i < CPUS; i++)
		if (cpus[i].task)
			fprintf(stream, "cpu %zu %llu\n", i, (unsigned long long)own(&cpus[i]));
	closed(stream, "followed");
}
