/* terminal.c - decides how a table looks on a terminal. */
#include "cli/terminal.h"

#include <stdarg.h>
#include <string.h>

static const char *const shade_codes[] = {"", "32", "33", "31", "2"};

void plim_grid_open(plim_grid *g, plim_ctx *c, size_t columns)
{
    *g = (plim_grid){.ctx = c, .columns = columns};
    g->left[0] = true;
}

void plim_grid_cell(plim_grid *g, plim_shade shade, const char *fmt, ...)
{
    if (!g->status) g->status = plim_grow(g->ctx, &g->cells, &g->cap, g->at + 1, sizeof *g->cells, "a table");
    if (g->status) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->cells[g->at].text, PLIM_TABLE_CELL_BYTES, fmt, ap);
    va_end(ap);
    g->cells[g->at].shade = shade;
    g->rows = g->at++ / g->columns + 1;
}

static void put(FILE *to, bool colour, plim_shade shade, const char *text)
{
    if (colour && shade != PLIM_SHADE_NONE) fprintf(to, "\033[%sm%s\033[0m", shade_codes[shade], text);
    else fputs(text, to);
}

void plim_shaded(FILE *to, bool colour, plim_shade shade, const char *text)
{
    put(to, colour, shade, text);
}

void plim_grid_print(const plim_grid *g, FILE *to, bool colour)
{
    size_t width[PLIM_TABLE_MAX_COLUMNS] = {0};
    for (size_t i = 0; i < g->at; i++) {
        size_t n = strlen(g->cells[i].text);
        if (n > width[i % g->columns]) width[i % g->columns] = n;
    }
    for (size_t i = 0; i < g->at; i++) {
        size_t column = i % g->columns;
        const plim_cell *cell = &g->cells[i];
        int fill = (int)(width[column] - strlen(cell->text));
        bool last = column + 1 == g->columns || i + 1 == g->at;
        if (!g->left[column]) fprintf(to, "%*s", fill, "");
        put(to, colour, cell->shade, cell->text);
        if (last) fputc('\n', to);
        else fprintf(to, "%*s", (g->left[column] ? fill : 0) + 2, "");
    }
}

void plim_grid_close(plim_grid *g)
{
    if (g->ctx) plim_release(g->ctx, g->cells);
    *g = (plim_grid){0};
}
