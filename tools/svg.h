/* tools/svg.h - the few shapes that pictures are made of, as SVG text. */
#ifndef GCOLL_PLAN_TOOL_SVG_H
#define GCOLL_PLAN_TOOL_SVG_H

#include <stdio.h>

void svg_begin(FILE *file, double width, double height);
void svg_end(FILE *file);
void svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *color, double width);
/* With a head at its end. */
void svg_arrow(FILE *file, double x1, double y1, double x2, double y2, const char *color, double width);
void svg_box(FILE *file, double x, double y, double width, double height, const char *color);
void svg_dot(FILE *file, double x, double y, double radius, const char *color);
/* anchor: "start", "middle" or "end". */
void svg_text(FILE *file, double x, double y, double size, const char *anchor, const char *color,
              const char *text);

#endif
