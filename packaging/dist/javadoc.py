"""Contents of the jars beside that of the classes, which a Maven repository expects: sources, and their reference."""
import pathlib
import tempfile

import context as shared

OPTIONS = ("-quiet", "-notimestamp", "-Xdoclint:all,-missing", "-Werror", "--release", "17", "-encoding", "UTF-8",
           "-docencoding", "UTF-8", "-locale", "en")


def files(folder, pattern="*"):
    """Returns {name: content} of the files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob(pattern)) if path.is_file()}


def reference(sources, title, classpath=()):
    """Returns the files that javadoc makes of {name: content}. A mistake in a comment ends the program."""
    with tempfile.TemporaryDirectory() as folder:
        written, made = pathlib.Path(folder) / "sources", pathlib.Path(folder) / "reference"
        for name, content in sources.items():
            (written / name).parent.mkdir(parents=True, exist_ok=True)
            (written / name).write_bytes(content)
        path = ["-classpath", ":".join(map(str, classpath))] if classpath else []
        shared.run("javadoc", *OPTIONS, *path, "-windowtitle", title, "-doctitle", title, "-d", made,
                   *(written / name for name in sorted(sources)))
        return files(made)
