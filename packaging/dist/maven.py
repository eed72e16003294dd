"""Artifacts laid out as a Maven repository is, with the checksums that it asks for."""
import hashlib

import archive

MANIFEST = """Manifest-Version: 1.0\r
Implementation-Title: {title}\r
Implementation-Version: {version}\r
{more}\r
"""


def manifest(context, title, more=""):
    return MANIFEST.format(title=title, version=context.version, more=more).encode()


def write(context, artifact, pom, jars):
    """A pom, and jars by what stands behind the version in their names: their entries."""
    folder = context.out / "maven/dev/quire" / artifact / context.version
    stem = f"{artifact}-{context.version}"
    for classifier, entries in jars.items():
        archive.write_zip(folder / f"{stem}{classifier}.jar", entries, context.epoch, first=("META-INF/MANIFEST.MF",))
    (folder / f"{stem}.pom").write_text(pom, encoding="utf-8")
    for path in sorted(folder.iterdir()):
        digest = hashlib.sha1(path.read_bytes()).hexdigest()
        path.with_name(path.name + ".sha1").write_text(digest, encoding="utf-8")
