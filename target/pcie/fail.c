// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *format, va_list arguments, const char *end)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "%s\n", end);
}

void fail(enum status status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments, "");
	va_end(arguments);
	exit(status);
}

void fail_errno(enum status status, const char *format, ...)
{
	char end[128];
	va_list arguments;
	int reason = errno;

	snprintf(end, sizeof(end), ": %s", strerror(reason));
	va_start(arguments, format);
	say(format, arguments, end);
	va_end(arguments);
	exit(reason == EACCES || reason == EPERM ? NO_PERMISSION : status);
}

void usage(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments, " (--help explains)");
	va_end(arguments);
	exit(USAGE);
}

double seconds_of(const char *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0 && value <= 86400))
		usage("%s %s: expected a number above 0, at most 86400", option, text);
	return value;
}

unsigned long long number(const char *option, const char *text, unsigned long long least, unsigned long long most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (end != text && (*end == 'K' || *end == 'M')) {
		if (value > most >> (*end == 'K' ? 10 : 20))
			errno = ERANGE;
		value <<= *end++ == 'K' ? 10 : 20;
	}
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < least || value > most)
		usage("%s %s: expected a number from %llu to %llu", option, text, least, most);
	return value;
}
