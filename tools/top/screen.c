/* tools/top/screen.c - the table on a terminal, again and again. */
#include <curses.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "tools/cli.h"
#include "tools/top/top.h"

#define HELP " q quits, arrows and page keys scroll "

/* What is drawn, and from which line on. */
typedef struct screen {
    int line, first;
    bool has_colours;
} screen;

static void draw_line(void *arg, int emphasis, const char *line) {
    screen *s = arg;
    const int row = s->line++ - s->first;
    if (row < 0 || row >= LINES - 1)
        return;
    const attr_t how = emphasis == 1   ? A_BOLD
                       : emphasis == 2 ? (s->has_colours ? (attr_t)COLOR_PAIR(1) : A_STANDOUT)
                                       : A_NORMAL;
    attron(how);
    mvaddnstr(row, 0, line, COLS);
    attroff(how);
}

static void draw(screen *s, const top_view *view, const char *folder) {
    s->line = 0;
    erase();
    top_print(view, folder, draw_line, s);
    const int most = s->line > LINES - 1 ? s->line - (LINES - 1) : 0;
    if (s->first > most) { /* what is shown has become shorter */
        s->first = most;
        s->line = 0;
        erase();
        top_print(view, folder, draw_line, s);
    }
    attron(A_REVERSE);
    mvaddnstr(LINES - 1, 0, HELP, COLS);
    attroff(A_REVERSE);
    refresh();
}

/* False: it is enough. */
static bool heed_key(screen *s, int key) {
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case KEY_DOWN:
        s->first++;
        break;
    case KEY_UP:
        s->first -= s->first > 0;
        break;
    case KEY_NPAGE:
        s->first += LINES - 1;
        break;
    case KEY_PPAGE:
        s->first = s->first > LINES - 1 ? s->first - (LINES - 1) : 0;
        break;
    case KEY_HOME:
        s->first = 0;
        break;
    default:
        break;
    }
    return true;
}

int top_show(const char *folder, double interval_s) {
    screen s = {.first = 0};
    top_view before = {.at = 0}, view;
    bool good = true, goes_on = true;
    SCREEN *terminal = newterm(NULL, stdout, stdin);
    if (!terminal) {
        const char *name = getenv("TERM");
        cli_complain("cannot draw on this terminal (TERM is '%.60s'); --once prints the table",
                     name ? name : "");
        return 1;
    }
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    s.has_colours = has_colors() && start_color() == OK && use_default_colors() == OK &&
                    init_pair(1, COLOR_RED, -1) == OK;
    while (good && goes_on) {
        good = top_gather(folder, true, &before, &view);
        const int64_t until_ms = gcoll_now_ms() + (int64_t)(interval_s * 1e3);
        draw(&s, &view, folder);
        for (int64_t left_ms; goes_on && (left_ms = until_ms - gcoll_now_ms()) > 0;) {
            timeout((int)left_ms);
            const int key = getch();
            goes_on = heed_key(&s, key);
            if (key != ERR)
                draw(&s, &view, folder);
        }
        top_free(&before);
        before = view;
    }
    top_free(&before);
    endwin();
    delscreen(terminal);
    if (!good)
        cli_complain("%s: cannot be read any more", folder);
    return good ? 0 : 1;
}
