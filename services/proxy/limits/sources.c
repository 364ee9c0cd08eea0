/*
 * Each source may have so many connections open, and open so many a second.
 *
 * A source is one address of IPv4, or one /64 of IPv6. A listener filter judges who comes, before a connection is made
 * of it and a handshake costs anything; a network filter counts what is open. Both are configured with a text: the most
 * that one source may have open, a blank, and how many it may open each second. An address that is not understood is
 * refused. All listeners count together. Nothing of what a client sends is read here. What a source asks for is
 * counted as well, by requests.c.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "module.h"

enum {
    BURST = 3,       /* seconds' worth at once, as of requests */
    BUCKETS = 16384, /* of the table; a power of two */
    MOST = 100000    /* sources remembered: 6 MB; beyond, those with nothing open are forgotten */
};

bool envoy_dynamic_module_callback_listener_filter_get_remote_address(void *, struct text *, uint32_t *);
bool envoy_dynamic_module_callback_network_filter_get_remote_address(void *, struct text *, uint32_t *);
int envoy_dynamic_module_callback_listener_filter_config_define_counter(void *, struct text, size_t *);
int envoy_dynamic_module_callback_listener_filter_increment_counter(void *, size_t, uint64_t);

struct limits {
    uint32_t open, rate;
    size_t refused; /* Envoy's number for the metric */
};

struct source {
    struct source *next;
    uint64_t key;
    uint32_t open, requests;
    double left, at; /* connections that it may open now, as of this second */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct source *table[BUCKETS];
static uint32_t known;
static uint64_t seed;

/* Read ADDRESS into KEY. An address of IPv4 takes a place in ::/8, from where nobody comes. */
static bool read_address(struct text address, uint64_t *key)
{
    char copy[INET6_ADDRSTRLEN + 1];
    unsigned char bytes[16];
    size_t length = 0;

    while (length < address.length && address.start[length] != '%')
        length++;
    if (length >= sizeof copy)
        return false;
    memcpy(copy, address.start, length);
    copy[length] = '\0';
    *key = 0;
    if (inet_pton(AF_INET, copy, bytes + 4) == 1)
        memcpy(bytes, "\0\0\xff\xff", 4);
    else if (inet_pton(AF_INET6, copy, bytes) != 1)
        return false;
    for (int place = 0; place < 8; place++)
        *key = *key << 8 | bytes[place];
    return true;
}

/* Give the place of KEY in the table, which no client can foresee. */
static struct source **bucket_of(uint64_t key)
{
    uint64_t mixed = key ^ seed;

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return &table[(mixed ^ mixed >> 31) % BUCKETS];
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Forget the sources that have nothing open. */
static void forget(void)
{
    for (size_t number = 0; number < BUCKETS; number++)
        for (struct source **place = &table[number]; *place != NULL;) {
            struct source *source = *place;

            if (source->open > 0 || source->requests > 0) {
                place = &source->next;
                continue;
            }
            *place = source->next;
            free(source);
            known--;
        }
}

/* Give the source of KEY; NULL where it is not known. The lock is held. */
static struct source *look_up(uint64_t key)
{
    struct source *source = *bucket_of(key);

    while (source != NULL && source->key != key)
        source = source->next;
    return source;
}

/* Give the source of KEY, a new one if need be; NULL where there is no memory. The lock is held. */
static struct source *find(uint64_t key, const struct limits *limits)
{
    struct source *source = look_up(key);

