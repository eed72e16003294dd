# Debian packages; all are listed in packaging/debian-packages.txt.

# Prints the packages of the named groups, one per line.
listed_packages() {
  local group
  for group in "$@"; do
    awk -v group="$group" '$1 == group { print $2 }' packaging/debian-packages.txt
  done
}

missing_packages() {
  local package
  for package in $(listed_packages "$@"); do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s\n' "$package"
  done
}

# Commands that run at the same time install one after the other.
install_packages() {
  local as_root=() lock
  ((EUID == 0)) || as_root=(sudo)
  mkdir -p build/log
  exec {lock}>build/log/install.lock
  flock "$lock"
  "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# want_packages GROUP...: tries to install the packages. If it fails, prints a message and continues; tests
# that need them are skipped.
want_packages() {
  local missing
  command -v dpkg-query >/dev/null || return 0
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} > 0)) || return 0
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    say "not installed, tests that need them are skipped: ${missing[*]}"
    return 0
  fi
  (step "installing ${missing[*]}, where that can be" install_packages "${missing[@]}") ||
    say "continuing without them: tests that need them are skipped"
}

# require_packages GROUP...: ensures that every package of these groups is installed. Asks for root only if
# one is missing.
require_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is not a Debian machine: assuming that the packages of packaging/debian-packages.txt are installed"
    return 0
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "missing Debian packages and no sudo; as root: apt-get install ${missing[*]}"
    say "sudo is needed to install: ${missing[*]}"
    sudo -v || fail "sudo refused; as root: apt-get install ${missing[*]}"
  fi
  step "installing ${#missing[@]} Debian packages: ${missing[*]}" install_packages "${missing[@]}"
}
