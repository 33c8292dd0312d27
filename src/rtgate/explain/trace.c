// SPDX-License-Identifier: MIT
/*
 * trace: a plugin of QEMU's translator (TCG) that says when a virtual-time board executed what.
 *
 * Counting happens in QEMU, outside the guest, so virtual time is not disturbed: a traced boot gives the same bits.
 * All numbers "n" are instructions executed since power-on, by all CPUs.
 *
 * Argument `order=FILE`, a text file:
 *   mark ID ADDRESS       the instruction at this address is an event with this number (from 16 on)
 *   interval START END    log the blocks that begin to run while START <= n < END; in ascending order, not overlapping
 *   window START END      count the instructions of each block while START <= n < END
 *   slices BITS           count them always, in each slice of 2^BITS instructions for itself
 *   count ...             and others: sections.c follows critical sections, too, and caches.c has caches beside them
 * Argument `into=PREFIX`: PREFIX.events, PREFIX.runs, PREFIX.counts, PREFIX.blocks are written, little-endian records
 * as below. A block belongs to the slice in which it begins to run.
 *
 * The clock: virtual nanoseconds = bias + 8 * n. The bias grows when QEMU skips idle time. Plugins are not told the
 * time (QEMU 7.2), but a QEMU that is built with modules, as Debian's is, exports the functions that know it. They
 * refuse to answer a CPU within a block, as its count is not exact there; hidden from them that there is a CPU, they
 * answer for the last moment at which it was exact: when the guest last read its counter or waited. From this follow
 * the bias, and how far n is ahead of QEMU's own count, which leaves out instructions that ended in a page fault.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "accesses.h"
#include "base.h"
#include "caches.h"
#include "machine.h"
#include "qemu.h"
#include "sections.h"

#define UNFINISHED "blocks.unfinished"

enum { EVENT_IDLE = 1, EVENT_USER_CLOCK = 2, KERNEL_CLOCK = 3 };

struct event {
	uint64_t n;
	int64_t bias;
	uint64_t address;
	uint32_t kind;
	uint32_t cpu;
};

struct run {
	uint64_t n;
	uint32_t block;
	uint32_t cpu;
};

struct count {
	uint32_t block;
	uint32_t slice; /* from 0 on; of a window 0 */
	uint64_t instructions;
};

struct ending {
	uint32_t last_size;
	uint8_t last[INSTRUCTION]; /* the last instruction: how the block is left */
	uint32_t size; /* bytes of all its instructions */
};

struct block {
	uint64_t address;
	uint32_t number;
	uint32_t instructions;
	struct ending ending;
};

struct counted {
	struct block block;
	struct place *place; /* for sections */
	struct code *code; /* for caches */
	struct ending sooner; /* without the last instruction */
	uint32_t most; /* instructions that ran in one go */
	bool used; /* by a run or a count */
	struct count count; /* of the slice in which it ran last */
};

struct mark {
	uint64_t address;
	uint32_t kind;
};

struct interval {
	uint64_t start, end;
};

static uint64_t n_before;
static struct counted *before;
static struct mark *marks;
static size_t mark_count;
static struct interval *intervals, window;
static size_t interval_count, interval_now;
static struct counted **blocks;
static size_t block_count, block_room;
static FILE *events, *runs, *counts;
static bool reading, exact;
static int64_t ahead;
static void **current_cpu;
static int64_t (*icount_get)(void);
static int64_t (*icount_get_raw)(void);

/* Ask QEMU, from the CPU thread, as all callbacks are; there current_cpu is this CPU. */
static int64_t asked(int64_t (*question)(void))
{
	void *cpu = *current_cpu;
	int64_t answer;

	*current_cpu = NULL;
	answer = question();
	*current_cpu = cpu;
	return answer;
}

static int64_t bias(void)
{
	if (!current_cpu)
		current_cpu = dlsym(RTLD_DEFAULT, "current_cpu");
	if (!current_cpu || !icount_get || !icount_get_raw)
		return 0;
	if (exact) {
		ahead = *instruction_count - asked(icount_get_raw);
		exact = false;
	}
	return asked(icount_get) - 8 * (asked(icount_get_raw) + ahead);
}

static void on_event(unsigned int number, void *data)
{
	const struct mark *mark = data;

	if (mark->kind != KERNEL_CLOCK) {
		struct event event = { *instruction_count, bias(), mark->address, mark->kind, qemu_cpu(number) };

		fwrite(&event, sizeof(event), 1, events);
	}
	if (mark->kind == EVENT_USER_CLOCK)
		accesses_moment();
	/* Only known when this instruction is done: the next block may ask. */
	if (mark->kind <= KERNEL_CLOCK)
		reading = true;
}

static void put(struct counted *counted)
{
	if (!counted->count.instructions)
		return;
	counted->used = true;
	fwrite(&counted->count, sizeof(counted->count), 1, counts);
	counted->count.instructions = 0;
}

static void add(struct counted *counted, uint64_t instructions, uint32_t slice)
{
	if (counted->count.slice != slice) {
		put(counted);
		counted->count.slice = slice;
	}
	counted->count.instructions += instructions;
}

