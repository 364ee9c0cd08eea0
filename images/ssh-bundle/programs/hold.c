/*
 * hold SECONDS FIFO -- PROGRAM [ARGUMENT ...]
 *
 * Run PROGRAM as init would, in a process group of its own and with every signal handed on. When it has ended, write
 * "CODE LIFETIME" to FIFO and stay until told to end, so that its owner can look at what it left; then end with its code.
 * End with its code at once when it was told to end, or when it ended with an error within SECONDS of its start.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds since the machine was started, sleep included. */
static time_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec;
}

/* Start PROGRAM with the signal mask that we were given; return its process id. */
static pid_t start(char **program, const sigset_t *mask)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv(program[0], program);
    fprintf(stderr, "gpu-runtime: cannot run %s: %s\n", program[0], strerror(errno));
    _exit(126);
}

/* Hand signals on to CHILD until it ends; return its code as a shell counts, and say whether it was TOLD to end. */
static int watch(pid_t child, const sigset_t *all, int *told)
{
    int status;

    for (;;) {
        int got = sigwaitinfo(all, NULL);

        if (got == SIGCHLD) {
            if (waitpid(child, &status, WNOHANG) == child)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        } else if (got > 0) {
            kill(child, got);
            *told = *told || got == SIGTERM || got == SIGINT || got == SIGQUIT;
        }
    }
}

/* Tell whoever reads FIFO, from a process of its own: that may be later, or never. */
static void report(const char *fifo, int code, time_t lifetime)
{
    if (fork() != 0)
        return;
    mkfifo(fifo, 0660); /* where the reader was no faster */
    int file = open(fifo, O_WRONLY);
    if (file >= 0)
        dprintf(file, "%d %lld\n", code, (long long)lifetime);
    _exit(0);
}

/* Stay until told to end. */
static void stay(const sigset_t *all)
{
    for (;;) {
        int got = sigwaitinfo(all, NULL);

        if (got == SIGCHLD)
            while (waitpid(-1, NULL, WNOHANG) > 0)
                continue;
        else if (got > 0 && got != SIGCONT)
            return;
    }
}

int main(int count, char **arguments)
{
    sigset_t all, given;
    int told = 0;

    if (count < 5 || strcmp(arguments[3], "--") != 0) {
        fprintf(stderr, "gpu-runtime: hold needs: SECONDS FIFO -- PROGRAM [ARGUMENT ...]\n");
        return 64;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &given);
    time_t started = now();
    pid_t child = start(arguments + 4, &given);
    if (child < 0) {
        fprintf(stderr, "gpu-runtime: cannot start a process: %s\n", strerror(errno));
        return 126;
    }
    int code = watch(child, &all, &told);
    time_t lifetime = now() - started;
    if (told || (code != 0 && lifetime < atoll(arguments[1])))
        return code;
    fprintf(stderr, "gpu-runtime: the program ended with %d after %lld s; its container is held (afterExit)\n", code,
            (long long)lifetime);
    report(arguments[2], code, lifetime);
    stay(&all);
    return code;
}