    if (source != NULL)
        return source;
    if (known >= MOST)
        forget();
    source = calloc(1, sizeof *source);
    if (source == NULL)
        return NULL;
    *source = (struct source){*bucket_of(key), key, 0, 0, (double)limits->rate * BURST, now()};
    *bucket_of(key) = source;
    known++;
    return source;
}

/* Tell whether SOURCE may open one more now, and take it from its pace if so. What is refused takes nothing. */
static bool may_open(struct source *source, const struct limits *limits)
{
    double time = now(), most = (double)limits->rate * BURST;

    source->left += (time - source->at) * limits->rate;
    source->left = source->left > most ? most : source->left;
    source->at = time;
    if (source->open >= limits->open || source->left < 1)
        return false;
    source->left -= 1;
    return true;
}

static void *read_limits(struct text text)
{
    struct limits *limits = calloc(1, sizeof *limits);

    if (limits == NULL)
        return NULL;
    limits->open = read_number(&text, ' ');
    limits->rate = read_number(&text, '\0');
    if (limits->open > 0 && limits->rate > 0 && text.length == 0)
        return limits;
    free(limits);
    return NULL;
}

bool seed_sources(void)
{
    return getrandom(&seed, sizeof seed, 0) == sizeof seed;
}

/* Read the source of who came, which Envoy tells each kind of filter by a function of its own, into KEY. */
static bool read_source(bool (*tell)(void *, struct text *, uint32_t *), void *envoy, uint64_t *key)
{
    struct text address;
    uint32_t port;

    return tell(envoy, &address, &port) && read_address(address, key);
}

/* The listener filter: NULL in place of a filter has Envoy close who came. */

EXPORT void *envoy_dynamic_module_on_listener_filter_config_new(void *envoy, struct text name, struct text config)
{
    struct limits *limits = read_limits(config);
    struct text metric = {"refused", sizeof "refused" - 1};

    (void)name;
    if (limits == NULL ||
        envoy_dynamic_module_callback_listener_filter_config_define_counter(envoy, metric, &limits->refused) == 0)
        return limits;
    free(limits);
    return NULL;
}

EXPORT void envoy_dynamic_module_on_listener_filter_config_destroy(void *limits)
{
    free(limits);
}

EXPORT void *envoy_dynamic_module_on_listener_filter_new(void *limits, void *envoy)
{
    struct source *source;
    uint64_t key;
    bool may;

    if (!read_source(envoy_dynamic_module_callback_listener_filter_get_remote_address, envoy, &key))
        return NULL;
    pthread_mutex_lock(&lock);
    source = find(key, limits);
    may = source != NULL && may_open(source, limits);
    pthread_mutex_unlock(&lock);
    if (may)
        return limits;
    envoy_dynamic_module_callback_listener_filter_increment_counter(envoy, ((struct limits *)limits)->refused, 1);
    return NULL;
}

EXPORT enum status envoy_dynamic_module_on_listener_filter_on_accept(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
    return CONTINUE;
}

EXPORT enum status envoy_dynamic_module_on_listener_filter_on_data(void *envoy, void *filter, size_t length)
{
    (void)envoy, (void)filter, (void)length;
    return CONTINUE;
}

EXPORT void envoy_dynamic_module_on_listener_filter_on_close(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
}

EXPORT size_t envoy_dynamic_module_on_listener_filter_get_max_read_bytes(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
    return 0;
}

EXPORT void envoy_dynamic_module_on_listener_filter_scheduled(void *envoy, void *filter, uint64_t event)
{
    (void)envoy, (void)filter, (void)event;
}

EXPORT void envoy_dynamic_module_on_listener_filter_destroy(void *filter)
{
    (void)filter;
}

/* The network filter: it is its source, which has one connection more while it lives. */

EXPORT void *envoy_dynamic_module_on_network_filter_config_new(void *envoy, struct text name, struct text config)
{
    (void)envoy, (void)name;
    return read_limits(config);
}

EXPORT void envoy_dynamic_module_on_network_filter_config_destroy(void *limits)
{
    free(limits);
}

EXPORT void *envoy_dynamic_module_on_network_filter_new(void *limits, void *envoy)
{
    struct source *source;
    uint64_t key;

    if (!read_source(envoy_dynamic_module_callback_network_filter_get_remote_address, envoy, &key))
        return NULL;
    pthread_mutex_lock(&lock);
    source = find(key, limits);
    if (source != NULL)
        source->open++;
    pthread_mutex_unlock(&lock);
    return source;
}

EXPORT enum status envoy_dynamic_module_on_network_filter_new_connection(void *envoy, void *source)
{
    (void)envoy, (void)source;
    return CONTINUE;
}

EXPORT enum status envoy_dynamic_module_on_network_filter_read(void *envoy, void *source, size_t length, bool end)
{
    (void)envoy, (void)source, (void)length, (void)end;
    return CONTINUE;
}

EXPORT enum status envoy_dynamic_module_on_network_filter_write(void *envoy, void *source, size_t length, bool end)
{
    (void)envoy, (void)source, (void)length, (void)end;
    return CONTINUE;
}

EXPORT void envoy_dynamic_module_on_network_filter_event(void *envoy, void *source, int event)
{
    (void)envoy, (void)source, (void)event;
}

EXPORT void envoy_dynamic_module_on_network_filter_destroy(void *filter)
{
    struct source *source = filter;

    pthread_mutex_lock(&lock);
    source->open--;
    pthread_mutex_unlock(&lock);
}

/* Its requests: who has one is known, since the connection counts. */

void *begin_of_source(struct text address, uint32_t most)
{
    struct source *source;
    uint64_t key;

    if (!read_address(address, &key))
        return NULL;
    pthread_mutex_lock(&lock);
    source = look_up(key);
    if (source != NULL && source->requests < most)
        source->requests++;
    else
        source = NULL;
    pthread_mutex_unlock(&lock);
    return source;
}

void end_of_source(void *whose)
{
    struct source *source = whose;

    pthread_mutex_lock(&lock);
    source->requests--;
    pthread_mutex_unlock(&lock);
}
