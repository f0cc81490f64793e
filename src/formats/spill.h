/* spill.h - bytes set aside in a temporary file until their number is known. */
#ifndef PLIM_FORMATS_SPILL_H
#define PLIM_FORMATS_SPILL_H

#include "plimsoll.h"

/* The file lies in the folder of path, which names it in messages, and has no name of its own: whatever ends
 * the process frees its room.  close accepts NULL.  The context must outlive it.
 * Errors of all: PLIM_E_IO, PLIM_E_RANGE (a path too long), PLIM_E_OOM_HOST. */
typedef struct plim_spill plim_spill;
plim_status plim_spill_open(plim_ctx *c, const char *path, plim_spill **out);
plim_status plim_spill_write(plim_spill *s, const void *data, size_t bytes);
void plim_spill_close(plim_spill *s);

/* Everything written so far, in order and in blocks, to take; ends with the first failure of it. */
plim_status plim_spill_read(plim_spill *s, plim_status (*take)(void *user, const void *data, size_t bytes),
                            void *user);

#endif
