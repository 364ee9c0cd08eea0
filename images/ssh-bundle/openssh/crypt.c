/* Debian's musl has no crypt(); passwords are off in our sshd, so none ever matches. */
#include <errno.h>
#include <stddef.h>

char *crypt(const char *key, const char *salt)
{
    (void)key;
    (void)salt;
    errno = ENOSYS;
    return NULL;
}
