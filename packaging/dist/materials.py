"""The bill of materials (SPDX 2.3): the files of a distribution, and the third-party parts that are linked in."""
import hashlib
import json
import subprocess

import context as shared


def _version_of(part):
    """Returns the version of a part: as the list has it, or on this machine of its Debian package or its program."""
    if "version" in part:
        return part["version"]
    command = part.get("program") or ["dpkg-query", "-W", "-f", "${Version}", part["debian"]]
    try:
        shown = subprocess.run(command, text=True, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "NOASSERTION"
    return shown.stdout.strip()


def _package(name, version, licence, home):
    return {"SPDXID": f"SPDXRef-Package-{name}", "name": name, "versionInfo": version, "downloadLocation": home,
            "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION"}


def _file(context, path):
    name = str(path.relative_to(context.out))
    content = path.read_bytes()
    return {"SPDXID": f"SPDXRef-File-{hashlib.sha256(name.encode()).hexdigest()[:16]}", "fileName": f"./{name}",
            "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                          {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}],
            "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}


def _relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def make(context):
    parts = shared.parts_within("runtime", "cli", "server")
    files = [_file(context, path) for path in sorted(context.out.rglob("*")) if path.is_file()]
    quire = _package("quire", context.version, "Apache-2.0", "https://quire.dev")
    quire["sourceInfo"] = f"built from commit {context.commit}"
    packages = [quire] + [_package(part["name"], _version_of(part), part["licence"], part["home"]) for part in parts]
    relations = [_relation("SPDXRef-DOCUMENT", "DESCRIBES", quire["SPDXID"])]
    relations += [_relation(quire["SPDXID"], "STATIC_LINK", package["SPDXID"]) for package in packages[1:]]
    relations += [_relation(quire["SPDXID"], "DISTRIBUTION_ARTIFACT", file["SPDXID"]) for file in files]
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"quire-{context.version}",
        "documentNamespace": f"https://quire.dev/spdx/quire-{context.version}-{context.commit}",
        "creationInfo": {"created": context.time,
                         "creators": ["Organization: The Quire authors", f"Tool: quire-dist-{context.version}"]},
        "packages": packages, "files": files, "relationships": relations}
    path = context.out / f"quire-{context.version}.spdx.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
