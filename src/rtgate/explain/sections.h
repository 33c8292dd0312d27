/* SPDX-License-Identifier: MIT */
/* Critical sections. All does nothing unless a line of the order asks for them. */
#ifndef RTGATE_SECTIONS_H
#define RTGATE_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct place;
struct qemu_plugin_insn;

bool sections_order(const char *line); /* whether the line is for sections */
void sections_install(void);
struct place *sections_translated(uint64_t address); /* of the first instruction of a block */
void sections_instruction(struct qemu_plugin_insn *insn, struct place *block);
void sections_block(unsigned int cpu, struct place *block); /* before its first instruction */
void sections_end(void);

#endif
