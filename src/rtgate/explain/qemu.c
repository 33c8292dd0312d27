// SPDX-License-Identifier: MIT
/*
 * qemu: what differs between the versions of QEMU's plugin interface.
 *
 * Translated code of version 1 adds to any variable, later to one that each CPU has for itself. Where CPUs run in turns,
 * as those of a virtual-time board do, QEMU from 10.0 on translates a block for all of them, with the number of the CPU
 * that came to it first. Callbacks are told that number whichever CPU runs. And an addition multiplies it in place, which
 * breaks the block if it is not 0 (gen_cpu_index() and gen_plugin_u64_ptr() in accel/tcg/plugin-gen.c; seen with 10.0
 * and 11.1). So with several CPUs a callback counts, and they are told apart by what QEMU takes for the current one. They
 * start one after the other, in the order of their numbers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "base.h"
#include "qemu.h"

int qemu_plugin_version = QEMU_PLUGIN;
static void (*on_translation)(struct qemu_plugin_tb *);
static void (*on_end)(void);
static bool several; /* CPUs */

#if QEMU_PLUGIN == 1
void qemu_count(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, executed, 1);
}

unsigned int qemu_cpu(unsigned int number)
{
	return number;
}
#else
static void on_instruction(unsigned int number, void *data)
{
	(void)number, (void)data;
	++*executed;
}

void qemu_count(struct qemu_plugin_insn *insn)
{
	static qemu_plugin_u64 counter;

	if (several) {
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_instruction, QEMU_PLUGIN_CB_NO_REGS, NULL);
		return;
	}
	if (!counter.score) {
		counter.score = qemu_plugin_scoreboard_new(sizeof(*executed));
		executed = qemu_plugin_scoreboard_find(counter.score, 0);
	}
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, counter, 1);
}

unsigned int qemu_cpu(unsigned int number)
{
	static const void *known[CPUS], **current_cpu;
	static unsigned int count, running;

	if (!several)
		return number;
	if (!current_cpu)
		current_cpu = dlsym(RTLD_DEFAULT, "current_cpu");
	if (!current_cpu)
		fail("this QEMU does not export what CPUs are told apart with", "current_cpu");
	if (count && known[running] == *current_cpu)
		return running;
	for (running = 0; running < count && known[running] != *current_cpu; running++)
		;
	if (running == CPUS)
		fail("more CPUs than there is room for", "qemu");
	known[running] = *current_cpu;
	count += running == count;
	return running;
}
#endif

size_t qemu_bytes(const struct qemu_plugin_insn *insn, uint8_t *bytes)
{
	size_t size = qemu_plugin_insn_size(insn);

	memset(bytes, 0, INSTRUCTION);
	if (size > INSTRUCTION)
		fail("an instruction is longer than is known", "qemu_plugin_insn_size");
#if QEMU_PLUGIN == 1
	memcpy(bytes, qemu_plugin_insn_data(insn), size);
#else
	qemu_plugin_insn_data(insn, bytes, size);
#endif
	return size;
}

#if QEMU_PLUGIN < 7
static void translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	on_translation(tb);
}

static void end(qemu_plugin_id_t id, void *data)
{
	(void)id, (void)data;
	on_end();
}

static void register_translation(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translation);
}
#else
static void translation(struct qemu_plugin_tb *tb, void *data)
{
	(void)data;
	on_translation(tb);
}

static void end(void *data)
{
	(void)data;
	on_end();
}

static void register_translation(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translation, NULL);
}
#endif

void qemu_install(qemu_plugin_id_t id, const qemu_info_t *info, void (*when_translated)(struct qemu_plugin_tb *),
		  void (*at_end)(void))
{
	several = info->cpus > 1;
	on_translation = when_translated;
	on_end = at_end;
	register_translation(id);
	qemu_plugin_register_atexit_cb(id, end, NULL);
}
