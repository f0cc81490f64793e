/* fuzz_rows.c - any bytes as a file of rows, and each row as one of training data.  What is accepted must
 * keep its promises: places that ascend, a text inside the file, a conversation of messages with roles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/row_kinds.h"
#include "data/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_content(plim_ctx *c, const plim_row_content *r)
{
    uint64_t hash = 0;
    require(r->weight >= 0 && r->weight <= PLIM_ROW_MAX_WEIGHT);
    require((r->kind == PLIM_ROW_CHAT) == (r->chat != NULL));
    require((r->kind == PLIM_ROW_CHAT) == (r->text == NULL));
    require((r->kind == PLIM_ROW_COMPLETION) == (r->prompt != NULL));
    require(plim_row_hash(c, r, &hash) == PLIM_OK);
    const json_t *messages = json_object_get(r->chat, "messages");
    require(!r->chat || json_array_size(messages) > 0);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i), *content = json_object_get(m, "content");
        require(json_is_string(json_object_get(m, "role")) && (!content || json_is_string(content)));
    }
}

static void check_row(plim_ctx *c, const plim_row *row)
{
    plim_json j = {0};
    plim_row_content content = {0};
    plim_status st = plim_json_parse(c, "row", row->text, row->bytes, PLIM_ROW_MAX_BYTES, &j);
    if (!st) st = plim_row_read(c, &j, &content);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    require(st == PLIM_OK || st == PLIM_E_FORMAT || st == PLIM_E_RANGE || st == PLIM_E_UNSUPPORTED);
    if (st == PLIM_OK) check_content(c, &content);
    plim_row_content_close(&content);
    plim_json_close(&j);
    plim_ctx_clear(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_ctx *c = NULL;
    plim_rows *rows = NULL;
    plim_row row;
    bool found = true;
    char path[64];
    uint64_t line = 0, byte = 0, unpacked = 0;
    int fd = memfd_create("rows", MFD_CLOEXEC);
    if (fd < 0 || plim_ctx_open(NULL, &c)) abort();
    require(write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    plim_status st = plim_rows_open(c, path, &rows);
    while (!st && found && unpacked < (64u << 20)) { /* a small packed file may hold a very large one */
        st = plim_rows_next(rows, &row, &found);
        if (st || !found) break;
        require(row.line > line || (row.line == line && row.byte > byte));
        line = row.line;
        byte = row.byte;
        unpacked += row.bytes + 1;
        if (!row.text) continue;
        require(row.bytes > 0 && !memchr(" \t\r\n", row.text[0], 4) &&
                !memchr(" \t\r\n", row.text[row.bytes - 1], 4));
        if (row.bytes < (1u << 20)) check_row(c, &row);
    }
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    require(st == PLIM_OK || st == PLIM_E_FORMAT);
    plim_rows_close(rows);
    plim_ctx_close(c);
    close(fd);
    return 0;
}
