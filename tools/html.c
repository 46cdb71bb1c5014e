/* tools/html.c - text and frame of the pages that programs write. */
#include "tools/html.h"

const char *const html_colours[HTML_COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                "#56b4e9", "#d55e00", "#8a7a00"};

static const char style[] =
    ":root{color-scheme:light dark;--back:#f6f8fa;--card:#fff;--text:#24292f;--faint:#57606a;--line:#d0d7de;"
    "--bad:#cf222e}"
    "@media(prefers-color-scheme:dark){:root{--back:#0d1117;--card:#161b22;--text:#e6edf3;--faint:#9da7b3;"
    "--line:#373e47;--bad:#ff7b72}}"
    "body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:1240px;margin:0 auto;padding:24px 16px}"
    "h1{font-size:22px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:16px;margin:0 0 10px}"
    "p{margin:0 0 18px;color:var(--faint)}"
    "section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px;margin:0 0 "
    "16px;overflow-x:auto}"
    "pre{margin:0;font:13px/1.55 ui-monospace,monospace}"
    ".wrap{white-space:pre-wrap;overflow-wrap:anywhere}"
    "svg{display:block;width:100%;height:auto}"
    "@media(max-width:600px){main{padding:12px 8px}section{padding:10px}}";

void html_text(FILE *file, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default: /* control characters have no place in either language */
            fputc((unsigned char)*text >= ' ' || *text == '\n' || *text == '\t' ? *text : '?', file);
        }
}

void html_begin(FILE *file, const char *title, const char *more) {
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; script-src 'unsafe-inline'\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>",
          file);
    html_text(file, title);
    fprintf(file, "</title><style>%s%s</style></head><body><main>\n", style, more);
}

void html_end(FILE *file) {
    fputs("</main></body></html>\n", file);
}
