# Prints one line per step. Writes the output of the step to build/log/ and shows it only if the step fails.
# On a terminal the line is updated; in a pipe a long step reports every half minute.

is_terminal() { [[ -t 1 ]]; }

say() { printf '%s %s\n' "==" "$*"; }

fail() {
  printf 'dev: %s\n' "$*" >&2
  exit 1
}

# Prints the newest line of a log, cut to the terminal's width.
newest_line() {
  local width=${COLUMNS:-100}
  tail -n 1 "$1" 2>/dev/null | tr -d '\r' | cut -c "1-$((width > 40 ? width - 30 : 70))"
}

# log_of TITLE: prints the path of the log of that step, whose name is limited to 255 bytes.
log_of() { printf 'build/log/%s.log' "$(printf '%s' "$1" | tr -cs 'A-Za-z0-9' '-' | cut -c 1-80)"; }

# step TITLE COMMAND...: runs the command without input and with its output in a log; ends the script if it
# fails.
step() {
  local title=$1 log start=$SECONDS status=0 reported=$SECONDS
  shift
  mkdir -p build/log
  log=$(log_of "$title")
  is_terminal || printf '== %s\n' "$title"
  "$@" >"$log" 2>&1 </dev/null &
  local child=$!
  trap 'kill "$child" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$child" 2>/dev/null; do
    if is_terminal; then
      printf '\r\033[K== %s (%d s) %s' "$title" $((SECONDS - start)) "$(newest_line "$log")"
    elif ((SECONDS - reported >= 30)); then
      reported=$SECONDS
      printf '   ... %d s: %s\n' $((SECONDS - start)) "$(newest_line "$log")"
    fi
    sleep 0.2
  done
  wait "$child" || status=$?
  trap - INT TERM
  is_terminal && printf '\r\033[K== %s' "$title"
  is_terminal || printf '  '
  if ((status == 0)); then
    printf ' done in %d s\n' $((SECONDS - start))
    return 0
  fi
  printf ' FAILED after %d s (exit status %d); the end of %s:\n' $((SECONDS - start)) "$status" "$log"
  tail -n 80 "$log"
  exit 1
}
