// SPDX-License-Identifier: MIT
// A wall clock that somebody sets, to be preloaded: seconds to add stand in the file $STEPPING_CLOCK at each call.
// CLOCK_MONOTONIC stays, as nobody can set it (clock_gettime(2)). libfaketime 0.9.10 breaks Python's sleep().
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t step(void)
{
	const char *name = getenv("STEPPING_CLOCK");
	char text[32] = "";
	int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

	if (file >= 0) {
		if (read(file, text, sizeof(text) - 1) < 0)
			text[0] = 0;
		close(file);
	}
	return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	int result;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, now);
	if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += step();
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec found;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &found);
	now->tv_sec = found.tv_sec;
	now->tv_usec = found.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now)
{
	struct timespec found;

	clock_gettime(CLOCK_REALTIME, &found);
	if (now)
		*now = found.tv_sec;
	return found.tv_sec;
}