static void on_block(unsigned int number, void *data)
{
	unsigned int cpu = qemu_cpu(number);
	struct counted *block = data;

	if (reading) {
		reading = false;
		exact = true;
		bias();
	}
	sections_block(cpu, block->place);
	accesses_block(block->code);
	if (before && *instruction_count - n_before > before->most)
		before->most = *instruction_count - n_before;
	if (before && (slice_bits || (n_before >= window.start && n_before < window.end)))
		add(before, *instruction_count - n_before, slice_bits ? n_before >> slice_bits : 0);
	before = block;
	n_before = *instruction_count;
	while (interval_now < interval_count && *instruction_count >= intervals[interval_now].end)
		interval_now++;
	if (interval_now < interval_count && *instruction_count >= intervals[interval_now].start) {
		struct run run = { *instruction_count, block->block.number, cpu };

		block->used = true;
		fwrite(&run, sizeof(run), 1, runs);
	}
}

/* Return what an instruction is by its bytes: 0, or the kind of an event. */
static uint32_t kind_of(const uint8_t *bytes, size_t size, uint64_t address)
{
	struct effect effect = machine_effect(bytes, size);
	bool user = !(address >> 63);

	if (effect.waits && (machine_arm64 || !user))
		return EVENT_IDLE;
	if (effect.clock)
		return user ? EVENT_USER_CLOCK : KERNEL_CLOCK;
	return 0;
}

static uint32_t marked(uint64_t address)
{
	for (size_t i = 0; i < mark_count; i++)
		if (marks[i].address == address)
			return marks[i].kind;
	return 0;
}

static void on_translation(struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct counted *counted = room_for(sizeof(*counted));
	struct block *block = &counted->block;

	if (block_count == block_room) {
		block_room = block_room ? 2 * block_room : 1 << 16;
		blocks = grown(blocks, block_room * sizeof(*blocks));
	}
	block->address = qemu_plugin_tb_vaddr(tb);
	block->number = block_count;
	block->instructions = count;
	counted->count.block = block_count;
	blocks[block_count++] = counted;
	counted->place = sections_translated(block->address);
	counted->code = accesses_translated();
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, counted);
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t bytes[INSTRUCTION];
		size_t size = qemu_bytes(insn, bytes);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		uint32_t kind = marked(address);

		if (!kind)
			kind = kind_of(bytes, size, address);
		if (kind) {
			struct mark *mark = room_for(sizeof(*mark));

			*mark = (struct mark){ address, kind };
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_event, QEMU_PLUGIN_CB_NO_REGS, mark);
		}
		/* What a store misses belongs to the section that it ends, as the store itself does. */
		accesses_instruction(insn, counted->code);
		sections_instruction(insn, counted->place);
		qemu_count(insn);
		counted->sooner = block->ending;
		block->ending.size = address + size - block->address;
		block->ending.last_size = size;
		memcpy(block->ending.last, bytes, sizeof(bytes));
	}
}

/*
 * Leave out a last instruction that never ran. On x86, one that crosses into another page than its block is put off into
 * a block of its own; QEMU before 8.1 shows it to plugins all the same, and of its bytes those in the first page.
 */
static void cut(struct counted *counted)
{
	struct block *block = &counted->block;

	if (!counted->most || counted->most + 1 != block->instructions)
		return;
	block->instructions = counted->most;
	block->ending = counted->sooner;
}

static void on_exit_of_qemu(void)
{
	FILE *stream = opened(UNFINISHED);

	for (size_t i = 0; i < block_count; i++) {
		put(blocks[i]);
		cut(blocks[i]);
		if (blocks[i]->used)
			fwrite(&blocks[i]->block, sizeof(blocks[i]->block), 1, stream);
	}
	sections_end();
	closed(events, "events");
	closed(runs, "runs");
	closed(counts, "counts");
	closed(stream, UNFINISHED);
	/* The last: its presence says that all files are whole. */
	renamed(UNFINISHED, "blocks");
}

static void read_order(const char *path)
{
	FILE *stream = fopen(path, "r");
	char line[256];

	if (!stream)
		fail("cannot be read", path);
	while (fgets(line, sizeof(line), stream)) {
		unsigned long long a, b;

		if (sscanf(line, "mark %llu %llx", &a, &b) == 2) {
			marks = grown(marks, (mark_count + 1) * sizeof(*marks));
			marks[mark_count++] = (struct mark){ b, a };
		} else if (sscanf(line, "interval %llu %llu", &a, &b) == 2) {
			intervals = grown(intervals, (interval_count + 1) * sizeof(*intervals));
			intervals[interval_count++] = (struct interval){ a, b };
		} else if (sscanf(line, "window %llu %llu", &a, &b) == 2) {
			window = (struct interval){ a, b };
		} else if (sscanf(line, "slices %llu", &a) == 1 && a > 0 && a < 64) {
			slice_bits = a;
		} else if (!sections_order(line) && !caches_order(line)) {
			fail("not understood", line);
		}
	}
	fclose(stream);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "order=", 6))
			read_order(argv[i] + 6);
		else if (!strncmp(argv[i], "into=", 5))
			prefix = strdup(argv[i] + 5);
	}
	if (!prefix)
		fail("missing argument", "into=PREFIX");
	machine_arm64 = !strcmp(info->target_name, "aarch64");
	icount_get = (int64_t(*)(void))dlsym(RTLD_DEFAULT, "icount_get");
	icount_get_raw = (int64_t(*)(void))dlsym(RTLD_DEFAULT, "icount_get_raw");
	events = opened("events");
	runs = opened("runs");
	counts = opened("counts");
	sections_install();
	qemu_install(id, info, on_translation, on_exit_of_qemu);
	return 0;
}
