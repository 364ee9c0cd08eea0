/* What the parts of the module share: Envoy's own shapes, how numbers are read, and what is counted of requests. */
#ifndef MODULE_H
#define MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct text {
    const char *start;
    size_t length;
};

enum status { CONTINUE = 0, STOP = 1 };

/* Read a number from 1 on that ends at END or the end of TEXT, and go behind it; 0 where there is none. */
uint32_t read_number(struct text *text, char end);

/* Choose where sources lie in their table, so that no client can foresee it; false where there is no chance. */
bool seed_sources(void);

/* Count one more request of the source with ADDRESS, or of the tenant NAME, and give whose it is; NULL where that is
 * more than MOST, or nobody's, or there is no memory. Each is to be ended once. */
void *begin_of_source(struct text address, uint32_t most);
void end_of_source(void *whose);
void *begin_of_tenant(struct text name, uint32_t most);
void end_of_tenant(void *whose);

#endif
