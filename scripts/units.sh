# scripts/units.sh - times with units on the command lines of scripts, which source this. They have a function refuse.
# shellcheck shell=bash disable=SC2034  # seconds is for who sources this

# seconds_of FLAG TEXT LEAST MOST: fills seconds; the limits are in seconds.
seconds_of() {
    [[ $2 =~ ^([0-9]{1,5})([smh])$ ]] || refuse "$1: is '$2'; allowed is a time with its unit, as 90s, 10m or 2h"
    seconds=$((10#${BASH_REMATCH[1]}))
    case ${BASH_REMATCH[2]} in
    m) seconds=$((seconds * 60)) ;;
    h) seconds=$((seconds * 3600)) ;;
    esac
    ((seconds >= $3 && seconds <= $4)) || refuse "$1: is '$2'; allowed are $3s to $4s"
}
