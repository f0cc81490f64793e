/* memtest_result.h - the file a memory test leaves: docs/memtest-json.md.  Written after every length, so
 * that a crash keeps what was measured; read back strictly, for runs are sized by it. */
#ifndef PLIM_FORMATS_MEMTEST_RESULT_H
#define PLIM_FORMATS_MEMTEST_RESULT_H

#include "base/clock.h"
#include "plimsoll.h"

#define PLIM_MEMTEST_MAX_STEPS 64
#define PLIM_MEMTEST_UNKNOWN   (-1)

/* One length.  Bytes and times that are not known are PLIM_MEMTEST_UNKNOWN. */
typedef struct plim_memtest_length {
    int64_t seq_tokens;
    plim_verdict verdict;                          /* PLIM_NO also when the step failed: error says how */
    plim_options options;                          /* as the step runs */
    int64_t planned_peak_bytes, host_peak_bytes;   /* the dry walk's: on the device, on the host */
    int64_t component_bytes[PLIM_COMPONENT_COUNT]; /* of the planned peak */
    int64_t measured_peak_bytes;  /* highest seen: of the whole card, context and others included; on the CPU
                                   * of the arena */
    int64_t arena_peak_bytes;     /* the arena's highest point */
    int64_t process_before_bytes; /* resident, before the length */
    int64_t process_peak_bytes;   /* resident, highest */
    bool process_peak_reset;      /* the peak is this length's own; else of the process's whole life */
    double expected_step_s;
    double setup_s, evaluation_s;
    int64_t steps; /* taken */
    double step_s[PLIM_MEMTEST_MAX_STEPS];
    double tokens_per_s, loss, evaluation_loss; /* loss: of the last step; NAN: unknown */
    char error[512];                            /* "": none */
} plim_memtest_length;

/* What stopped the sweep before its end. */
#define PLIM_MEMTEST_STOP_MAP(X)                                                                             \
    X(NOT, "")            /* nothing did */                                                                  \
    X(MEMORY, "memory")   /* a length beyond the budget */                                                   \
    X(FAILURE, "failure") /* a step failed */                                                                \
    X(USD, "usd")         /* the next length would have passed --max-usd */

typedef enum plim_memtest_stop {
#define PLIM_MEMTEST_STOP_ENUM(name, text) PLIM_MEMTEST_STOPPED_##name,
    PLIM_MEMTEST_STOP_MAP(PLIM_MEMTEST_STOP_ENUM)
#undef PLIM_MEMTEST_STOP_ENUM
        PLIM_MEMTEST_STOPS
} plim_memtest_stop;

/* Why the last length says no. */
typedef struct plim_memtest_failure {
    bool present;
    int64_t seq_tokens;
    plim_status status;
    int component;  /* plim_component; -1 where memory is not the reason */
    int64_t bytes;  /* of the component */
    char cure[160]; /* "" if none is known */
    char error[512];
} plim_memtest_failure;

typedef struct plim_memtest_result {
    char created[PLIM_UTC_BYTES];
    char model[128];
    int64_t parameters, lora_parameters;
    uint64_t config_hash; /* FNV-1a, 64 bits, of config.json */
    char card[PLIM_CARD_NAME_BYTES], device[96];
    int64_t budget_bytes, available_bytes; /* available: UNKNOWN when it was not looked at */
    double gemm_tflop_per_s, memory_gb_per_s, normals_per_s; /* what the expectation is reckoned from */
    double usd_per_h, max_usd;                               /* UNKNOWN: no price, no limit */
    int64_t steps_wanted, seed;
    plim_options options; /* those all lengths share */
    char plimsoll[32], compiler[96], libraries[160];
    plim_memtest_length length[PLIM_MAX_LENGTHS]; /* ascending */
    int64_t length_count;
    int64_t running_tokens;       /* the length at work when the file was written; 0: none */
    int64_t limit_tokens;         /* the longest that fits with margin; 0: none */
    int64_t first_failing_tokens; /* 0: none */
    plim_memtest_stop stopped;
    plim_memtest_failure failure;
    double expected_s, seconds, usd; /* usd UNKNOWN: no price */
} plim_memtest_result;

/* Everything unknown. */
void plim_memtest_result_clear(plim_memtest_result *r);

/* limit_tokens and first_failing_tokens of the lengths there are. */
void plim_memtest_result_judge(plim_memtest_result *r);

/* As JSON text; for plim_release.  Errors: PLIM_E_OOM_HOST. */
plim_status plim_memtest_result_json(plim_ctx *c, const plim_memtest_result *r, char **out);

/* Replaces the file at path.  Errors: PLIM_E_IO, PLIM_E_OOM_HOST. */
plim_status plim_memtest_result_write(plim_ctx *c, const plim_memtest_result *r, const char *path);

/* Reads a file back.  Every key must be there and no other; numbers that contradict each other are refused.
 * Errors: PLIM_E_IO; PLIM_E_FORMAT (not JSON, a key missing, unknown or of another type), PLIM_E_RANGE,
 * PLIM_E_OOM_HOST. */
plim_status plim_memtest_result_read(plim_ctx *c, const char *path, plim_memtest_result *out);

/* The same from memory; name is used in messages. */
plim_status plim_memtest_result_parse(plim_ctx *c, const char *name, const char *text, size_t bytes,
                                      plim_memtest_result *out);

#endif
