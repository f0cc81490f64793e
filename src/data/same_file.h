/* same_file.h - whether two paths name one file, so that an output never takes the place of an input. */
#ifndef PLIM_DATA_SAME_FILE_H
#define PLIM_DATA_SAME_FILE_H

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

static inline bool plim_same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (!strcmp(a, b)) return true;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

#endif
