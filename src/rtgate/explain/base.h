/* SPDX-License-Identifier: MIT */
/* What all parts of the plugin rest on: the counter of instructions, memory, and files. */
#ifndef RTGATE_BASE_H
#define RTGATE_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CPUS = 8 }; /* of a board at most */

extern uint64_t *instruction_count; /* since power-on, of all CPUs; qemu.c has translated code add to it */
extern unsigned int slice_bits; /* what is followed is counted in slices of 2^slice_bits instructions; 0: in one */
uint32_t slice_now(void);

void fail(const char *what, const char *name) __attribute__((noreturn));
void *room_for(size_t size); /* zeroed; it is never freed, as QEMU does not say when it forgets a block */
void *grown(void *array, size_t size);

extern const char *prefix; /* of the path of each file */
FILE *opened(const char *suffix); /* of the path */
void closed(FILE *stream, const char *name);
void renamed(const char *from, const char *to); /* suffixes, too */

#endif
