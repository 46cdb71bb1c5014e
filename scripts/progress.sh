# scripts/progress.sh - how far a script is, on a line of the terminal, as tools/progress.h has it for programs. Scripts source this.
# shellcheck shell=bash
# Nothing is written where standard error is no terminal, before 2 s have passed, or more than 5 times a second. Who writes to the
# terminal hides the line before.

progress_name="" progress_text="" progress_total=0 progress_done=0 progress_begun=0 progress_drawn=0 progress_shown=0

progress_ms() { printf -v "$1" %s $((${EPOCHREALTIME/[.,]/} / 1000)); }

# progress_begin NAME TOTAL: work of so many units begins, a whole number.
progress_begin() {
    progress_name="" progress_text="" progress_done=0
    [ -t 2 ] && (($2 > 0)) || return 0
    progress_name=$1 progress_total=$2 progress_drawn=0
    progress_ms progress_begun
}

# progress DONE [TEXT]: so many units are done; the text says what comes now (as before).
progress() {
    local now elapsed left text wide rest
    [ -n "$progress_name" ] || return 0
    progress_text=${2:-$progress_text}
    progress_done=$(($1 < progress_total ? $1 : progress_total))
    progress_ms now
    elapsed=$((now - progress_begun))
    ((elapsed >= 2000 && now - progress_drawn >= 200)) || return 0
    text="$progress_name: $((100 * progress_done / progress_total)) %"
    if ((progress_done > 0)); then
        left=$(((elapsed * (progress_total - progress_done) / progress_done + 999) / 1000))
        if ((left < 60)); then
            text+=", $left s left"
        elif ((left < 3600)); then
            text+=", $((left / 60)) min $((left % 60)) s left"
        else
            text+=", $((left / 3600)) h $((left / 60 % 60)) min left"
        fi
    fi
    text+=${progress_text:+: $progress_text}
    wide=$(stty size <&2 2>/dev/null) wide=${wide#* }
    ((${wide:-0} > 0)) || wide=80
    text=${text//[^ -~]/?} text=${text:0:wide-1}
    rest=$(((progress_shown < wide ? progress_shown : wide - 1) - ${#text}))
    printf '\r%s%*s' "$text" $((rest > 0 ? rest : 0)) "" >&2
    progress_shown=${#text} progress_drawn=$now
}

# progress_add UNITS [TEXT]: so many more are done.
progress_add() { progress $((progress_done + $1)) "${2:-}"; }

# Takes the line off the terminal; it comes back when work goes on.
progress_hide() {
    ((progress_shown > 0)) || return 0
    printf '\r%*s\r' "$progress_shown" "" >&2
    progress_shown=0
}

progress_end() {
    progress_hide
    progress_name=""
}
