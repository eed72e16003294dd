"""The manual page, in the man macros."""


def escaped(text):
    """Escapes text for roff: a hyphen is a minus, and no line begins with a command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def _option(option):
    names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.names)
    value = f" \\fI{escaped(option.shown_value)}\\fR" if option.shown_value else ""
    return [".TP", names + value, escaped(option.text)]


def _command(page):
    lines = [f".SS quire {page.name}", escaped(page.summary) + "."]
    section = "Options"
    for option in page.options:
        if option.section != section:
            section = option.section
            lines += [".PP", f"{escaped(section)}:"]
        lines += _option(option)
    examples = [line.strip() for line in page.sections.get("Examples", []) if line.strip()]
    if examples:
        lines += [".PP", "Examples:", ".PP", ".nf", ".RS", *map(escaped, examples), ".RE", ".fi"]
    return lines


def _pairs(lines):
    """Formats a list of names with meanings; other lines become paragraphs."""
    found = []
    for line in lines:
        name, _, words = line.strip().partition("  ")
        if line.startswith("  ") and words:
            found += [".TP", f"\\fB{escaped(name)}\\fR", escaped(words.strip())]
        elif line.strip():
            found += [".PP", escaped(line.strip())]
    return found


def page(command, pages, version):
    lines = [f'.TH QUIRE 1 "" "Quire {version}" "User Commands"', ".SH NAME",
             f"quire \\- {escaped(command.summary[0].lower() + command.summary[1:].rstrip('.'))}", ".SH SYNOPSIS",
             ".B quire", "[\\fIOPTIONS\\fR] \\fISUBCOMMAND\\fR [\\fIARGUMENTS\\fR]", ".SH OPTIONS"]
    for option in command.options:
        lines += _option(option)
    lines += [".SH SUBCOMMANDS"]
    for item in pages:
        lines += _command(item)
    for heading, title in (("Environment", "ENVIRONMENT"), ("Exit codes", "EXIT STATUS")):
        lines += [f".SH {title}", *_pairs(command.sections.get(heading, []))]
    lines += [".SH SEE ALSO", "\\fBquire\\-server\\fR(1)"]
    return "\n".join(lines) + "\n"
