// SPDX-License-Identifier: MIT
#include <stdlib.h>

#include "base.h"

static uint64_t none;
uint64_t *instruction_count = &none;
unsigned int slice_bits;
const char *prefix;

uint32_t slice_now(void)
{
	return slice_bits ? *instruction_count >> slice_bits : 0;
}

void fail(const char *what, const char *name)
{
	fprintf(stderr, "trace: %s: %s\n", what, name);
	exit(1);
}

void *room_for(size_t size)
{
	void *found = calloc(1, size);

	if (!found)
		fail("no memory left", "calloc");
	return found;
}

void *grown(void *array, size_t size)
{
	void *found = realloc(array, size);

	if (!found)
		fail("no memory left", "realloc");
	return found;
}

FILE *opened(const char *suffix)
{
	char path[4096];
	FILE *stream;

	snprintf(path, sizeof(path), "%s.%s", prefix, suffix);
	stream = fopen(path, "wb");
	if (!stream)
		fail("cannot be written", path);
	return stream;
}

void closed(FILE *stream, const char *name)
{
	if (ferror(stream) || fclose(stream))
		fail("cannot be written", name);
}
