/* SPDX-License-Identifier: MIT */
/* Who has called a helper: a function in which interrupts or preemption go off for whoever calls it, as a lock's. */
#ifndef RTGATE_CALLERS_H
#define RTGATE_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "guest.h"
#include "ranges.h"

/* A block or an instruction. */
struct location {
	uint64_t address, end; /* the second of a block: the address behind it */
	const struct range *helper; /* that it lies in */
};

bool callers_order(const char *line); /* whether the line is for callers */
const struct range *callers_helper(uint64_t address);
/* A block begins. `before` ran before it on its CPU, or is NULL: an exception has returned there. */
void callers_block(const struct guest_cpu *cpu, const struct location *block, const struct location *before);
uint64_t callers_caller(const struct guest_cpu *cpu, const struct location *location); /* a return address, or 0 */

#endif
