// SPDX-License-Identifier: MIT
/*
 * guest: reads what QEMU does not give to plugins. A QEMU that is built with modules, as Debian's is, exports the
 * functions that know it.
 *
 * Where QEMU keeps the mask and the registers is found out and checked, as its structures are in no header that is
 * packaged: cpsr_write() or cpu_load_eflags() on an empty state shows the place of the mask in it, and the registers
 * that QEMU's gdb stub reads show where the state is. If they are not found, or not once, or if the stub ever reads
 * another mask, the boot ends with a message.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "guest.h"
#include "machine.h"

/* Bytes of a state of a CPU at most. */
enum { STATE_SIZE = 1 << 20 };
enum { RAW_WRITE = 2, PAGE = 4096, MOST_REGISTERS = 31 };

/* What differs between architectures. */
static const struct state {
	const char *reads; /* the function with which QEMU's gdb stub reads a register */
	const char *writes; /* the one that writes the flags with the mask, on a state */
	int registers; /* how many tell the state from other memory */
	int different; /* how many of these must be larger than 16 bits */
	size_t at; /* bytes before them in the state */
	int stack; /* the stack pointer's place among them, or behind them */
	int flags; /* the stub's number of the flags */
	uint32_t mask; /* of interrupts, in the flags */
	bool set; /* whether interrupts are masked if it is set */
} ARM64 = { "aarch64_cpu_gdb_read_register", "cpsr_write", 31, 8, 64, 31, 33, 0x80, true },
  X86_64 = { "x86_cpu_gdb_read_register", "cpu_load_eflags", 16, 4, 0, 4, 17, 0x200, false };

enum { GS_BASE = 25 }; /* the stub's number (x86-64) */
/* Where the stub's registers of x86-64 are in the state: rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 and so on. */
static const int PLACES_X86_64[] = { 0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15 };

struct bytes { /* GByteArray */
	uint8_t *data;
	unsigned int length;
};

static const struct state *machine;
static uint8_t mask_bit; /* in its byte */
static void **current_cpu;
static void (*cpsr_write)(void *, uint32_t, uint32_t, int);
static void (*cpu_load_eflags)(void *, int, int);
static int (*read_register)(void *, struct bytes *, int);
static uint64_t (*page_of)(void *, uint64_t, void *); /* QEMU before 10.1 has this one, later ones the next */
static bool (*translate)(uint64_t, uint64_t *);
static void *(*map)(uint64_t, uint64_t *, bool);
static int (*read_memory)(void *, uint64_t, void *, size_t, bool);
static struct bytes *(*new_bytes)(void);
static struct bytes *(*set_size)(struct bytes *, unsigned int);

static void *needed(const char *name)
{
	void *symbol = dlsym(RTLD_DEFAULT, name);

	if (!symbol)
		fail("this QEMU does not export what sections are read with", name);
	return symbol;
}

/* Return the first of two that there is. */
static void *needed_of_two(const char *name, const char *other)
{
	void *symbol = dlsym(RTLD_DEFAULT, name);

	return symbol ? symbol : needed(other);
}

void guest_install(void)
{
	machine = machine_arm64 ? &ARM64 : &X86_64;
	if (machine_arm64)
		cpsr_write = (void (*)(void *, uint32_t, uint32_t, int))needed(machine->writes);
	else
		cpu_load_eflags = (void (*)(void *, int, int))needed(machine->writes);
	read_register = (int (*)(void *, struct bytes *, int))needed(machine->reads);
	translate = (bool (*)(uint64_t, uint64_t *))dlsym(RTLD_DEFAULT, "qemu_plugin_translate_vaddr");
	if (!translate)
		page_of = (uint64_t(*)(void *, uint64_t, void *))needed("cpu_get_phys_page_attrs_debug");
	map = (void *(*)(uint64_t, uint64_t *, bool))needed_of_two("cpu_physical_memory_map", "physical_memory_map");
	read_memory = (int (*)(void *, uint64_t, void *, size_t, bool))needed("cpu_memory_rw_debug");
	new_bytes = (struct bytes * (*)(void)) needed("g_byte_array_new");
	set_size = (struct bytes * (*)(struct bytes *, unsigned int)) needed("g_byte_array_set_size");
}

