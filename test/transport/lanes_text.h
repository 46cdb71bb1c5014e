/* test/transport/lanes_text.h - writes parsed lanes as a text again, for comparison. C and C++. */
#ifndef GCOLL_TEST_LANES_TEXT_H
#define GCOLL_TEST_LANES_TEXT_H

#include "gcoll/base/text.h"
#include "transport/choice.h"

/* A text that gcoll_lanes_parse reads as these lanes; "auto" if count is 0. */
static inline void write_lanes(const gcoll_lane_choice *choices, uint32_t count, char *text, size_t bytes) {
    gcoll_text to = {text, bytes, 0};
    if (count == 0)
        gcoll_text_add(&to, "auto");
    for (uint32_t i = 0; i < count; i++) {
        const gcoll_lane_choice *choice = &choices[i];
        gcoll_text_add(&to, "%s%s", i > 0 ? "," : "", choice->lane->name);
        for (uint32_t k = 0; k < GCOLL_LANE_OPTIONS_MAX; k++) {
            if (!(choice->given & (UINT32_C(1) << k)))
                continue;
            const gcoll_lane_option *option = &choice->lane->options[k];
            if (option->form == GCOLL_LANE_TEXT)
                gcoll_text_add(&to, ":%s=%s", option->name, choice->texts + choice->value[k]);
            else if (option->form == GCOLL_LANE_WORD)
                gcoll_text_add(&to, ":%s=%s", option->name, option->words[choice->value[k]]);
            else if (option->form == GCOLL_LANE_FLAG)
                gcoll_text_add(&to, ":%s=%s", option->name, choice->value[k] ? "on" : "off");
            else
                gcoll_text_add(&to, ":%s=%lld", option->name, (long long)choice->value[k]);
        }
    }
}

#endif
