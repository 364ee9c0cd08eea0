/*
 * A module of Envoy that limits what Envoy's own filters count for all clients together: the connections of each source
 * (sources.c), and the requests that each source and each tenant has open (requests.c). Each filter is configured with a
 * text of numbers; one that is not understood refuses, and then Envoy does not start.
 *
 * Only these parts of Envoy's interface for modules (its abi.h) are used; it holds for the Envoy that is pinned.
 */
#include "module.h"

enum { DIGITS = 6 }; /* of a limit */

EXPORT const char *envoy_dynamic_module_on_program_init(void)
{
    return seed_sources() ? "v0.2.0" : NULL;
}

uint32_t read_number(struct text *text, char end)
{
    uint32_t number = 0;
    size_t length = 0;

    for (; length < text->length && text->start[length] != end; length++) {
        if (text->start[length] < '0' || text->start[length] > '9' || length >= DIGITS)
            return 0;
        number = number * 10 + (uint32_t)(text->start[length] - '0');
    }
    length += length < text->length;
    text->start += length;
    text->length -= length;
    return number;
}