static uint8_t *state_with(uint32_t flags)
{
	uint8_t *state = room_for(STATE_SIZE);

	if (machine_arm64)
		cpsr_write(state, flags, machine->mask, RAW_WRITE);
	else
		cpu_load_eflags(state, flags, machine->mask);
	return state;
}

/* Return where in the state of a CPU the byte with the mask of interrupts is. */
static size_t mask_offset(void)
{
	uint8_t *with = state_with(machine->mask), *without = state_with(0);
	size_t place = 0, changes = 0;

	for (size_t i = 0; i < STATE_SIZE; i++)
		if (with[i] != without[i]) {
			place = i;
			changes++;
		}
	mask_bit = with[place] ^ without[place];
	if (changes != 1 || mask_bit & (mask_bit - 1) || !(with[place] & mask_bit))
		fail("this QEMU keeps the mask of interrupts otherwise than is known", machine->writes);
	free(with);
	free(without);
	return place;
}

static uint64_t gdb_register(int number, int size)
{
	static struct bytes *bytes;
	uint64_t value = 0;

	if (!bytes)
		bytes = new_bytes();
	set_size(bytes, 0);
	if (read_register(*current_cpu, bytes, number) != size)
		fail("this QEMU does not read registers as is known", machine->reads);
	memcpy(&value, bytes->data, size);
	return value;
}

bool guest_masked(const struct guest_cpu *cpu)
{
	return !!(*cpu->mask & mask_bit) == machine->set;
}

void guest_check(const struct guest_cpu *cpu)
{
	if (guest_masked(cpu) != (!!(gdb_register(machine->flags, 4) & machine->mask) == machine->set))
		fail("this QEMU keeps the mask of interrupts otherwise than is known", machine->reads);
}

uint64_t guest_stack(const struct guest_cpu *cpu)
{
	return cpu->registers[machine->stack];
}

bool guest_prepare(struct guest_cpu *cpu)
{
	uint64_t values[MOST_REGISTERS];
	size_t size = machine->registers * sizeof(*values);
	const char *state = NULL, *this, *end;
	int different = 0;

	/* A variable of the thread that runs CPUs, so it cannot be asked for before. */
	if (!current_cpu)
		current_cpu = needed("current_cpu");
	this = *current_cpu;
	end = this + malloc_usable_size(*current_cpu);
	for (int i = 0; i < machine->registers; i++) {
		uint64_t value = gdb_register(i, 8);

		values[machine_arm64 ? i : PLACES_X86_64[i]] = value;
		different += value > 0xffff;
	}
	if (different < machine->different)
		return false;
	for (const char *place = this; place + size <= end; place += sizeof(*values)) {
		if (memcmp(place, values, size))
			continue;
		if (state)
			fail("this QEMU has the registers twice", "CPUState");
		state = place - machine->at;
	}
	if (!state)
		fail("this QEMU keeps registers otherwise than is known", "CPUState");
	cpu->registers = (const uint64_t *)(state + machine->at);
	cpu->mask = (const uint8_t *)state + mask_offset();
	guest_check(cpu);
	return true;
}

uint64_t guest_gs(void)
{
	return gdb_register(GS_BASE, 8);
}

/* Return the physical address of a page, ~0ull if it is nowhere. */
static uint64_t physical(uint64_t page)
{
	uint64_t attributes = 0, address;

	if (!current_cpu)
		current_cpu = needed("current_cpu");
	if (translate)
		return translate(page, &address) ? address : ~0ull;
	return page_of(*current_cpu, page, &attributes);
}

uint64_t guest_page(uint64_t address)
{
	uint64_t page = physical(address);

	if (page == ~0ull)
		fail("code that runs is not in the guest's memory", "guest_page");
	return page;
}

const void *guest_memory(uint64_t address, uint64_t size)
{
	uint64_t length = size, within = address % PAGE, page = physical(address - within);
	const void *memory = page == ~0ull ? NULL : map(page + within, &length, false);

	if (!memory || length < size)
		fail("what is followed is not in the guest's memory", "guest_memory");
	return memory;
}

bool guest_read(uint64_t address, void *into, uint64_t size)
{
	return !read_memory(*current_cpu, address, into, size, false);
}
