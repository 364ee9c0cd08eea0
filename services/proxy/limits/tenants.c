/*
 * Each tenant may have so many requests open, WebSockets among them, whatever they are for: what clients do not read is
 * kept in Envoy's memory, and Envoy's own circuit breakers count each storage and port alone.
 *
 * An HTTP filter, after those that judge passwords: the tenant is the namespace that the program before it has noted
 * (components/proxy_rules.py), so that no stranger takes a place of anybody's. Configured with a text: the most that
 * one tenant may have open. Beyond it, and where nothing was noted, the answer is 429.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum {
    DYNAMIC = 0, /* metadata of the request itself */
    NAME = 63,   /* of a namespace, RFC 1123 */
    TOO_MANY = 429
};

struct header {
    struct text name, value;
};

bool envoy_dynamic_module_callback_http_get_metadata_string(void *, int, struct text, struct text, struct text *);
void envoy_dynamic_module_callback_http_send_response(void *, uint32_t, struct header *, size_t, struct text,
                                                      struct text);

/* One with at least one request open; the others are forgotten, so that there are never more than requests. */
struct tenant {
    struct tenant *next;
    uint32_t open;
    size_t length;
    char name[NAME];
};

struct request {
    const uint32_t *most;
    struct tenant *tenant; /* NULL until it is counted */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tenant *tenants;

/* Count one more of NAME; NULL where that is one too many, or there is no memory. */
static struct tenant *begin(struct text name, uint32_t most)
{
    struct tenant *tenant = tenants;

    if (name.length == 0 || name.length > NAME)
        return NULL;
    while (tenant != NULL && (tenant->length != name.length || memcmp(tenant->name, name.start, name.length) != 0))
        tenant = tenant->next;
    if (tenant == NULL) {
        tenant = calloc(1, sizeof *tenant);
        if (tenant == NULL)
            return NULL;
        tenant->next = tenants;
        tenant->length = name.length;
        memcpy(tenant->name, name.start, name.length);
        tenants = tenant;
    }
    if (tenant->open >= most)
        return NULL;
    tenant->open++;
    return tenant;
}

/* Count one less of ENDED, and forget it where it was the last. */
static void end(struct tenant *ended)
{
    struct tenant **place = &tenants;

    if (--ended->open > 0)
        return;
    while (*place != ended)
        place = &(*place)->next;
    *place = ended->next;
    free(ended);
}

EXPORT void *envoy_dynamic_module_on_http_filter_config_new(void *envoy, struct text name, struct text config)
{
    uint32_t *most = calloc(1, sizeof *most);

    (void)envoy, (void)name;
    if (most == NULL)
        return NULL;
    *most = read_number(&config, '\0');
    if (*most > 0 && config.length == 0)
        return most;
    free(most);
    return NULL;
}

EXPORT void envoy_dynamic_module_on_http_filter_config_destroy(void *most)
{
    free(most);
}

EXPORT void *envoy_dynamic_module_on_http_filter_per_route_config_new(struct text name, struct text config)
{
    (void)name, (void)config;
    return NULL;
}

EXPORT void envoy_dynamic_module_on_http_filter_per_route_config_destroy(void *config)
{
    (void)config;
}

EXPORT void *envoy_dynamic_module_on_http_filter_new(void *most, void *envoy)
{
    struct request *request = calloc(1, sizeof *request);

    (void)envoy;
    if (request != NULL)
        request->most = most;
    return request;
}

EXPORT enum status envoy_dynamic_module_on_http_filter_request_headers(void *envoy, void *filter, bool last)
{
    static const struct text space = {"gpu-runtime", sizeof "gpu-runtime" - 1};
    static const struct text key = {"namespace", sizeof "namespace" - 1};
    static const struct text nothing, reason = {"tenant_has_too_many_open", sizeof "tenant_has_too_many_open" - 1};
    struct request *request = filter;
    struct text name;

    (void)last;
    if (envoy_dynamic_module_callback_http_get_metadata_string(envoy, DYNAMIC, space, key, &name)) {
        pthread_mutex_lock(&lock);
        request->tenant = begin(name, *request->most);
        pthread_mutex_unlock(&lock);
    }
    if (request->tenant != NULL)
        return CONTINUE;
    envoy_dynamic_module_callback_http_send_response(envoy, TOO_MANY, NULL, 0, nothing, reason);
    return STOP;
}

EXPORT void envoy_dynamic_module_on_http_filter_destroy(void *filter)
{
    struct request *request = filter;

    if (request->tenant != NULL) {
        pthread_mutex_lock(&lock);
        end(request->tenant);
        pthread_mutex_unlock(&lock);
    }
    free(request);
}

/* Whatever else comes of a request passes as it is. */

EXPORT enum status envoy_dynamic_module_on_http_filter_request_body(void *envoy, void *filter, bool last)
{
    (void)envoy, (void)filter, (void)last;
    return CONTINUE;
}

EXPORT enum status envoy_dynamic_module_on_http_filter_request_trailers(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
    return CONTINUE;
}

EXPORT enum status envoy_dynamic_module_on_http_filter_response_headers(void *envoy, void *filter, bool last)
{
    (void)envoy, (void)filter, (void)last;
    return CONTINUE;
}

EXPORT enum status envoy_dynamic_module_on_http_filter_response_body(void *envoy, void *filter, bool last)
{
    (void)envoy, (void)filter, (void)last;
    return CONTINUE;
}

EXPORT enum status envoy_dynamic_module_on_http_filter_response_trailers(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
    return CONTINUE;
}

EXPORT void envoy_dynamic_module_on_http_filter_stream_complete(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
}

EXPORT enum status envoy_dynamic_module_on_http_filter_local_reply(void *envoy, void *filter, uint32_t status,
                                                                   struct text reason, bool reset)
{
    (void)envoy, (void)filter, (void)status, (void)reason, (void)reset;
    return CONTINUE;
}

EXPORT void envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
}

EXPORT void envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(void *envoy, void *filter)
{
    (void)envoy, (void)filter;
}

/* Envoy demands these as well, and has no reason to call them: no event is scheduled here, and nobody asked. */
#define NEVER(event) \
    EXPORT void envoy_dynamic_module_on_http_filter_##event(void) \
    { \
    }

NEVER(http_callout_done)
NEVER(http_stream_headers)
NEVER(http_stream_data)
NEVER(http_stream_trailers)
NEVER(http_stream_complete)
NEVER(http_stream_reset)
NEVER(scheduled)
