/* samples_writer.h - writing a samples file document by document, in bounded memory: docs/samples.md.
 *
 * The arrays grow in nameless temporary files beside the target and are put together at the end, so the
 * folder needs room for the data twice.  The target is replaced whole at commit, or left as it was. */
#ifndef PLIM_FORMATS_SAMPLES_WRITER_H
#define PLIM_FORMATS_SAMPLES_WRITER_H

#include "formats/samples_statistics.h"

/* What the metadata says.  All of it must outlive the writer.  Texts that are not UTF-8 (names of files may
 * be anything) are written with U+FFFD in place of the wrong bytes. */
typedef struct plim_samples_about {
    const char *tokenizer;      /* name and hash */
    const char *chat_template;  /* name and hash; "" without one */
    const char *const *classes; /* [class_count], all different, 1 to PLIM_SAMPLES_MAX_CLASSES */
    int64_t class_count;
    const char *const *files; /* [file_count], at least one */
    int64_t file_count;
    int64_t max_tokens; /* a longer document is refused; 0: no limit */
    void (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* of finish; may be NULL */
    void *progress_user;
} plim_samples_about;

/* The first failure is sticky: later calls return it and commit fails, so a caller may check at commit alone.
 * commit and abort both close w, whatever they return; abort accepts NULL.  The context must outlive w.
 * Errors: PLIM_E_IO, PLIM_E_RANGE (classes, files), PLIM_E_OOM_HOST. */
typedef struct plim_samples_writer plim_samples_writer;
plim_status plim_samples_writer_open(plim_ctx *c, const char *path, const plim_samples_about *about,
                                     plim_samples_writer **out);

/* The next count tokens of the document begun, and the weight of each.  Errors: PLIM_E_RANGE (a token below
 * 0, a weight that is not finite or below 0, more than PLIM_SAMPLES_LONGEST_TOKENS or about's max_tokens),
 * PLIM_E_IO. */
plim_status plim_samples_writer_tokens(plim_samples_writer *w, const int32_t *tokens,
                                       const float *loss_weights, int64_t count);

/* Closes the document.  file: an index of about's files; line: from 1, 0 when there is none.
 * Errors: PLIM_E_RANGE (no token in it, none of weight above 0 after its first, no such class or file),
 * PLIM_E_IO. */
plim_status plim_samples_writer_document(plim_samples_writer *w, int32_t class_id, uint64_t file,
                                         uint64_t line);

/* Names the classes anew, for whoever meets them as documents come: those named before keep their places.
 * Takes the place of about's; what is wrong with the names, finish says.  Errors: PLIM_E_RANGE (count). */
plim_status plim_samples_writer_classes(plim_samples_writer *w, const char *const *classes, int64_t count);

/* A document at once. */
plim_status plim_samples_writer_append(plim_samples_writer *w, const int32_t *tokens,
                                       const float *loss_weights, int64_t count, int32_t class_id,
                                       uint64_t file, uint64_t line);

/* Of the documents closed so far; valid until commit or abort. */
const plim_samples_statistics *plim_samples_writer_statistics(const plim_samples_writer *w);

/* Puts the file together beside the target; nothing may be appended after it.  For whoever replaces several
 * files: all that takes time and room comes before the first commit.  Errors: PLIM_E_RANGE (no document, or
 * one begun and not closed), PLIM_E_IO, PLIM_E_OOM_HOST. */
plim_status plim_samples_writer_finish(plim_samples_writer *w);

/* Finishes if that was not done, syncs and replaces. */
plim_status plim_samples_writer_commit(plim_samples_writer *w);
void plim_samples_writer_abort(plim_samples_writer *w);

#endif
