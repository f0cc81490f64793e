/* machine_memory.h - how much memory this machine can still give, and what this process has taken of it.
 *
 * Linux says it in three places: /proc/meminfo for the machine, the memory files of every cgroup the process
 * is in (both versions, and those above it), /proc/self/status for the process.  root stands before every
 * path, "" for the machine itself; a test gives a folder of its own. */
#ifndef PLIM_BASE_MACHINE_MEMORY_H
#define PLIM_BASE_MACHINE_MEMORY_H

#include "base/context.h"
#include "base/file.h"

#define PLIM_NO_LIMIT UINT64_MAX

typedef struct plim_machine_memory {
    uint64_t total_bytes, available_bytes; /* MemTotal, MemAvailable */
    uint64_t cgroup_limit_bytes;  /* of the cgroup that leaves least; PLIM_NO_LIMIT: none sets a limit */
    uint64_t cgroup_used_bytes;   /* of the same, without file pages it can drop; 0 without a limit */
    uint64_t usable_bytes;        /* the smaller of what the machine and what the cgroup leaves */
    char cgroup[PLIM_PATH_BYTES]; /* the folder of that cgroup, "" without a limit */
} plim_machine_memory;

/* Errors: PLIM_E_IO (meminfo cannot be read), PLIM_E_FORMAT (it lacks a line), PLIM_E_RANGE (a path too
 * long), PLIM_E_OOM_HOST.  A cgroup that cannot be read sets no limit. */
plim_status plim_machine_memory_read(plim_ctx *c, const char *root, plim_machine_memory *out);

/* What the process holds in memory, and the most it held since the start or the last reset.
 * Errors: PLIM_E_IO, PLIM_E_FORMAT, PLIM_E_OOM_HOST. */
typedef struct plim_process_memory {
    uint64_t resident_bytes, peak_bytes; /* VmRSS, VmHWM */
} plim_process_memory;
plim_status plim_process_memory_read(plim_ctx *c, const char *root, plim_process_memory *out);

/* Sets the peak to what is held now (Linux 4.0 and newer).  False: not allowed here; the peak is then that of
 * the whole life of the process. */
bool plim_process_peak_reset(const char *root);

/* ---- the texts, without the files ---------------------------------------------------------------------- */

/* "Key:   123 kB" of a file of such lines, in bytes.  False: no such line, or not a number of kB. */
bool plim_kb_line(const char *text, const char *key, uint64_t *out_bytes);

/* "name 123" of a cgroup's memory.stat, in bytes.  False: no such line. */
bool plim_stat_line(const char *text, const char *name, uint64_t *out);

/* A limit or usage file: a number of bytes, or "max".  Numbers from 2^60 on are version 1's way to say none.
 * False: neither. */
bool plim_cgroup_value(const char *text, uint64_t *out_bytes);

/* The path of the process in the memory hierarchy of a version, from /proc/self/cgroup: "/user.slice/x".
 * False: it is in none, or the path does not fit cap. */
bool plim_cgroup_path(const char *text, int version, char *buf, size_t cap);

/* Where that hierarchy is mounted, from /proc/self/mountinfo, and which path of it is the mount's root.
 * False: nowhere, or a path does not fit cap. */
bool plim_cgroup_mount(const char *text, int version, char *at, char *mount_root, size_t cap);

#endif
