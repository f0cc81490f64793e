/* threads.c - decides that waiting threads sleep soon.  libgomp spins for milliseconds before it lets a core
 * go; on a machine that others use as well, a step then takes several times as long.  It reads its settings
 * when the program is loaded, so the program starts itself again with them. */
#include "cli/cli.h"

#include <stdlib.h>
#include <unistd.h>

#define SPINS "1000" /* a few microseconds; a step's loops are hundreds of them apart */

void plim_cli_calm_threads(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return; /* the person's own wish, or done */
    if (setenv("GOMP_SPINCOUNT", SPINS, 1)) return;
    execv("/proc/self/exe", argv); /* returns only when it failed: then as it was */
}
