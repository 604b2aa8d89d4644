"""TensorBoard's file system fitted to what the record readers need, for remote log dirs."""

from lightning_gpuprof.records.files import LOCAL, FileSystem


class GFiles:
    """`FileSystem` over `tensorboard.compat.tf.io.gfile`: whatever TensorBoard can read."""

    def __init__(self) -> None:
        # Imported here: with TensorFlow installed this import takes seconds.
        from tensorboard.compat import tf

        self._gfile = tf.io.gfile

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return bool(self._gfile.exists(path))

    def listdir(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; an empty list where there is none."""
        if not self._gfile.isdir(path):
            return []
        return sorted(name.rstrip("/") for name in self._gfile.listdir(path))

    def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        with self._gfile.GFile(path, "rb") as file:
            return bytes(file.read())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`; TensorBoard's stand-in cannot seek."""
        return self.read_bytes(path)[start : start + length]

    def size(self, path: str) -> int:
        """Return a file's length in bytes."""
        return int(self._gfile.stat(path).length)


def file_system_for(path: str) -> FileSystem:
    """Return the local file system, or TensorBoard's for a path with a scheme.

    >>> file_system_for("/tmp/logs") is LOCAL
    True
    """
    return GFiles() if "://" in path else LOCAL
