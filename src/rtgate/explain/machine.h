/* SPDX-License-Identifier: MIT */
/* What an instruction of arm64 or x86-64 does, as far as it matters to the plugin. */
#ifndef RTGATE_MACHINE_H
#define RTGATE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct effect {
	bool clock; /* reads the counter of time */
	bool waits; /* for an interrupt */
	bool changes; /* may change the mask of interrupts; it ends its block */
	bool masks; /* masks interrupts, and its block goes on */
	bool returns; /* from an exception */
	bool switches; /* arm64: writes sp_el0, where the kernel has the task that runs */
	uint32_t source; /* the register of which it is written */
	bool accesses; /* memory, in a way in which the kernel reaches the preemption count */
	uint64_t operand; /* arm64: at this offset to a register */
	bool calls; /* a function by its address */
	bool clears; /* a byte of memory, as a spinlock is let go */
};

extern bool machine_arm64; /* or x86-64 */
struct effect machine_effect(const uint8_t *bytes, size_t size);

#endif
