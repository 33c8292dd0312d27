/* SPDX-License-Identifier: MIT */
/* What the board accesses goes through the model of caches; nothing does unless the order asks for caches. */
#ifndef RTGATE_ACCESSES_H
#define RTGATE_ACCESSES_H

struct code;
struct qemu_plugin_insn;

void accesses_install(void);
struct code *accesses_translated(void); /* of a block */
void accesses_instruction(struct qemu_plugin_insn *insn, struct code *code);
void accesses_block(const struct code *code); /* before its first instruction */
void accesses_moment(void); /* PREFIX.moments gets what was missed until now */
void accesses_end(void);

#endif
