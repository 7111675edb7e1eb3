"""Damage to the files of a step."""


def data_files(store, step):
    """The files of the flow's arrays that a reader needs, largest first."""
    files = [p for p in (store.folder / str(step) / "flow" / "d").iterdir() if p.is_file()]
    files += [p for p in (store.folder / str(step) / "flow").rglob("d/*") if p.is_file()]
    return sorted(set(files), key=lambda path: (-path.stat().st_size, path.name))


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)
