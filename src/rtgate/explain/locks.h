/* SPDX-License-Identifier: MIT */
/* For how long raw spinlocks are held. */
#ifndef RTGATE_LOCKS_H
#define RTGATE_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* A function that locks is called. */
struct lock_call {
	uint64_t lock; /* its address */
	uint64_t owner; /* a return address in the function that asked for the lock */
	uint64_t caller, stack; /* where the function returns to, and with which stack pointer */
};

bool locks_order(const char *line); /* whether the line is for locks */
void locks_install(void);
bool locks_begin(uint64_t address); /* whether a function that locks begins there */
void locks_call(unsigned int cpu, const struct lock_call *call);
bool locks_wait(unsigned int cpu); /* whether a function that locks has not returned */
/* Times are the CPU's own instructions, without interrupts that came with preemption off. */
void locks_block(unsigned int cpu, uint64_t address, uint64_t stack, uint64_t time); /* a block begins meanwhile */
void locks_preemptible(unsigned int cpu); /* so it holds no raw lock, whatever was seen */
void locks_release(unsigned int cpu, uint64_t address, uint64_t time); /* a byte there is cleared */
void locks_end(void);

#endif
