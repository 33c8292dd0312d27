// SPDX-License-Identifier: MIT
/*
 * icount_lockstep: let QEMU's main loop and its CPU thread take turns, for virtual-time boards with several CPUs.
 *
 * Loaded into QEMU by LD_PRELOAD. With -icount sleep=off the main loop moves the virtual clock to the next timer when
 * all CPUs are idle (softmmu/icount.c, icount_start_warp_timer, QEMU 7.2). It runs beside the CPU thread, so on a busy
 * host it may see the CPUs idle before their last instructions are counted, or wake the CPU thread another number of
 * times: the clock then differs between two runs of one seed. On one CPU QEMU's own recording keeps the two apart
 * (qemu.py); it refuses to record with more. Here the main loop goes on after a poll only while the CPU thread waits.
 * A CPU thread that is busy for long is not waited for: nothing moves the clock then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS 200000000L

enum role { UNKNOWN, MAIN_LOOP, CPUS, OTHER };

static __thread enum role role;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static int waiting = 1;

static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

/* dlsym may return the oldest version of a symbol; glibc before 2.3.2 had another pthread_cond_t. */
static void *newest(const char *name)
{
	void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");

	return found ? found : dlsym(RTLD_NEXT, name);
}

static void find_real(void)
{
	real_wait = newest("pthread_cond_wait");
	real_timedwait = newest("pthread_cond_timedwait");
	real_ppoll = dlsym(RTLD_NEXT, "ppoll");
}

static enum role my_role(void)
{
	char name[17] = "";

	if (role != UNKNOWN)
		return role;
	if (syscall(SYS_gettid) == getpid())
		return role = MAIN_LOOP;
	prctl(PR_GET_NAME, name); /* QEMU names it so with -name debug-threads=on */
	return role = strncmp(name, "ALL CPUs", 8) ? OTHER : CPUS;
}

static void set_waiting(int value)
{
	pthread_mutex_lock(&lock);
	waiting = value;
	if (value)
		pthread_cond_signal(&change);
	pthread_mutex_unlock(&lock);
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	int cpus, result;

	if (!real_ppoll)
		find_real();
	cpus = my_role() == CPUS;
	if (cpus)
		set_waiting(1);
	result = real_wait(condition, mutex);
	if (cpus)
		set_waiting(0);
	return result;
}

static void wait_for_cpus(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += PATIENCE_NS;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&lock);
	while (!waiting && real_timedwait(&change, &lock, &until) == 0)
		;
	pthread_mutex_unlock(&lock);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	int result;

	if (!real_ppoll)
		find_real();
	result = real_ppoll(fds, count, timeout, mask);
	if (my_role() == MAIN_LOOP)
		wait_for_cpus();
	return result;
}
