#!/usr/bin/env bash
# Tests the steps of ./dev: the output of a step goes to a log file whose name is valid for every title.
#   dev_steps_test.sh ROOT
set -euo pipefail
source "$1/packaging/dev/steps.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

expect() { "$@" || { echo "expected: $*"; exit 1; }; }

long_title="installing 40 Debian packages: $(printf 'libsomething-%d-dev ' {1..40})"
(step "$long_title" echo "said by the step") >shown
expect grep -qF "done in" shown
expect grep -qF "said by the step" "$(log_of "$long_title")"

status=0
(step "$long_title" bash -c 'echo "why it failed"; exit 7') >shown || status=$?
expect [ "$status" = 1 ]
expect grep -qF "why it failed" shown
expect grep -qF "exit status 7" shown
