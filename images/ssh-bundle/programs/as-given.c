/*
 * as-given [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]
 *
 * Become PROGRAM, found on PATH, with the environment that the container was given (that of process 1) and the NAMEs
 * set on top. A shell cannot do this: it drops variables whose names are no shell names ("spring.profile"), and
 * busybox's own shell prefers its built-in programs to those on PATH.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Read a whole file, NUL-terminated; NULL when that is not possible. */
static char *contents(const char *path, size_t *length)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 65536;
    char *text = file < 0 ? NULL : malloc(size + 1);
    ssize_t got = 0;

    for (*length = 0; text != NULL; *length += (size_t)got) {
        if (*length == size)
            text = realloc(text, (size *= 2) + 1);
        if (text == NULL || (got = read(file, text + *length, size - *length)) <= 0)
            break;
    }
    if (file >= 0)
        close(file);
    if (text == NULL || got < 0)
        return NULL;
    text[*length] = '\0';
    return text;
}

/* Take over the environment in TEXT, a row of NUL-terminated NAME=VALUE. */
static void take_environment(char *text, size_t length)
{
    char *end = text + length;

    clearenv();
    for (char *entry = text; entry < end; entry += strlen(entry) + 1)
        if (strchr(entry, '=') != NULL)
            putenv(entry);
}

int main(int count, char **arguments)
{
    size_t length;
    char *given = contents("/proc/1/environ", &length);
    int next = 1;

    if (given == NULL) {
        fprintf(stderr, "gpu-runtime: cannot read the environment of process 1: %s\n", strerror(errno));
        return 126;
    }
    take_environment(given, length);
    for (; next < count && strcmp(arguments[next], "--") != 0; next++)
        putenv(arguments[next]);
    if (next + 1 >= count) {
        fprintf(stderr, "gpu-runtime: as-given needs: [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]\n");
        return 64;
    }
    execvp(arguments[next + 1], arguments + next + 1);
    fprintf(stderr, "gpu-runtime: cannot run %s: %s\n", arguments[next + 1], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
