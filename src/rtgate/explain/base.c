// SPDX-License-Identifier: MIT
#include <limits.h>
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

static void path_of(const char *suffix, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s.%s", prefix, suffix);
}

FILE *opened(const char *suffix)
{
	char path[PATH_MAX];
	FILE *stream;

	path_of(suffix, path);
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

void renamed(const char *from, const char *to)
{
	char old[PATH_MAX], new[PATH_MAX];

	path_of(from, old);
	path_of(to, new);
	if (rename(old, new))
		fail("cannot be written", new);
}
