"""A root folder with only the programs that a package manager needs, copied without network from the packages of this
machine: no compiler, no Python, no header. Needs chroot, as root or in a user namespace."""
import os
import shutil
import subprocess

from shell import environment, require, run, skip

DPKG = "/var/lib/dpkg"
# dpkg and the programs that it calls; libquire needs only libstdc++ in addition.
NEEDED = ("dpkg", "dash", "coreutils", "libc-bin", "diffutils", "tar", "sed", "grep", "debianutils", "libstdc++6")
LEFT_OUT = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/", "/usr/lib/locale/")
# Files that a package manager writes about itself for every installation.
BOOKS = ("var/lib/dpkg", "var/lib/rpm", "var/log", "var/cache/ldconfig", "etc/ld.so.cache", "packages")


def _stanzas():
    """Returns the packages of this machine by name, each with its fields."""
    found = {}
    with open(f"{DPKG}/status", encoding="utf-8") as status:
        for text in status.read().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line and line[0] != " ")
            if fields.get("Status", "").endswith(" installed"):
                found[fields["Package"]] = (fields, text)
    return found


def _closure(names):
    """Returns these packages and all their dependencies, with the entry of each in dpkg's database."""
    stanzas, found, waiting = _stanzas(), {}, list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name not in stanzas:
            continue  # an alternative that this machine does not have
        fields, text = stanzas[name]
        found[name] = (fields, text)
        needs = fields.get("Pre-Depends", "") + "," + fields.get("Depends", "")
        waiting += [part.split("(")[0].split(":")[0].strip() for part in needs.replace("|", ",").split(",") if part.strip()]
    return found


def _information(name, fields):
    """Returns the common beginning of the names of the files that dpkg keeps for a package."""
    for stem in (name, f"{name}:{fields['Architecture']}"):
        if os.path.exists(f"{DPKG}/info/{stem}.list"):
            return stem
    return None


