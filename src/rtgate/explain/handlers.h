/* SPDX-License-Identifier: MIT */
/* For how long handlers of interrupts run, in hard interrupts and in their threads. */
#ifndef RTGATE_HANDLERS_H
#define RTGATE_HANDLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest.h"
#include "ranges.h"

/* What matters of a block. */
struct handler_place {
	const struct range *dispatcher; /* that it lies in */
	bool calls; /* its last instruction calls a function by its address */
	bool begins; /* a handler begins here */
};

enum { HANDLERS_DEPTH = 4 };

/* Handlers that run in a thread, or in the interrupts of a CPU: a handler may call those of interrupts behind its own. */
struct handlers {
	struct handler {
		enum { HANDLER_RUNS, HANDLER_INTERRUPTED, HANDLER_SWITCHED } state;
		uint64_t address; /* 0: an interrupt came before its first instruction */
		struct guest_return back;
		uint64_t ran, since; /* instructions until it was left, and the time when it went on */
		uint64_t interrupted; /* the stack pointer where an interrupt came */
	} running[HANDLERS_DEPTH]; /* the last one that was called on top */
	size_t depth;
};

/* A block begins. Times are the CPU's own instructions. */
struct handler_moment {
	uint64_t address, before_end; /* the second: behind the block that ran before it */
	const struct handler_place *block, *before;
	uint64_t stack; /* the stack pointer, of an interrupt's first block the one where it has come */
	uint64_t time;
	bool interrupt; /* it is an interrupt's first block */
	bool returned; /* an exception has returned */
};

bool handlers_order(const char *line); /* whether the line is for handlers */
void handlers_install(void);
struct handler_place handlers_place(uint64_t address); /* of a block that begins there */

/* Whether a block matters. */
static inline bool handlers_matter(const struct handlers *hard, const struct handlers *thread,
				   const struct handler_place *block, const struct handler_place *before)
{
	return hard->depth || thread->depth || block->begins || before->calls;
}

/* Of the CPU's interrupts, and of the thread that runs. */
void handlers_block(struct handlers *hard, struct handlers *thread, const struct guest_cpu *cpu,
		    const struct handler_moment *moment);
void handlers_leave(struct handlers *thread, uint64_t time); /* another thread runs */
void handlers_go_on(struct handlers *thread, uint64_t time); /* this one runs again, perhaps on another CPU */
void handlers_end(void);

#endif
