/* fuzz_jinja.c - templates and rows from strangers: the input up to a zero byte is a template, rendered with
 * a fixed row; what follows it, if it is JSON, is a row for that template.  Whatever comes of it, it ends,
 * within its limits, as a text whose runs cover it, or as an error that says where. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char row[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"Hi "
    "\\u00e9\\n\"}, "
    "{\"role\": \"assistant\", \"content\": \" a<think>b</think> c \", \"reasoning_content\": \"r\", "
    "\"tool_calls\": "
    "[{\"function\": {\"name\": \"f\", \"arguments\": {\"k\": [1, 2.5, null, true]}}}]}, "
    "{\"role\": \"tool\", \"content\": null}], \"tools\": [{\"function\": {\"name\": \"f\"}}], \"n\": 3, "
    "\"x\": -0.5, "
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_text(plim_ctx *c, const plim_rendered *r, const json_t *messages, const plim_turn_header *h)
{
    size_t at = 0;
    plim_labels l = {0};
    json_t *special = json_pack("[s, s]", "<s>", "</s>");
    for (size_t i = 0; i < r->run_count; i++) {
        require(r->runs[i].begin == at && r->runs[i].end > at && r->runs[i].message >= -1 &&
                r->runs[i].turn >= -1);
        at = r->runs[i].end;
    }
    require(at == r->bytes && r->text[at] == 0);
    for (int scope = PLIM_LABEL_ASSISTANT; scope <= PLIM_LABEL_WHOLE; scope++) {
        plim_label_options options = {.scope = (plim_label_scope)scope, .special = at % 2 ? special : NULL};
        if (plim_labels_find(c, r, messages, h, &options, &l)) {
            plim_ctx_clear(c);
            continue;
        }
        at = 0;
        for (size_t i = 0; i < l.count; i++) {
            require(l.items[i].begin >= at && l.items[i].end > l.items[i].begin && l.items[i].weight > 0);
            at = l.items[i].end;
        }
        require(at <= r->bytes);
        plim_labels_close(&l);
    }
    json_decref(special);
}

static void render(plim_ctx *c, const plim_jinja *t, const char *text, size_t bytes,
                   const plim_jinja_limits *limits, const plim_turn_header *h)
{
    plim_json j = {0};
    plim_rendered r = {0};
    if (plim_json_parse(c, "row", text, bytes, PLIM_JSON_CAP_BYTES, &j)) {
        plim_ctx_clear(c);
        return;
    }
    plim_status st = plim_jinja_render(c, t, j.root, limits, &r);
    require((st == PLIM_OK) == (plim_ctx_message(c)[0] == 0));
    if (st == PLIM_OK) check_text(c, &r, json_object_get(j.root, "messages"), h);
    else require(st == PLIM_E_FORMAT || st == PLIM_E_UNSUPPORTED || st == PLIM_E_RANGE);
    plim_ctx_clear(c);
    plim_rendered_close(&r);
    plim_json_close(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    plim_jinja_limits limits = {
        .steps = 200000, .depth = 200, .output_bytes = 1 << 20, .memory_bytes = 16 << 20};
    plim_ctx *c = NULL;
    plim_jinja *t = NULL;
    plim_turn_header h = {0};
    const uint8_t *zero = bytes ? memchr(data, 0, bytes) : NULL;
    size_t template_bytes = zero ? (size_t)(zero - data) : bytes;
    if (plim_ctx_open(NULL, &c)) abort();
    plim_status st = plim_jinja_open(c, "fuzz", (const char *)data, template_bytes, &limits, &t);
    if (st == PLIM_OK) {
        require(plim_turn_header_learn(c, t, NULL, &limits, &h) == PLIM_OK);
        render(c, t, row, sizeof row - 1, &limits, &h);
        if (zero) render(c, t, (const char *)zero + 1, bytes - template_bytes - 1, &limits, &h);
    } else require(strncmp(plim_ctx_message(c), "fuzz:", 5) == 0 && st != PLIM_E_OOM_HOST);
    plim_turn_header_close(&h);
    plim_jinja_close(t);
    plim_ctx_close(c);
    return 0;
}
