/* main.c - picks the subcommand.  The only place that ends the process. */
#include <stdio.h>

#include "plimsoll.h"

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    puts("plimsoll " PLIM_VERSION);
    return 2;
}
