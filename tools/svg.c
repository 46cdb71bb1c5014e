/* tools/svg.c - SVG text. */
#include "tools/svg.h"

#include <math.h>

#include "tools/html.h"

#define HEAD_LENGTH 7.0
#define HEAD_WIDTH  3.0

void svg_begin(FILE *f, double width, double height) {
    fprintf(
        f,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\">\n",
        width, height, width, height);
    svg_box(f, 0, 0, width, height, "#ffffff");
}

void svg_end(FILE *f) {
    fputs("</svg>\n", f);
}

void svg_line(FILE *f, double x1, double y1, double x2, double y2, const char *color, double width) {
    fprintf(f,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n",
            x1, y1, x2, y2, color, width);
}

void svg_arrow(FILE *f, double x1, double y1, double x2, double y2, const char *color, double width) {
    double length = hypot(x2 - x1, y2 - y1);
    if (length <= 0)
        return;
    double ux = (x2 - x1) / length, uy = (y2 - y1) / length;
    double bx = x2 - HEAD_LENGTH * ux, by = y2 - HEAD_LENGTH * uy;
    svg_line(f, x1, y1, bx, by, color, width);
    fprintf(f, "<polygon points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\" fill=\"%s\"/>\n", x2, y2,
            bx - HEAD_WIDTH * uy, by + HEAD_WIDTH * ux, bx + HEAD_WIDTH * uy, by - HEAD_WIDTH * ux, color);
}

void svg_box(FILE *f, double x, double y, double width, double height, const char *color) {
    fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width,
            height, color);
}

void svg_dot(FILE *f, double x, double y, double radius, const char *color) {
    fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, radius, color);
}

/* With a white rim, as it may lie over lines. */
void svg_text(FILE *f, double x, double y, double size, const char *anchor, const char *color,
              const char *text) {
    fprintf(
        f,
        "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.0f\" text-anchor=\"%s\" fill=\"%s\" stroke=\"#ffffff\" "
        "stroke-width=\"3\" paint-order=\"stroke\">",
        x, y, size, anchor, color);
    html_text(f, text);
    fputs("</text>\n", f);
}
