// SPDX-License-Identifier: MIT
/*
 * locks: for how long raw spinlocks are held, each by its address: from where the function that locks has returned, as
 * before that an interrupt may still come and another thread run, to the store that lets it go (queued_spin_unlock()).
 * Locks that are taken by trying (raw_spin_trylock) are not followed, as a call does not say whether it got one.
 *
 * Lines of the order:
 *   lock ADDRESS      a function begins here that locks the lock at which its first argument points
 *   percpu-offsets ADDRESS COUNT    of the kernel's table of where each CPU's own variables are, and how many it has
 *
 * PREFIX.locks is written: records as below, of each slice (see trace.c) in which a lock was let go. Beside it
 * PREFIX.cpu_offsets: a number of 64 bits for each CPU.
 */
#include <string.h>

#include "base.h"
#include "guest.h"
#include "locks.h"

enum { HELD = 32, RECORDS = 1 << 18 };

/* One lock, as one caller takes it, in a slice: lengths in instructions. */
struct record {
	uint64_t lock, owner; /* the second: a return address in the function that locks it */
	uint64_t count, total, longest;
	uint32_t slice, unused;
};

struct hold {
	struct lock_call call;
	uint64_t begin; /* 0 until it has returned */
};

static uint64_t *functions;
static size_t function_count;
static uint64_t offsets;
static unsigned int cpu_count;
static uint64_t cpu_offsets[CPUS];
static uint32_t read_in; /* 1 + the slice in which they were read last */
static struct hold held[CPUS][HELD];
static size_t depth[CPUS];
static size_t waiting[CPUS]; /* of these: functions that have not returned */
static struct record *records;
static size_t record_count;
static FILE *stream;

bool locks_order(const char *line)
{
	unsigned long long a;
	unsigned int b;

	if (sscanf(line, "lock %llx", &a) == 1) {
		functions = grown(functions, (function_count + 1) * sizeof(a));
		functions[function_count++] = a;
	} else if (sscanf(line, "percpu-offsets %llx %u", &a, &b) == 2) {
		offsets = a;
		cpu_count = b < CPUS ? b : CPUS;
	} else {
		return false;
	}
	return true;
}

void locks_install(void)
{
	records = room_for(RECORDS * sizeof(*records));
	stream = opened("locks");
}

bool locks_begin(uint64_t address)
{
	for (size_t i = 0; i < function_count; i++)
		if (functions[i] == address)
			return true;
	return false;
}

static void put(struct record *record)
{
	if (record->count)
		fwrite(record, sizeof(*record), 1, stream);
	record->count = record->total = record->longest = 0;
}

/* Write all there is: locks that the kernel has freed leave nothing behind. */
static void empty(void)
{
	for (size_t place = 0; place < RECORDS; place++)
		put(&records[place]);
	memset(records, 0, RECORDS * sizeof(*records));
	record_count = 0;
}

static struct record *record_of(uint64_t lock, uint64_t owner)
{
	size_t place = ((lock >> 2 ^ owner << 20) * 0x9e3779b97f4a7c15ull) >> 46;

	if (record_count == RECORDS / 2)
		empty();
	while (records[place].lock && (records[place].lock != lock || records[place].owner != owner))
		place = (place + 1) % RECORDS;
	record_count += !records[place].lock;
	records[place].lock = lock;
	records[place].owner = owner;
	return &records[place];
}

static void count(const struct hold *hold, uint64_t length)
{
	struct record *record = record_of(hold->call.lock, hold->call.owner);
	uint32_t slice = slice_now();

	if (record->slice != slice)
		put(record);
	record->slice = slice;
	record->count++;
	record->total += length;
	if (length > record->longest)
		record->longest = length;
}

/* The kernel fills its table while it starts. Only a thread of a CPU can read it. */
static void read_offsets(uint32_t slice)
{
	uint64_t offset;

	if (slice + 1 == read_in)
		return;
	read_in = slice + 1;
	for (unsigned int cpu = 0; cpu < cpu_count; cpu++)
		if (guest_read(offsets + 8 * cpu, &offset, sizeof(offset)))
			cpu_offsets[cpu] = offset;
}

/* Remove a hold. */
static void let_go(unsigned int cpu, size_t place)
{
	waiting[cpu] -= !held[cpu][place].begin;
	for (depth[cpu]--; place < depth[cpu]; place++)
		held[cpu][place] = held[cpu][place + 1];
}

/* Return the place of a hold of a lock. */
static size_t place_of(unsigned int cpu, uint64_t lock)
{
	size_t place = 0;

	while (place < depth[cpu] && (!held[cpu][place].begin || held[cpu][place].call.lock != lock))
		place++;
	return place;
}

/*
 * A thread that calls a function waits for no other one that returns to the same place of its stack. It may have waited:
 * QEMU may end a block before its first instruction, and begin it again; and a thread may go to another CPU meanwhile.
 */
static void forget(uint64_t stack)
{
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		for (size_t place = depth[cpu]; waiting[cpu] && place; place--)
			if (!held[cpu][place - 1].begin && held[cpu][place - 1].call.stack == stack)
				let_go(cpu, place - 1);
}

void locks_call(unsigned int cpu, const struct lock_call *call)
{
	read_offsets(slice_now());
	forget(call->stack);
	if (depth[cpu] == HELD)
		let_go(cpu, 0);
	held[cpu][depth[cpu]++] = (struct hold){ .call = *call };
	waiting[cpu]++;
}

void locks_preemptible(unsigned int cpu)
{
	for (size_t place = depth[cpu]; place; place--)
		if (held[cpu][place - 1].begin)
			let_go(cpu, place - 1);
}

void locks_release(unsigned int cpu, uint64_t address, uint64_t time)
{
	size_t place = place_of(cpu, address);

	if (place == depth[cpu])
		return; /* another store, or a lock that was taken by trying */
	count(&held[cpu][place], time - held[cpu][place].begin);
	let_go(cpu, place);
}

void locks_block(unsigned int cpu, uint64_t address, uint64_t stack, uint64_t time)
{
	for (size_t place = depth[cpu]; waiting[cpu] && place; place--) {
		struct hold *hold = &held[cpu][place - 1];

		if (hold->begin || hold->call.caller != address || hold->call.stack != stack)
			continue;
		hold->begin = time;
		waiting[cpu]--;
	}
}

bool locks_wait(unsigned int cpu)
{
	return waiting[cpu];
}

void locks_end(void)
{
	FILE *variables = opened("cpu_offsets");

	empty();
	closed(stream, "locks");
	fwrite(cpu_offsets, sizeof(*cpu_offsets), cpu_count, variables);
	closed(variables, "cpu_offsets");
}
