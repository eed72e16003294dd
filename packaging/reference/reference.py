#!/usr/bin/env python3
"""Generates the manual page and the shell completions of the quire command from its --help.

  reference.py --command QUIRE --version VERSION --out FOLDER
"""
import argparse
import dataclasses
import pathlib
import re
import subprocess

import completions
import manual

OPTION = re.compile(r"^  ((?:-\w,)?--?[\w-]+)(?: (\S.*?))?(?:\s{2,}(\S.*))?$")
COMMAND = re.compile(r"^  (\w+)\s{2,}(\S.*)$")
CHOICES = re.compile(r":?\{([^}]*)\}")


@dataclasses.dataclass
class Option:
    names: list       # "-m", "--model"
    value: str        # value as shown in the help; empty if it takes none
    text: str
    section: str

    @property
    def choices(self):
        found = CHOICES.search(self.value)
        return found.group(1).split(",") if found else []

    @property
    def shown_value(self):
        return CHOICES.sub("", self.value)

    @property
    def takes_path(self):
        return bool(re.search(r"\b(PATH|FILE|DIR)\b", self.value))


@dataclasses.dataclass
class Help:
    name: str         # empty for the command itself
    summary: str
    options: list
    commands: dict    # subcommands with their descriptions
    sections: dict    # other text by heading


def parse(name, text):
    """Parses one page of help; lines of no known form become text of their section."""
    lines = text.splitlines()
    help_page, section = Help(name, lines[0], [], {}, {}), ""
    for line in lines[1:]:
        option, command = OPTION.match(line), COMMAND.match(line)
        if line.endswith(":") and not line.startswith(" "):
            section = line[:-1]
        elif section == "Subcommands" and command:
            help_page.commands[command.group(1)] = command.group(2)
        elif option and section not in ("Examples", "Environment"):
            names, value, words = option.groups(default="")
            help_page.options.append(Option(names.split(","), value, words, section))
        elif line.startswith(" " * 20) and help_page.options:
            last = help_page.options[-1]
            last.text = f"{last.text} {line.strip()}".strip()
        elif not line.startswith("Usage:"):
            help_page.sections.setdefault(section, []).append(line)
    return help_page


def read(command):
    """Reads the pages of the command and of each subcommand."""
    def shown(*arguments):
        return subprocess.run([command, *arguments, "--help"], text=True, capture_output=True, check=True).stdout

    main = parse("", shown())
    if not main.commands:
        raise SystemExit(f"reference: {command} --help lists no subcommands")
    pages = [parse(name, shown(name)) for name in main.commands]
    for page in pages:
        if len(page.options) < 2:
            raise SystemExit(f"reference: {command} {page.name} --help lists no options")
    return main, pages


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    command, pages = read(options.command)
    options.out.mkdir(parents=True, exist_ok=True)
    written = {"quire.1": manual.page(command, pages, options.version), "quire.bash": completions.bash(command, pages),
               "_quire": completions.zsh(command, pages), "quire.fish": completions.fish(command, pages)}
    for name, text in written.items():
        (options.out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
