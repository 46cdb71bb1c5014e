/* tools/top/screen_absent.c - instead of screen.c, where there was no ncurses to build with. */
#include "tools/cli.h"
#include "tools/top/top.h"

int top_show(const char *folder, double interval_s) {
    (void)folder;
    (void)interval_s;
    cli_complain("was built without ncurses (libncurses-dev), so it cannot draw: use --once");
    return 1;
}
