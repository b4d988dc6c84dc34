"""Writing of files to an image store."""


def write_files(images, files):
    """Write files, name -> content; return name -> the name for reading."""
    with images.writing("some") as writing:
        for name, content in files.items():
            path = writing.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return {name: writing.names.get(name, name) for name in files}
