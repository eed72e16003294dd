"""Completions for bash, zsh and fish: subcommands, options, option values, and files."""


def _quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _values(option):
    """Returns the possible values: None if the option takes no value, otherwise a list, which may be empty."""
    return option.choices if option.value else None


def bash(command, pages):
    cases = []
    for page in pages:
        names = " ".join(name for option in page.options for name in option.names)
        cases.append(f"    {page.name}) words={_quoted(names)} ;;")
    values = {}
    for page in pages:
        for option in page.options:
            if option.choices:
                for name in option.names:
                    values[name] = " ".join(option.choices)
    chosen = [f"    {name}) COMPREPLY=($(compgen -W {_quoted(words)} -- \"$current\")); return ;;"
              for name, words in sorted(values.items())]
    top = " ".join([*command.commands, *(name for option in command.options for name in option.names)])
    lines = ["# Completion of bash for quire.", "_quire() {",
             '  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words',
             '  case "$previous" in', *chosen, "  esac", '  case "${COMP_WORDS[1]}" in', *cases,
             f"    *) words={_quoted(top)} ;;", "  esac", "  if ((COMP_CWORD == 1)); then", f"    words={_quoted(top)}",
             "  fi", '  if [[ $current == -* ]] || ((COMP_CWORD == 1)); then',
             '    COMPREPLY=($(compgen -W "$words" -- "$current"))', "  else",
             '    COMPREPLY=($(compgen -f -- "$current"))', "  fi", "}",
             "complete -o filenames -F _quire quire"]
    return "\n".join(lines) + "\n"


def _zsh_option(option):
    text = option.text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    values = _values(option)
    if values is None:
        action = ""
    elif values:
        action = ":value:(" + " ".join(values) + ")"
    else:
        action = ":value:_files" if option.takes_path else ":value: "
    return [_quoted(f"*{name}[{text}]{action}") for name in option.names]


def zsh(command, pages):
    lines = ["#compdef quire", "# Completion of zsh for quire.", "local -a commands", "commands=("]
    for name, text in command.commands.items():
        lines.append("  " + _quoted(f"{name}:" + text.replace(":", "\\:")))
    lines += [")", "if ((CURRENT == 2)); then", "  _describe command commands", "  return", "fi", 'case "$words[2]" in']
    for page in pages:
        specs = [spec for option in page.options for spec in _zsh_option(option)]
        lines += [f"  {page.name})", "    shift words; ((CURRENT--))", "    _arguments \\",
                  *(f"      {spec} \\" for spec in specs), "      '*:file:_files'", "    ;;"]
    return "\n".join([*lines, "esac"]) + "\n"


def fish(command, pages):
    lines = ["# Completion of fish for quire.", "complete -c quire -f"]
    for name, text in command.commands.items():
        lines.append(f"complete -c quire -n __fish_use_subcommand -a {name} -d {_quoted(text)}")
    for page in pages:
        for option in page.options:
            names = "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names)
            values = _values(option)
            takes = ""
            if values:
                takes = f" -x -a {_quoted(' '.join(values))}"
            elif values is not None:
                takes = " -r -F" if option.takes_path else " -x"
            lines.append(f"complete -c quire -n '__fish_seen_subcommand_from {page.name}'{names}{takes} -d "
                         f"{_quoted(option.text)}")
    return "\n".join(lines) + "\n"
