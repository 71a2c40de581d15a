// From the FAIL_FROM-th call of io_uring_setup on, there is no memory for another ring. To be preloaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

static int calls;

long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long a[6];
    va_list list;
    va_start(list, number);
    for (int at = 0; at < 6; at++)
        a[at] = va_arg(list, long);
    va_end(list);
    const char *from = getenv("FAIL_FROM");
    if (number == SYS_io_uring_setup && from && __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) >= atoi(from)) {
        errno = ENOMEM;
        return -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
