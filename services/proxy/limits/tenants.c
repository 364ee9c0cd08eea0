/* The requests that each tenant has open, whatever they are for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum { NAME = 63 }; /* of a namespace, RFC 1123 */

/* One with at least one request open; the others are forgotten, so that there are never more than requests. */
struct tenant {
    struct tenant *next;
    uint32_t open;
    size_t length;
    char name[NAME];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tenant *tenants;

/* Give the tenant with NAME, a new one if need be; NULL where there is no memory. The lock is held. */
static struct tenant *find(struct text name)
{
    struct tenant *tenant = tenants;

    while (tenant != NULL && (tenant->length != name.length || memcmp(tenant->name, name.start, name.length) != 0))
        tenant = tenant->next;
    if (tenant != NULL)
        return tenant;
    tenant = calloc(1, sizeof *tenant);
    if (tenant == NULL)
        return NULL;
    tenant->next = tenants;
    tenant->length = name.length;
    memcpy(tenant->name, name.start, name.length);
    tenants = tenant;
    return tenant;
}

void *begin_of_tenant(struct text name, uint32_t most)
{
    struct tenant *tenant;

    if (name.length == 0 || name.length > NAME)
        return NULL;
    pthread_mutex_lock(&lock);
    tenant = find(name);
    if (tenant != NULL && tenant->open < most)
        tenant->open++;
    else
        tenant = NULL;
    pthread_mutex_unlock(&lock);
    return tenant;
}

void end_of_tenant(void *whose)
{
    struct tenant *ended = whose, **place = &tenants;

    pthread_mutex_lock(&lock);
    if (--ended->open == 0) {
        while (*place != ended)
            place = &(*place)->next;
        *place = ended->next;
        free(ended);
    }
    pthread_mutex_unlock(&lock);
}
