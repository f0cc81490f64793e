/* doctor_print.c - decides how the findings read, on a terminal and as JSON. */
#include <jansson.h>
#include <stdio.h>

#include "base/units.h"
#include "cli/doctor.h"

static const char *or_none(const char *text)
{
    return *text ? text : "not found";
}

static void print_library(const char *name, const char *version, const char *path)
{
    if (*version) printf("%-12s%s  %s\n", name, version, path);
    else printf("%-12snot found\n", name);
}

static void print_kernels(const plim_doctor *d)
{
    printf("kernels     %lld of %d", (long long)(PLIM_DOCTOR_SLOTS - d->missing), (int)PLIM_DOCTOR_SLOTS);
    for (int i = 0, said = 0; d->missing && i < PLIM_DOCTOR_SLOTS; i++)
        if (!d->slot[i].present) printf("%s%s", said++ ? ", " : "; missing: ", d->slot[i].name);
    printf("\nattention   %s\n", or_none(d->attention));
}

static void print_card(const plim_doctor *d)
{
    const plim_cuda_info *i = &d->info;
    char total[PLIM_NUMBER_BYTES], left[PLIM_NUMBER_BYTES];
    printf("GPU         %s, capability %d.%d, %s GiB, %s free\n", i->name, (int)i->capability_major,
           (int)i->capability_minor, plim_format_bytes_gib(total, (size_t)i->memory_bytes),
           plim_format_bytes_gib(left, (size_t)i->free_bytes));
    printf("planned as  %s\n", *d->entry ? d->entry : "no entry of share/cards.json is like it");
    printf("driver      CUDA %s; built for CUDA %s\n", or_none(i->driver), or_none(i->runtime));
    print_library("cuBLASLt", i->cublas, i->cublas_path);
    print_library("cuDNN", i->cudnn, i->cudnn_path);
    if (d->slot[0].name) print_kernels(d);
    if (d->to_device_gb_per_s > 0 && d->from_device_gb_per_s > 0)
        printf("host link   %.1f GB/s to the GPU, %.1f GB/s from it\n", d->to_device_gb_per_s,
               d->from_device_gb_per_s);
}

void plim_doctor_print(const plim_doctor *d)
{
    char total[PLIM_NUMBER_BYTES], usable[PLIM_NUMBER_BYTES];
    printf("plimsoll    " PLIM_VERSION "\n");
    if (d->memory_known)
        printf("CPU         %lld cores; %s GiB, %s of them usable now\n", (long long)d->cores,
               plim_format_bytes_gib(total, (size_t)d->memory.total_bytes),
               plim_format_bytes_gib(usable, (size_t)d->memory.usable_bytes));
    else printf("CPU         %lld cores\n", (long long)d->cores);
    printf("BLAS        %s\n", or_none(d->blas));
    printf("plug-in     %s\n", or_none(d->plugin));
    if (d->have_card) print_card(d);
    else printf("GPU         none\n");
    if (!d->refusals) printf("\nNothing would be refused.\n");
    else printf("\nWhat would be refused\n");
    for (int64_t i = 0; i < d->refusals; i++) printf("  %s\n", d->refused[i]);
}

/* ---- JSON -------------------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static json_t *real_or_null(double x)
{
    return x > 0 ? json_real(x) : json_null();
}

static json_t *cpu_json(const plim_doctor *d)
{
    const plim_machine_memory *m = &d->memory;
    bool known = d->memory_known;
    return json_pack("{s:I, s:o, s:o, s:o}", "cores", (json_int_t)d->cores, "memory_bytes",
                     known ? json_integer((json_int_t)m->total_bytes) : json_null(), "usable_bytes",
                     known ? json_integer((json_int_t)m->usable_bytes) : json_null(), "blas",
                     text_or_null(d->blas));
}

static json_t *library_json(const char *version, const char *path)
{
    return *version ? json_pack("{s:s, s:s}", "version", version, "path", path) : json_null();
}

static json_t *kernels_json(const plim_doctor *d)
{
    json_t *all = json_object();
    for (int i = 0; i < PLIM_DOCTOR_SLOTS && d->slot[i].name; i++)
        json_object_set_new(all, d->slot[i].name, json_boolean(d->slot[i].present));
    return all;
}

static json_t *card_json(const plim_doctor *d)
{
    const plim_cuda_info *i = &d->info;
    char capability[24];
    if (!d->have_card) return json_null();
    snprintf(capability, sizeof capability, "%d.%d", (int)i->capability_major, (int)i->capability_minor);
    return json_pack(
        "{s:s, s:i, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}}", "name", i->name,
        "ordinal", d->ordinal, "compute_capability", capability, "memory_bytes", (json_int_t)i->memory_bytes,
        "free_bytes", (json_int_t)i->free_bytes, "planned_as", text_or_null(d->entry), "driver",
        text_or_null(i->driver), "runtime", text_or_null(i->runtime), "cublaslt",
        library_json(i->cublas, i->cublas_path), "cudnn", library_json(i->cudnn, i->cudnn_path), "kernels",
        kernels_json(d), "attention", text_or_null(d->attention), "host_link_gb_per_s", "to_device",
        real_or_null(d->to_device_gb_per_s), "from_device", real_or_null(d->from_device_gb_per_s));
}

plim_status plim_doctor_json(plim_ctx *c, const plim_doctor *d)
{
    json_t *refused = json_array();
    for (int64_t i = 0; i < d->refusals; i++) json_array_append_new(refused, json_string(d->refused[i]));
    json_t *root = json_pack("{s:s, s:o, s:o, s:o, s:o}", "plimsoll", PLIM_VERSION, "cpu", cpu_json(d),
                             "plugin", text_or_null(d->plugin), "gpu", card_json(d), "refused", refused);
    bool failed = !root || json_dumpf(root, stdout, JSON_INDENT(2)) != 0;
    json_decref(root);
    if (failed) return plim_fail(c, PLIM_E_IO, "the findings could not be written as JSON");
    fputc('\n', stdout);
    return PLIM_OK;
}
