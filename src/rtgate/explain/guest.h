/* SPDX-License-Identifier: MIT */
/* What QEMU does not give to plugins: registers, the mask of interrupts, and memory of the guest. */
#ifndef RTGATE_GUEST_H
#define RTGATE_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

/* All of a CPU's, as QEMU itself keeps it; registers are exact at the beginning of a block. */
struct guest_cpu {
	const uint64_t *registers; /* arm64: x0 to x30, and the stack pointer; x86-64: rax, rcx, rdx, rbx, rsp, ... */
	const uint8_t *mask; /* the byte with the mask */
};

enum { GUEST_FRAME = 29, GUEST_LINK = 30, GUEST_RDI = 7 }; /* registers of arm64; the last of x86-64 */

void guest_install(void); /* ends QEMU with a message if it does not export what is needed */

/* Of the CPU that runs. Return false while its registers do not tell them from other memory. */
bool guest_prepare(struct guest_cpu *cpu);
bool guest_masked(const struct guest_cpu *cpu);
void guest_check(const struct guest_cpu *cpu); /* ends QEMU if the mask is not what QEMU's gdb stub reads */
uint64_t guest_stack(const struct guest_cpu *cpu); /* the stack pointer */
uint64_t guest_gs(void); /* x86-64: the base of gs */

uint64_t guest_page(uint64_t address); /* the physical address of a page's beginning */
const void *guest_memory(uint64_t address, uint64_t size); /* stays valid */
bool guest_read(uint64_t address, void *into, uint64_t size);

/* Where a function returns to, and with which stack pointer. */
struct guest_return {
	uint64_t address, stack;
};

/* Of one that begins with a stack pointer. */
static inline struct guest_return guest_return(const struct guest_cpu *cpu, uint64_t stack)
{
	struct guest_return back = { 0, stack };

	if (machine_arm64) {
		back.address = cpu->registers[GUEST_LINK];
	} else {
		guest_read(stack, &back.address, sizeof(back.address));
		back.stack += sizeof(back.address);
	}
	return back;
}

#endif
