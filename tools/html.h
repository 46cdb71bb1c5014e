/* tools/html.h - text and frame of the pages that programs write. */
#ifndef GCOLL_CLI_HTML_H
#define GCOLL_CLI_HTML_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Okabe and Ito's colours, which the colour-blind can tell apart. */
#define HTML_COLOURS 7u
extern const char *const html_colours[HTML_COLOURS];

/* Writes text for HTML or XML, within an element or within an attribute's quotation marks. */
void html_text(FILE *file, const char *text);

/* Begins a page whose browser loads nothing from anywhere: head, title, and the style that all pages share,
 * with `style` behind it. Light or dark, as the reader's system says. */
void html_begin(FILE *file, const char *title, const char *style);
void html_end(FILE *file);

#ifdef __cplusplus
}
#endif

#endif
