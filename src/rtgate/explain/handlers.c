// SPDX-License-Identifier: MIT
/*
 * handlers: for how long handlers of interrupts run, with all that they call: from the first block of a handler to the
 * block behind its call. The kernel calls them by their addresses, from a few functions: the dispatchers. These call
 * functions of an interrupt's chip, too, with a pointer as the first argument, where a handler gets a number. x86-64
 * has handlers of its vectors besides, which are known by name.
 *
 * What interrupts a handler, and other threads that run meanwhile, are left out. A handler to which a dispatcher would
 * jump, in place of a call, is not seen.
 *
 * Lines of the order:
 *   dispatcher START END          handlers are called from in here, in an interrupt
 *   thread-dispatcher START END   the same, in a thread
 *   handler ADDRESS               one begins here, whoever calls it
 *
 * PREFIX.handlers is written: records as below, of each slice (see trace.c) in which a handler returned.
 */
#include "base.h"
#include "handlers.h"
#include "machine.h"

/* One handler in a slice: lengths in instructions. */
struct record {
	uint64_t handler;
	uint64_t count, total, longest;
	uint32_t slice, thread;
};

static struct ranges dispatchers, handlers;
static struct record *records;
static size_t record_count;
static FILE *stream;

bool handlers_order(const char *line)
{
	unsigned long long a, b;

	if (sscanf(line, "dispatcher %llx %llx", &a, &b) == 2)
		ranges_add(&dispatchers, (struct range){ a, b, true });
	else if (sscanf(line, "thread-dispatcher %llx %llx", &a, &b) == 2)
		ranges_add(&dispatchers, (struct range){ a, b, false });
	else if (sscanf(line, "handler %llx", &a) == 1)
		ranges_add(&handlers, (struct range){ a, a + 1, true });
	else
		return false;
	return true;
}

void handlers_install(void)
{
	stream = opened("handlers");
}

struct handler_place handlers_place(uint64_t address)
{
	return (struct handler_place){
		.dispatcher = ranges_find(&dispatchers, address),
		.begins = ranges_find(&handlers, address),
	};
}

static void put(struct record *record)
{
	if (record->count)
		fwrite(record, sizeof(*record), 1, stream);
	record->count = record->total = record->longest = 0;
}

static struct record *record_of(uint64_t handler, bool thread)
{
	size_t i = 0;

	while (i < record_count && (records[i].handler != handler || records[i].thread != thread))
		i++;
	if (i == record_count) {
		records = grown(records, ++record_count * sizeof(*records));
		records[i] = (struct record){ .handler = handler, .thread = thread };
	}
	return &records[i];
}

static void count(const struct handler *handler, bool thread)
{
	struct record *record = record_of(handler->address, thread);

	if (record->slice != slice_now())
		put(record);
	record->slice = slice_now();
	record->count++;
	record->total += handler->ran;
	if (handler->ran > record->longest)
		record->longest = handler->ran;
}

/* All handlers that run are left, for one reason. */
static void leave(struct handlers *handlers, int state, uint64_t time, uint64_t stack)
{
	for (size_t i = 0; i < handlers->depth; i++) {
		struct handler *handler = &handlers->running[i];

		if (handler->state != HANDLER_RUNS)
			continue;
		handler->ran += time - handler->since;
		handler->state = state;
		handler->interrupted = stack;
	}
}

/* Handlers that are left go on behind what has interrupted them. */
static void go_on(struct handlers *handlers, const struct handler_moment *moment)
{
	for (size_t i = 0; i < handlers->depth && moment->returned; i++) {
		struct handler *handler = &handlers->running[i];

		if (handler->state != HANDLER_INTERRUPTED || moment->stack != handler->interrupted)
			continue;
		handler->state = HANDLER_RUNS;
		handler->since = moment->time;
		if (!handler->address && !moment->interrupt)
			handler->address = moment->address;
	}
}

/* One handler may have returned. */
static void return_from(struct handlers *handlers, bool thread, const struct handler_moment *moment)
{
	for (size_t i = 0; i < handlers->depth; i++) {
		struct handler *handler = &handlers->running[i];

		if (handler->state != HANDLER_RUNS || moment->address != handler->back.address ||
		    moment->stack != handler->back.stack)
			continue;
		handler->ran += moment->time - handler->since;
		count(handler, thread);
		handlers->depth = i;
	}
}

/* Its first block runs again: it is a loop, or QEMU has ended it before its first instruction. */
static bool again(const struct handler *last, const struct handler *next)
{
	return last->state == HANDLER_RUNS && last->address == next->address &&
	       last->back.address == next->back.address && last->back.stack == next->back.stack;
}

static void begin(struct handlers *handlers, struct guest_return back, const struct handler_moment *moment)
{
	struct handler next = { .address = moment->interrupt ? 0 : moment->address, .back = back, .since = moment->time };

	if (handlers->depth && again(&handlers->running[handlers->depth - 1], &next))
		return;
	/* Stacks grow down: whatever else has returned to there runs no more, whether that was seen or not. */
	while (handlers->depth && handlers->running[handlers->depth - 1].back.stack <= back.stack)
		handlers->depth--;
	if (handlers->depth == HANDLERS_DEPTH)
		fail("handlers of interrupts nest deeper than there is room for", "sections");
	handlers->running[handlers->depth++] = next;
}

/* A number, and no pointer of the kernel. */
static bool first_argument_is_number(const struct guest_cpu *cpu)
{
	return !(cpu->registers[machine_arm64 ? 0 : GUEST_RDI] >> 63);
}

void handlers_block(struct handlers *hard, struct handlers *thread, const struct guest_cpu *cpu,
		    const struct handler_moment *moment)
{
	struct guest_return back;

	go_on(hard, moment);
	go_on(thread, moment);
	return_from(hard, false, moment);
	return_from(thread, true, moment);
	if (moment->block->begins || moment->before->calls) {
		back = guest_return(cpu, moment->stack);
		if (moment->block->begins)
			begin(hard, back, moment);
		else if (back.address == moment->before_end && first_argument_is_number(cpu))
			begin(moment->before->dispatcher->interrupt ? hard : thread, back, moment);
	}
	if (moment->interrupt) {
		leave(hard, HANDLER_INTERRUPTED, moment->time, moment->stack);
		leave(thread, HANDLER_INTERRUPTED, moment->time, moment->stack);
	}
}

void handlers_leave(struct handlers *thread, uint64_t time)
{
	leave(thread, HANDLER_SWITCHED, time, 0);
}

void handlers_go_on(struct handlers *thread, uint64_t time)
{
	for (size_t i = 0; i < thread->depth; i++) {
		struct handler *handler = &thread->running[i];

		if (handler->state != HANDLER_SWITCHED)
			continue;
		handler->state = HANDLER_RUNS;
		handler->since = time;
	}
}

void handlers_end(void)
{
	for (size_t i = 0; i < record_count; i++)
		put(&records[i]);
	closed(stream, "handlers");
}
