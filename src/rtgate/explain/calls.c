// SPDX-License-Identifier: MIT
/*
 * calls: how long calls of altered functions take within a section, with all that they call. A call lasts from the
 * function's first block to the block behind the call.
 *
 * Line of the order:
 *   altered ADDRESS        a function begins here whose calls are followed; the first such line is function 0
 */
#include "base.h"
#include "calls.h"

static uint64_t *altered;
static size_t altered_count;

bool calls_order(const char *line)
{
	unsigned long long address;

	if (sscanf(line, "altered %llx", &address) != 1)
		return false;
	altered = grown(altered, (altered_count + 1) * sizeof(*altered));
	altered[altered_count++] = address;
	return true;
}

bool calls_wanted(void)
{
	return altered_count;
}

uint32_t calls_function(uint64_t address)
{
	for (size_t i = 0; i < altered_count; i++)
		if (altered[i] == address)
			return i + 1;
	return 0;
}

/* The call on top has returned. */
static void return_from(struct calls *calls, uint64_t time)
{
	const struct call *call = &calls->running[--calls->depth];
	size_t i = 0;

	while (i < calls->count && calls->longest[i].function != call->function)
		i++;
	if (i == calls->count) {
		calls->longest = grown(calls->longest, ++calls->count * sizeof(*calls->longest));
		calls->longest[i] = (struct longest){ call->function, 0 };
	}
	if (time - call->begin > calls->longest[i].instructions)
		calls->longest[i].instructions = time - call->begin;
}

/* What this thread has called returns in its own time. */
void calls_switch(struct calls *calls, uint64_t time)
{
	while (calls->depth)
		return_from(calls, time);
}

/* The calls that have not returned end with the section. */
void calls_end(struct calls *calls, struct known_site *known, uint64_t time)
{
	while (calls->depth)
		return_from(calls, time);
	for (size_t i = 0; i < calls->count; i++)
		sites_add_call(known, calls->longest[i].function, calls->longest[i].instructions);
	calls->count = 0;
}

static bool returns(const struct call *call, uint64_t address, uint64_t stack)
{
	return address == call->back && stack == call->stack;
}

/* Return how many calls are left behind a block: one that has ended by jumping to another returns with that. */
static size_t depth_left(const struct calls *calls, uint64_t address, uint64_t stack)
{
	size_t left = calls->depth;

	for (size_t depth = calls->depth; depth; depth--)
		if (returns(&calls->running[depth - 1], address, stack))
			left = depth - 1;
	return left;
}

/* A function without a frame may jump to its first instruction. */
static bool again(const struct calls *calls, const struct call *call)
{
	const struct call *last;

	if (!calls->depth)
		return false;
	last = &calls->running[calls->depth - 1];
	return last->function == call->function && last->back == call->back && last->stack == call->stack;
}

void calls_block(struct calls *calls, const struct guest_cpu *cpu, uint64_t address, uint32_t function, uint64_t time)
{
	uint64_t stack = guest_stack(cpu);
	size_t left = depth_left(calls, address, stack);
	struct guest_return back;
	struct call call;

	while (calls->depth > left)
		return_from(calls, time);
	if (!function)
		return;
	back = guest_return(cpu, stack);
	call = (struct call){ function - 1, back.address, back.stack, time };
	if (again(calls, &call))
		return;
	if (calls->depth == CALLS_DEPTH)
		fail("calls of altered functions nest deeper than there is room for", "sections");
	calls->running[calls->depth++] = call;
}
