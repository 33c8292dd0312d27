/* SPDX-License-Identifier: MIT */
/* What QEMU 7.2 does not give to plugins: registers, the mask of interrupts, and memory of the guest (arm64). */
#ifndef RTGATE_GUEST_H
#define RTGATE_GUEST_H

#include <stdbool.h>
#include <stdint.h>

/* All of a CPU's, as QEMU itself keeps it; registers are exact at the beginning of a block. */
struct guest_cpu {
	const uint64_t *registers; /* x0 to x30, and the stack pointer */
	const uint8_t *mask; /* the byte with GUEST_MASKED */
};

enum { GUEST_REGISTERS = 31, GUEST_STACK = 31, GUEST_MASKED = 0x80 };

void guest_install(void); /* ends QEMU with a message if it does not export what is needed */

/* Of the CPU that runs. Return false while its registers do not tell them from other memory. */
bool guest_prepare(struct guest_cpu *cpu);
bool guest_masked(const struct guest_cpu *cpu);
void guest_check(const struct guest_cpu *cpu); /* ends QEMU if the mask is not what QEMU's gdb stub reads */

const void *guest_memory(uint64_t address, uint64_t size); /* stays valid */
bool guest_read(uint64_t address, void *into, uint64_t size);

#endif
