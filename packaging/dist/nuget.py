"""The NuGet packages: Quire, with native libraries in the folder where .NET expects those of a platform, and its
integration of Microsoft.Extensions.AI, which is compiled with a runtime that `./dev artifacts` brings."""
import dataclasses
import hashlib
import pathlib
import re
import tempfile

import archive
import context as shared
import dotnet
import natives
import retarget

NUSPEC = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd">
  <metadata>
    <id>{id}</id>
    <version>{version}</version>
    <authors>The Quire authors</authors>
    <license type="file">LICENSE</license>
    <projectUrl>https://quire.dev</projectUrl>
    <readme>README.md</readme>
    <description>{description}</description>
    <tags>llm inference ai</tags>
    <repository type="git" url="https://quire.dev/quire" commit="{commit}" />
    <dependencies>{dependencies}</dependencies>
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
  <Default Extension="xml" ContentType="application/octet" />
  <Default Extension="md" ContentType="application/octet" />
{overrides}</Types>
"""

RELATIONS = """<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/{id}.nuspec" Id="R1" />
  <Relationship Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
                Target="/{properties}" Id="R2" />
</Relationships>
"""

PROPERTIES = """<?xml version="1.0" encoding="utf-8"?>
<coreProperties xmlns="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
                xmlns:dc="http://purl.org/dc/elements/1.1/">
  <dc:creator>The Quire authors</dc:creator>
  <dc:identifier>{id}</dc:identifier>
  <version>{version}</version>
</coreProperties>
"""


SOURCE = shared.ROOT / "bindings/csharp"


@dataclasses.dataclass(frozen=True)
class Package:
    id: str
    description: str
    dependencies: str  # elements of the nuspec
    readme: pathlib.Path


QUIRE = Package("Quire", "In-process LLM inference engine, with its native library for linux-x64",
                '<group targetFramework=".NETFramework4.7.2" /><group targetFramework="net8.0" />', SOURCE / "README.md")


def contents(context):
    """Returns the contents of the package without its metadata."""
    found = {"NOTICES": shared.notices(context)}
    for framework in ("net472", "net8.0"):  # one assembly for both: the tests run it under Mono and under CoreCLR
        for name in ("Quire.dll", "Quire.xml"):
            found[f"lib/{framework}/{name}"] = (context.build / "lib" / name).read_bytes()
    for name, content in (natives.libquire(context.build), natives.binding(context.build, "csharp")):
        found[f"runtimes/linux-x64/native/{name}"] = content
    return found


def extension(context):
    """Returns the package of the integration: the dependencies of its project, at the versions of the runtime at least."""
    project = (SOURCE / "extensions-ai/Quire.Extensions.AI.csproj").read_text(encoding="utf-8")
    if f"<Version>{context.version}</Version>" not in project:
        raise SystemExit(f"dist: Quire.Extensions.AI.csproj does not have the version {context.version}; change it")
    needs = "".join(f'<dependency id="{name}" version="{version}" />'
                    for name, version in re.findall(r'<PackageReference Include="(.*?)" Version="(.*?)"', project))
    return Package("Quire.Extensions.AI", re.search("<Description>(.*?)</Description>", project)[1],
                   f'<group targetFramework="net9.0">{needs}</group>', SOURCE / "extensions-ai/README.md")


def extension_contents(context):
    """Compiles the integration. It is for .NET 9, since it is compiled with the assemblies of that runtime."""
    with tempfile.TemporaryDirectory() as folder:
        library, notes = pathlib.Path(folder) / "Quire.Extensions.AI.dll", pathlib.Path(folder) / "Quire.Extensions.AI.xml"
        named = pathlib.Path(folder) / "netstandard.cs"
        named.write_text(retarget.SOURCE, encoding="utf-8")
        sources = [*sorted((SOURCE / "extensions-ai").glob("*.cs")), SOURCE / "Nullable.cs", named]
        dotnet.compiled(library, sources, [context.build / "lib/Quire.dll"], "-target:library", f"-doc:{notes}",
                        f"-pathmap:{shared.ROOT}=/quire,{folder}=/quire")
        return {f"lib/net9.0/{library.name}": retarget.to_netstandard(library.read_bytes()),
                f"lib/net9.0/{notes.name}": notes.read_bytes()}


def pack(context, package, found):
    found |= {"LICENSE": shared.licence(), "README.md": package.readme.read_bytes()}
    # Every part of the package needs a type; name those whose extension has none.
    unnamed = sorted(name for name in found if not name.endswith((".dll", ".so", ".xml", ".md")))
    overrides = "".join(f'  <Override PartName="/{name}" ContentType="application/octet" />\n' for name in unnamed)
    identity = hashlib.sha256(f"{package.id}{context.version}{context.commit}".encode()).hexdigest()[:32]
    properties = f"package/services/metadata/core-properties/{identity}.psmdcp"
    described = {f"{package.id}.nuspec": NUSPEC.format(id=package.id, version=context.version, commit=context.commit,
                                                       description=package.description, dependencies=package.dependencies),
                 "[Content_Types].xml": TYPES.format(overrides=overrides),
                 "_rels/.rels": RELATIONS.format(id=package.id, properties=properties),
                 properties: PROPERTIES.format(id=package.id, version=context.version)}
    found.update((name, text.encode()) for name, text in described.items())
    archive.write_zip(context.out / f"{package.id}.{context.version}.nupkg", found, context.epoch,
                      first=("[Content_Types].xml", "_rels/.rels"))


def make(context):
    pack(context, QUIRE, contents(context))
    absent = dotnet.missing(dotnet.ROSLYN / "csc.dll", dotnet.RUNTIME / "Microsoft.Extensions.AI.Abstractions.dll")
    if absent:
        context.left_out.append(f"Quire.Extensions.AI: there is no {absent}; run ./dev artifacts")
    else:
        pack(context, extension(context), extension_contents(context))
