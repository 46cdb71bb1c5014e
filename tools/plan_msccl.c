/* tools/plan_msccl.c - plans from a schedule of MSCCL. */
#include <string.h>

#include "tools/msccl.h"

bool tool_plan_read_msccl(tool_plan_text *from) {
    msccl_schedule schedule = {0};
    bool good = msccl_read(&from->fields, from->text, from->bytes, &schedule);
    from->to->is_open = true;
    if (good) {
        const uint64_t elements = from->elements ? *from->elements : schedule.chunks;
        memcpy(from->to->name, schedule.name, sizeof from->to->name);
        good = msccl_plan(&from->fields, &schedule, elements, from->to);
    }
    msccl_free(&schedule);
    return good;
}
