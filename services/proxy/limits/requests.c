/*
 * Each source, and each tenant, may have so many requests open, WebSockets among them: whatever a client does not read
 * is kept in Envoy's memory, be it a refusal, and Envoy's own circuit breakers count each storage and port alone.
 *
 * An HTTP filter in two kinds, by its name, each configured with a text: the most that may be open.
 * `sources`, before all others: beyond it the request is reset, since an answer would be one more that is not read.
 * `tenants`, behind those that judge passwords, so that no stranger takes a place of anybody's: the tenant is the
 * namespace that the program before it has noted (components/proxy_rules.py). Beyond it the answer is 429.
 * What is nobody's is refused like what is too much.
 */
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum {
    DYNAMIC = 0,         /* metadata of the request itself */
    SOURCE_ADDRESS = 24, /* attribute: address and port of who opened the connection */
    TOO_MANY = 429,
    RESET = 1 /* in place of the answer */
};

struct header {
    struct text name, value;
};

bool envoy_dynamic_module_callback_http_filter_get_attribute_string(void *, int, struct text *);
bool envoy_dynamic_module_callback_http_get_metadata_string(void *, int, struct text, struct text, struct text *);
void envoy_dynamic_module_callback_http_send_response(void *, uint32_t, struct header *, size_t, struct text,
                                                      struct text);

struct limit {
    bool of_source;
    uint32_t most;
};

struct request {
    const struct limit *limit;
    void *whose; /* NULL until it is counted */
    bool reset;
};

static bool is(struct text text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.start, word, text.length) == 0;
}

static struct text text_of(const char *word)
{
    return (struct text){word, strlen(word)};
}

/* Give what is before the port in 192.0.2.1:443 or [2001:db8::1]:443; what has none becomes empty. */
static struct text without_port(struct text address)
{
    bool bracketed = address.length > 0 && address.start[0] == '[';
    size_t end = address.length;

    while (end > 0 && address.start[end - 1] != ':')
        end--;
    end -= end > 0;
    if (!bracketed)
        return (struct text){address.start, end};
    if (end < 2 || address.start[end - 1] != ']')
        return (struct text){address.start, 0};
    return (struct text){address.start + 1, end - 2};
}

static void *begin(void *envoy, const struct limit *limit)
{
    struct text said;

    if (limit->of_source)
        return envoy_dynamic_module_callback_http_filter_get_attribute_string(envoy, SOURCE_ADDRESS, &said)
                   ? begin_of_source(without_port(said), limit->most)
                   : NULL;
    return envoy_dynamic_module_callback_http_get_metadata_string(envoy, DYNAMIC, text_of("gpu-runtime"),
                                                                  text_of("namespace"), &said)
               ? begin_of_tenant(said, limit->most)
               : NULL;
}

EXPORT void *envoy_dynamic_module_on_http_filter_config_new(void *envoy, struct text name, struct text config)
{
    struct limit *limit = calloc(1, sizeof *limit);

    (void)envoy;
    if (limit == NULL)
        return NULL;
    limit->of_source = is(name, "sources");
    limit->most = read_number(&config, '\0');
    if ((limit->of_source || is(name, "tenants")) && limit->most > 0 && config.length == 0)
        return limit;
    free(limit);
    return NULL;
}

EXPORT void envoy_dynamic_module_on_http_filter_config_destroy(void *limit)
{
    free(limit);
}

/* No route has a limit of its own. */

EXPORT void *envoy_dynamic_module_on_http_filter_per_route_config_new(struct text name, struct text config)
{
    (void)name, (void)config;
    return NULL;
}

EXPORT void envoy_dynamic_module_on_http_filter_per_route_config_destroy(void *config)
{
    (void)config;
}

EXPORT void *envoy_dynamic_module_on_http_filter_new(void *limit, void *envoy)
{
    struct request *request = calloc(1, sizeof *request);

    (void)envoy;
    if (request != NULL)
        request->limit = limit;
    return request;
}

EXPORT enum status envoy_dynamic_module_on_http_filter_request_headers(void *envoy, void *filter, bool last)
{
    struct request *request = filter;
    const char *reason;

    (void)last;
    if (request != NULL) {
        request->whose = begin(envoy, request->limit);
        if (request->whose != NULL)
            return CONTINUE;
        request->reset = request->limit->of_source;
    }
    reason = request != NULL && request->reset ? "source_has_too_many_open" : "tenant_has_too_many_open";
    envoy_dynamic_module_callback_http_send_response(envoy, TOO_MANY, NULL, 0, (struct text){NULL, 0}, text_of(reason));
    return STOP;
}

EXPORT int envoy_dynamic_module_on_http_filter_local_reply(void *envoy, void *filter, uint32_t status,
                                                           struct text reason, bool reset)
{
    const struct request *request = filter;

    (void)envoy, (void)status, (void)reason, (void)reset;
    return request != NULL && request->reset ? RESET : CONTINUE;
}

EXPORT void envoy_dynamic_module_on_http_filter_destroy(void *filter)
{
    struct request *request = filter;

    if (request == NULL)
        return;
    if (request->whose != NULL)
        (request->limit->of_source ? end_of_source : end_of_tenant)(request->whose);
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
