/* terminal.h - aligned tables: columns as wide as their widest cell, numbers to the right, colour on a
 * terminal. */
#ifndef PLIM_CLI_TERMINAL_H
#define PLIM_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "base/context.h"

#define PLIM_TABLE_MAX_COLUMNS 32
#define PLIM_TABLE_CELL_BYTES  160

typedef enum plim_shade {
    PLIM_SHADE_NONE,
    PLIM_SHADE_GOOD,
    PLIM_SHADE_WARN,
    PLIM_SHADE_BAD,
    PLIM_SHADE_DIM
} plim_shade;

typedef struct plim_cell {
    char text[PLIM_TABLE_CELL_BYTES];
    plim_shade shade;
} plim_cell;

/* Rows of cells, the first row being the heading.  Zeroed: empty. */
typedef struct plim_grid {
    plim_ctx *ctx;
    plim_cell *cells;
    size_t cap, columns, rows, at;     /* at: cells placed */
    bool left[PLIM_TABLE_MAX_COLUMNS]; /* columns set to the left */
    plim_status status;                /* sticky */
} plim_grid;

void plim_grid_open(plim_grid *g, plim_ctx *c, size_t columns);
void plim_grid_cell(plim_grid *g, plim_shade shade, const char *fmt, ...) PLIM_PRINTF(3, 4);
void plim_grid_print(const plim_grid *g, FILE *to, bool colour);
void plim_grid_close(plim_grid *g);

/* text in a shade, for lines outside a grid. */
void plim_shaded(FILE *to, bool colour, plim_shade shade, const char *text);

#endif
