"""The NuGet package: the assembly, and the native libraries in the folder where .NET expects those of a platform."""
import hashlib

import archive
import context as shared
import natives

NUSPEC = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd">
  <metadata>
    <id>Quire</id>
    <version>{version}</version>
    <authors>The Quire authors</authors>
    <license type="file">LICENSE</license>
    <projectUrl>https://quire.dev</projectUrl>
    <description>In-process LLM inference engine, with its native library for linux-x64</description>
    <repository type="git" url="https://quire.dev/quire" commit="{commit}" />
    <dependencies><group targetFramework=".NETFramework4.7.2" /><group targetFramework="net8.0" /></dependencies>
  </metadata>
</package>
"""

TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />
  <Default Extension="psmdcp" ContentType="application/vnd.openxmlformats-package.core-properties+xml" />
  <Default Extension="nuspec" ContentType="application/octet" />
  <Default Extension="dll" ContentType="application/octet" />
  <Default Extension="so" ContentType="application/octet" />
{overrides}</Types>
"""

RELATIONS = """<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/Quire.nuspec" Id="R1" />
  <Relationship Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
                Target="/{properties}" Id="R2" />
</Relationships>
"""

PROPERTIES = """<?xml version="1.0" encoding="utf-8"?>
<coreProperties xmlns="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
                xmlns:dc="http://purl.org/dc/elements/1.1/">
  <dc:creator>The Quire authors</dc:creator>
  <dc:identifier>Quire</dc:identifier>
  <version>{version}</version>
</coreProperties>
"""


def contents(context):
    """Returns the contents of the package without its metadata."""
    found = {"LICENSE": shared.licence(), "NOTICES": shared.notices(context)}
    for framework in ("net472", "net8.0"):  # one assembly for both: the tests run it under Mono and under CoreCLR
        found[f"lib/{framework}/Quire.dll"] = (context.build / "lib/Quire.dll").read_bytes()
    for name, content in (natives.libquire(context.build), natives.binding(context.build, "csharp")):
        found[f"runtimes/linux-x64/native/{name}"] = content
    return found


def make(context):
    found = contents(context)
    # Every part of the package needs a type; name those whose extension has none.
    unnamed = sorted(name for name in found if not name.endswith((".dll", ".so")))
    overrides = "".join(f'  <Override PartName="/{name}" ContentType="application/octet" />\n' for name in unnamed)
    identity = hashlib.sha256(context.version.encode() + context.commit.encode()).hexdigest()[:32]
    properties = f"package/services/metadata/core-properties/{identity}.psmdcp"
    described = {"Quire.nuspec": NUSPEC.format(version=context.version, commit=context.commit),
                 "[Content_Types].xml": TYPES.format(overrides=overrides),
                 "_rels/.rels": RELATIONS.format(properties=properties),
                 properties: PROPERTIES.format(version=context.version)}
    found.update((name, text.encode()) for name, text in described.items())
    archive.write_zip(context.out / f"Quire.{context.version}.nupkg", found, context.epoch,
                      first=("[Content_Types].xml", "_rels/.rels"))
