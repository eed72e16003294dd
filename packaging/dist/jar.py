"""The Java package: a jar with classes and native libraries, jars of its sources and its reference, and its pom, in the
layout of a Maven repository."""
import zipfile

import context as shared
import javadoc
import maven
import natives

POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 http://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.quire</groupId>
  <artifactId>quire</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>Quire</name>
  <description>In-process LLM inference engine</description>
  <url>https://quire.dev</url>
  <licenses>
    <license>
      <name>Apache-2.0</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0.txt</url>
      <distribution>repo</distribution>
    </license>
  </licenses>
  <developers>
    <developer>
      <name>The Quire authors</name>
      <organization>Quire</organization>
      <organizationUrl>https://quire.dev</organizationUrl>
    </developer>
  </developers>
  <scm>
    <connection>scm:git:https://quire.dev/quire</connection>
    <developerConnection>scm:git:https://quire.dev/quire</developerConnection>
    <url>https://quire.dev/quire</url>
    <tag>{commit}</tag>
  </scm>
</project>
"""

PLATFORM = "linux-x86_64"
# Folder that NativeLibrary.java reads.
NATIVE_FOLDER = f"dev/quire/native/{PLATFORM}"


def entries(context):
    with zipfile.ZipFile(context.build / "lib/quire.jar") as classes:
        found = {name: classes.read(name) for name in classes.namelist()
                 if not name.endswith("/") and name != "META-INF/MANIFEST.MF"}
    for name, content in (natives.libquire(context.build), natives.binding(context.build, "java")):
        found[f"{NATIVE_FOLDER}/{name}"] = content
    found["META-INF/NOTICES"] = shared.notices(context)
    return found


def sources(context):
    """Returns the sources, handwritten and generated."""
    written = shared.ROOT / "bindings/java"
    found = {"module-info.java": (written / "module-info.java").read_bytes()}
    for folder in (written / "dev", context.build / "bindings/java/generated/dev"):
        found.update((f"dev/{name}", content) for name, content in javadoc.files(folder, "*.java").items())
    return found


def make(context):
    both = {"META-INF/LICENSE": shared.licence(),
            "META-INF/MANIFEST.MF": maven.manifest(context, "Quire", f"Quire-Platform: {PLATFORM}\r\n")}
    found = sources(context)
    maven.write(context, "quire", POM.format(version=context.version, commit=context.commit),
                {"": both | entries(context), "-sources": both | found,
                 "-javadoc": both | javadoc.reference(found, f"Quire {context.version}")})
