"""Artifacts in the layout of a Maven repository, with its checksums. To publish them, only a signature (.asc) beside
each file is missing."""
import hashlib

import archive

MANIFEST = """Manifest-Version: 1.0\r
Implementation-Title: {title}\r
Implementation-Version: {version}\r
{more}\r
"""


def manifest(context, title, more=""):
    return MANIFEST.format(title=title, version=context.version, more=more).encode()


CHECKSUMS = ("md5", "sha1", "sha256", "sha512")


def write(context, artifact, pom, jars):
    """Writes a pom and jars. `jars` maps the suffix after the version in the name to the entries."""
    folder = context.out / "maven/dev/quire" / artifact / context.version
    stem = f"{artifact}-{context.version}"
    for classifier, entries in jars.items():
        archive.write_zip(folder / f"{stem}{classifier}.jar", entries, context.epoch, first=("META-INF/MANIFEST.MF",))
    (folder / f"{stem}.pom").write_text(pom, encoding="utf-8")
    for path in sorted(folder.iterdir()):
        for kind in CHECKSUMS:
            digest = hashlib.new(kind, path.read_bytes()).hexdigest()
            path.with_name(f"{path.name}.{kind}").write_text(digest, encoding="utf-8")
