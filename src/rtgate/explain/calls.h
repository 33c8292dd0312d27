/* SPDX-License-Identifier: MIT */
/* Calls of altered functions in one section at a time. */
#ifndef RTGATE_CALLS_H
#define RTGATE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest.h"
#include "sites.h"

enum { CALLS_DEPTH = 64 };

/* Of a section: those that have not returned, the last one on top, and the longest of each function. */
struct calls {
	struct call {
		uint32_t function;
		uint64_t back, stack; /* where it returns to, and with which stack pointer */
		uint64_t begin;
	} running[CALLS_DEPTH];
	size_t depth;
	struct longest {
		uint32_t function;
		uint64_t instructions;
	} *longest;
	size_t count;
};

bool calls_order(const char *line); /* whether the line is for calls */
bool calls_wanted(void); /* whether a line was */
uint32_t calls_function(uint64_t address); /* 1 + the number of the function that begins there; 0: of none */

/* Times are instructions that belong to the section. */
void calls_block(struct calls *calls, const struct guest_cpu *cpu, uint64_t address, uint32_t function, uint64_t time);
void calls_switch(struct calls *calls, uint64_t time); /* another thread runs */
void calls_end(struct calls *calls, struct known_site *known, uint64_t time); /* the section ends */

#endif
