/* Knocks at TCP doors, or opens one, from its first instruction on.

   knock SECONDS ADDRESS PORT...   prints for each door: address port tries reached, and when first and last, in ms
   knock SECONDS listen PORT       takes every connection and answers none */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DOORS 64
#define PATIENCE_MS 30 /* on one machine an answer takes under one */

struct door {
    struct sockaddr_storage at;
    socklen_t size;
    long tries, reached;
    double first, last;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static int understood(struct door *door, const char *address, const char *port) {
    struct sockaddr_in *four = (struct sockaddr_in *)&door->at;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&door->at;
    int is_six = strchr(address, ':') != NULL;
    door->at.ss_family = is_six ? AF_INET6 : AF_INET;
    door->size = is_six ? sizeof *six : sizeof *four;
    if (is_six)
        six->sin6_port = htons(atoi(port));
    else
        four->sin_port = htons(atoi(port));
    return inet_pton(door->at.ss_family, address, is_six ? (void *)&six->sin6_addr : (void *)&four->sin_addr) == 1;
}

static int opens(const struct door *door) {
    int one = socket(door->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;
    struct pollfd wait = {one, POLLOUT, 0};
    int done = connect(one, (const struct sockaddr *)&door->at, door->size) == 0;
    if (!done && errno == EINPROGRESS && poll(&wait, 1, PATIENCE_MS) == 1)
        done = getsockopt(one, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    close(one);
    return done;
}

static int listens(double end, const char *port) {
    struct door door = {0};
    int all = socket(AF_INET6, SOCK_STREAM, 0), no = 0;
    setsockopt(all, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (all < 0 || !understood(&door, "::", port)) return 2;
    if (bind(all, (struct sockaddr *)&door.at, door.size) || listen(all, 64)) return 2;
    for (struct pollfd wait = {all, POLLIN, 0}; now() < end;)
        if (poll(&wait, 1, (int)(end - now()) + 1) == 1) close(accept(all, NULL, NULL));
    return 0;
}

int main(int count, char **words) {
    static struct door doors[DOORS];
    double began = now(), end = began + atof(words[1]) * 1e3;
    int number = (count - 2) / 2;
    if (count == 4 && !strcmp(words[2], "listen")) return listens(end, words[3]);
    for (int i = 0; i < number; i++)
        if (number > DOORS || !understood(&doors[i], words[2 + 2 * i], words[3 + 2 * i])) return 2;
    while (now() < end) {
        for (struct door *door = doors; door < doors + number; door++) {
            double start = now() - began;
            door->tries++;
            if (!opens(door)) continue;
            if (!door->reached++) door->first = start;
            door->last = start;
        }
        usleep(1000);
    }
    for (int i = 0; i < number; i++)
        printf("%s %s %ld %ld %.0f %.0f\n", words[2 + 2 * i], words[3 + 2 * i], doors[i].tries, doors[i].reached,
               doors[i].first, doors[i].last);
    return 0;
}