class Root:
    """A folder with a bare system, in which commands run."""

    def __init__(self, folder):
        self.folder = folder
        self._packages = _closure(NEEDED)
        for name in ("bin", "sbin", "lib", "lib64", "lib32", "libx32"):
            (folder / "usr" / name).mkdir(parents=True)
            (folder / name).symlink_to(f"usr/{name}")
        for name in ("dev", "etc", "tmp", "packages", "var/log", f"{DPKG[1:]}/info", f"{DPKG[1:]}/updates"):
            (folder / name).mkdir(parents=True)
        (folder / "dev/null").touch()
        self._copy_files()
        self._chroot = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
        tried = subprocess.run([*self._chroot, folder, "/bin/true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            skip(f"chroot does not work here: {tried.stderr.strip()}")
        for tool in ("cc", "gcc", "python3", "pkg-config", "cmake"):
            require(not (folder / "usr/bin" / tool).exists(), f"the bare root has {tool}")

    def _copy_files(self):
        wanted = []
        for name, (fields, _) in self._packages.items():
            stem = _information(name, fields)
            if stem is None:
                continue
            with open(f"{DPKG}/info/{stem}.list", encoding="utf-8") as listed:
                wanted += [path for path in listed.read().splitlines()
                           if os.path.lexists(path) and not path.startswith(LEFT_OUT)
                           and (os.path.islink(path) or not os.path.isdir(path))]
        top = ("/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
        wanted = [path[1:] for path in wanted if path not in top]
        packed = subprocess.Popen(["tar", "-c", "-C", "/", "--null", "--verbatim-files-from", "-T", "-"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        unpacked = subprocess.Popen(["tar", "-C", str(self.folder), "-x", "--no-same-owner", "--keep-directory-symlink"],
                                    stdin=packed.stdout)
        packed.stdin.write("\0".join(wanted).encode())
        packed.stdin.close()
        require(packed.wait() == 0 and unpacked.wait() == 0, "the bare root could not be filled")

    def command(self, *command):
        """Returns a command line that runs in the root."""
        # The command finds its model through /proc, which the root does not have.
        model = "QUIRE_MODEL=/usr/share/quire/models/story-15m-exl2-4.0bpw"
        return [*self._chroot, self.folder, "/usr/bin/env", model, *command]

    def run(self, *command):
        return run(*self.command(*command), env=environment(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C",
                                                            DEBIAN_FRONTEND="noninteractive"))

    def bring(self, packages):
        for path in packages:
            shutil.copy(path, self.folder / "packages")
        return [f"/packages/{path.name}" for path in packages]

    def snapshot(self):
        """Returns every file and folder of the root, with its kind, size and time."""
        found = {}
        for folder, folders, files in os.walk(self.folder):
            for name in folders + files:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.folder)
                if relative.startswith(BOOKS):
                    continue
                status = os.lstat(path)
                is_folder = os.path.isdir(path) and not os.path.islink(path)
                found[relative] = ("folder",) if is_folder else (status.st_size, status.st_mtime_ns)
        return found


class DebianRoot(Root):
    def __init__(self, folder):
        super().__init__(folder)
        texts = []
        for name, (fields, text) in self._packages.items():
            stem = _information(name, fields)
            texts.append(text)
            for kind in ("list", "md5sums", "triggers", "shlibs", "symbols"):
                source = f"{DPKG}/info/{stem}.{kind}"
                if os.path.exists(source):
                    shutil.copy(source, folder / f"{DPKG[1:]}/info")
        (folder / f"{DPKG[1:]}/status").write_text("\n\n".join(texts) + "\n\n", encoding="utf-8")
        (folder / f"{DPKG[1:]}/available").touch()
        self.run("ldconfig")

    def install(self, packages):
        """Installs with dpkg, which refuses a package with missing dependencies. Returns the names."""
        self.run("dpkg", "-i", *self.bring(packages))
        self.run("ldconfig")
        return [run("dpkg-deb", "-f", path, "Package").strip() for path in packages]

    def remove(self, names):
        self.run("dpkg", "--purge", *names)
        self.run("ldconfig")


BASE = """Name: base
Version: 1
Release: 1
Summary: The libraries of the root
License: none
AutoReq: no
Provides: rtld(GNU_HASH)
Provides: /usr/bin/pkg-config
%define __os_install_post %{{nil}}
%description
What the root has.
%install
for file in {files}; do install -D "$file" "%{{buildroot}}$file"; done
%files
/*
"""


class RpmRoot(Root):
    """A root whose rpm database has one package, which provides the libraries."""

    def __init__(self, folder):
        super().__init__(folder)
        for name in ("include", "share/doc", "share/man/man1", "share/man/man3", "lib/systemd/system",
                     "share/bash-completion/completions", "share/zsh/site-functions", "share/fish/vendor_completions.d"):  # owned by the system's own package
            (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        (folder / "etc/ld.so.conf").write_text("/usr/lib64\n/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n",
                                               encoding="utf-8")
        work = folder / "packages"
        libraries = []
        for name in ("libc6", "libgcc-s1", "libstdc++6"):
            with open(f"{DPKG}/info/{_information(name, self._packages[name][0])}.list", encoding="utf-8") as listed:
                libraries += [path for path in listed.read().splitlines()
                              if ".so." in path and "/gconv" not in path and os.path.isfile(path)]
        (work / "base.spec").write_text(BASE.format(files=" ".join(libraries)), encoding="utf-8")
        run("rpmbuild", "-bb", "--define", f"_topdir {work}", work / "base.spec")
        self._rpm("--install", "--justdb", next((work / "RPMS").rglob("base-*.rpm")))
        self.run("ldconfig")

    def _rpm(self, *arguments):
        return run("rpm", "--root", self.folder, "--dbpath", "/var/lib/rpm", *arguments)

    def install(self, packages):
        """Installs with rpm, which refuses a package with missing dependencies. Returns the names."""
        self._rpm("--install", *packages)
        self.run("ldconfig")  # as the system's libc package does after each installation
        return [run("rpm", "--query", "--queryformat", "%{NAME}", "--package", path).strip() for path in packages]

    def remove(self, names):
        self._rpm("--erase", *names)
        self.run("ldconfig")


def require_same(before, after):
    left = sorted(set(after) - set(before))
    gone = sorted(set(before) - set(after))
    changed = sorted(name for name in set(before) & set(after) if before[name] != after[name])
    require(not left and not gone and not changed, f"left: {left}, gone: {gone}, changed: {changed}")
