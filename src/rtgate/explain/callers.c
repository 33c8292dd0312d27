// SPDX-License-Identifier: MIT
/*
 * callers: who has called a helper, so that a section is named by who locks, and not only by what locks.
 *
 * arm64 has a link register, and helpers have frames. x86-64 has neither here, so where each helper was entered is kept by
 * the place of the stack with its return address.
 *
 * Line of the order:
 *   helper START END       a place in here is named by its caller as well; on x86-64 one function each
 */
#include "base.h"
#include "callers.h"
#include "machine.h"

enum { FRAMES = 4, CALL = 4 }; /* helpers that call helpers; a return address less CALL lies in the function that has called */
enum { ENTRIES = 1 << 18, WORDS_ABOVE = 16, WORDS_BELOW = 1 }; /* of the stack, around where a helper was entered */

/*
 * x86-64: a helper was entered, and its return address is at the top of the stack. It was called if that is behind the
 * block that ran before; else that block has jumped to it, as compilers do where a function calls it in the end.
 */
struct entry {
	const struct range *helper;
	uint64_t stack, n;
	const struct location *before; /* NULL if an exception has returned there */
};

static struct ranges helpers;
static struct entry entries[ENTRIES]; /* of all CPUs, as threads move between them */
static size_t entry_count;

bool callers_order(const char *line)
{
	unsigned long long a, b;

	if (sscanf(line, "helper %llx %llx", &a, &b) != 2)
		return false;
	ranges_add(&helpers, (struct range){ a, b, false });
	return true;
}

const struct range *callers_helper(uint64_t address)
{
	return ranges_find(&helpers, address);
}

/*
 * Return what called a helper. The link register has it at the beginning of a block, unless the helper has called
 * something since: then it leads back into the helper, which has a frame.
 */
static uint64_t caller_by_link(const struct guest_cpu *cpu)
{
	uint64_t link = cpu->registers[GUEST_LINK], frame[2] = { cpu->registers[GUEST_FRAME], 0 };

	for (int i = 0; i < FRAMES && callers_helper(link); i++) {
		if (!guest_read(frame[0], frame, sizeof(frame)))
			break;
		link = frame[1];
	}
	return link;
}

/* Return the entry of a place of the stack, or an empty one for it. */
static struct entry *entry_at(uint64_t stack)
{
	size_t place = ((stack >> 3) * 0x9e3779b97f4a7c15ull) >> 46;

	while (entries[place].helper && entries[place].stack != stack)
		place = (place + 1) % ENTRIES;
	return &entries[place];
}

void callers_block(const struct guest_cpu *cpu, const struct location *block, const struct location *before)
{
	uint64_t stack, link;
	struct entry *entry;

	if (machine_arm64 || !block->helper || block->address != block->helper->start)
		return;
	stack = guest_stack(cpu);
	entry = entry_at(stack);
	if (!entry->helper && ++entry_count == ENTRIES / 2)
		fail("more places of stacks than there is room for", "sections");
	/* A helper that has jumped to this one was called, or jumped to, by who counts. */
	if (before && before->helper && before->helper == entry->helper && guest_read(stack, &link, sizeof(link)) &&
	    before->end != link)
		before = entry->before;
	*entry = (struct entry){ block->helper, stack, *instruction_count, before };
}

/* Return where a helper was entered: at a place of the stack that is near, and the last time. */
static const struct entry *entry_near(const struct range *helper, uint64_t stack)
{
	const struct entry *found = NULL;

	for (int word = -WORDS_BELOW; word < WORDS_ABOVE; word++) {
		uint64_t there = stack + 8 * word;
		const struct entry *entry = entry_at(there);

		if (entry->helper == helper && (!found || entry->n > found->n))
			found = entry;
	}
	return found;
}

/* Return what called a helper, as a return address. */
static uint64_t caller_by_stack(const struct guest_cpu *cpu, const struct range *helper)
{
	uint64_t stack = guest_stack(cpu), link = 0;

	for (int i = 0; i < FRAMES && helper; i++) {
		const struct entry *entry = entry_near(helper, stack);

		if (!entry || !guest_read(entry->stack, &link, sizeof(link)))
			break;
		if (entry->before && !entry->before->helper && entry->before->end != link)
			return entry->before->address + CALL; /* that is, as if it had called */
		helper = callers_helper(link);
		stack = entry->stack + 8;
	}
	return link;
}

uint64_t callers_caller(const struct guest_cpu *cpu, const struct location *location)
{
	if (!location->helper)
		return 0;
	return machine_arm64 ? caller_by_link(cpu) : caller_by_stack(cpu, location->helper);
}
