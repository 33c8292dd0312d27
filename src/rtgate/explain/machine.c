// SPDX-License-Identifier: MIT
/*
 * machine: instructions, told from each other by their bytes. Sources: Arm Architecture Reference Manual (DDI 0487), C4
 * and C5; Intel Software Developer's Manual, volume 2, chapter 2 and appendix A.
 */
#include "machine.h"

bool machine_arm64;

static struct effect of_arm64(const uint8_t *bytes)
{
	uint32_t word = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
	struct effect effect = { .source = word & 31 };

	/* mrs x, cntvct_el0 and cntvctss_el0 */
	effect.clock = (word & ~31u) == 0xd53be040 || (word & ~31u) == 0xd53be0c0;
	effect.waits = word == 0xd503207f; /* wfi */
	effect.returns = word == 0xd69f03e0 || (word | 0x400) == 0xd69f0fff; /* eret, eretaa and eretab */
	/* msr daifset and daifclr, msr daif */
	effect.changes = effect.returns || (word & 0xfffff0df) == 0xd50340df || (word & ~31u) == 0xd51b4220;
	effect.switches = (word & ~31u) == 0xd5184100; /* msr sp_el0, x */
	/* str w and str x with an unsigned offset; others show at the next block */
	effect.accesses = (word & 0xbfc00000) == 0xb9000000;
	effect.operand = ((word >> 10) & 0xfff) * (word >> 30 & 1 ? 8 : 4);
	effect.calls = (word & ~(31u << 5)) == 0xd63f0000; /* blr */
	effect.clears = (word & ~(31u << 5)) == 0x089ffc1f; /* stlrb wzr, [x] */
	return effect;
}

/* Whether an instruction reaches memory behind gs; before that prefix may be two others. */
static bool behind_gs(const uint8_t *bytes, size_t size)
{
	size_t at = 0;

	while (at < size && (bytes[at] == 0x66 || bytes[at] == 0xf0))
		at++;
	return at < size && bytes[at] == 0x65;
}

/* movb $0 into memory; before it may be a prefix for registers from r8 on. */
static bool clears_byte(const uint8_t *bytes, size_t size)
{
	size_t at = (bytes[0] & 0xf0) == 0x40;

	return size >= at + 3 && bytes[at] == 0xc6 && !(bytes[at + 1] & 0x38) && bytes[at + 1] < 0xc0 && !bytes[size - 1];
}

/* call of what a register or memory holds; before it may be a prefix for registers from r8 on. */
static bool calls(const uint8_t *bytes, size_t size)
{
	size_t at = (bytes[0] & 0xf0) == 0x40;

	return size >= at + 2 && bytes[at] == 0xff && (bytes[at + 1] & 0x38) == 0x10;
}

static struct effect of_x86_64(const uint8_t *bytes, size_t size)
{
	struct effect effect = { 0 };

	effect.clock = (size == 2 && bytes[0] == 0x0f && bytes[1] == 0x31) || /* rdtsc */
		       (size == 3 && bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] == 0xf9); /* rdtscp */
	effect.waits = (size == 1 && bytes[0] == 0xf4) || /* hlt */
		       (size == 3 && bytes[0] == 0x0f && bytes[1] == 0x01 && bytes[2] == 0xc9); /* mwait */
	effect.masks = size == 1 && bytes[0] == 0xfa; /* cli */
	effect.returns = size == 2 && bytes[0] == 0x48 && bytes[1] == 0xcf; /* iretq */
	/* sti, popf, sysretq */
	effect.changes = effect.returns || (size == 1 && (bytes[0] == 0xfb || bytes[0] == 0x9d)) ||
			 (size == 3 && bytes[0] == 0x48 && bytes[1] == 0x0f && bytes[2] == 0x07);
	effect.accesses = behind_gs(bytes, size);
	effect.calls = calls(bytes, size);
	effect.clears = clears_byte(bytes, size);
	return effect;
}

struct effect machine_effect(const uint8_t *bytes, size_t size)
{
	return machine_arm64 ? of_arm64(bytes) : of_x86_64(bytes, size);
}
