/* benchmark/page.h - results as one page of HTML (--report): tables, and pictures of times and bandwidths. */
#ifndef GCOLL_BENCH_PAGE_H
#define GCOLL_BENCH_PAGE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

/* What a page is made of. */
typedef struct bench_page {
    struct json_object *about; /* facts by their names, texts all; or NULL */
    /* Array of objects: results as --format json prints them, in their order. Rows with the same member
     * `line` are one line of the pictures; without it, those with the same algorithm are. */
    struct json_object *rows;
} bench_page;

/* NULL, or the reason why an object is no result that a page can show. The text is the next call's, too. */
const char *bench_page_refuses(struct json_object *row);
/* Writes the page. Whether the file has taken it is for the caller to check. False: out of memory. */
bool bench_page_write(const bench_page *page, FILE *file);

#endif
