/* command.h - the memory test a plan proposes, as a line a shell takes. */
#ifndef PLIM_PLAN_COMMAND_H
#define PLIM_PLAN_COMMAND_H

#include "plimsoll_table.h"

typedef struct plim_memtest_ask {
    const plim_card *card;
    int64_t most_tokens; /* the table's lengths up to here */
    bool full_logits;
    uint32_t pinned; /* options the person fixed, PLIM_PIN_...: they go along */
} plim_memtest_ask;

void plim_memtest_command(const plim_table *t, const plim_memtest_ask *ask, char *out, size_t bytes);

/* Appends; what does not fit is cut. */
void plim_say(char *text, size_t bytes, const char *fmt, ...) PLIM_PRINTF(3, 4);

#endif
