"""Reproducible zip files: sorted entries with one time and one mode."""
import time
import zipfile


def write_zip(path, entries, epoch, first=()):
    """Writes `entries`, which maps names to bytes; the names in `first` come before the others."""
    # Zip files cannot store times before 1980.
    stamp = time.gmtime(max(epoch, 315532800))[:6]
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in [*first, *sorted(set(entries) - set(first))]:
            information = zipfile.ZipInfo(name, stamp)
            information.compress_type = zipfile.ZIP_DEFLATED
            information.create_system = 3
            information.external_attr = 0o100644 << 16
            archive.writestr(information, entries[name])
