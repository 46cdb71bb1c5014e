/* tools/plan_msccl_absent.c - in the place of plan_msccl.c where expat is not there. */
#include "tools/plan_file.h"

bool tool_plan_read_msccl(tool_plan_text *from) {
    return field_wrong(&from->fields, "is XML, and this program was built without expat; allowed is JSON");
}
