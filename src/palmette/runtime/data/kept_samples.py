"""Samples of other nodes that a node keeps: in a file per owner, which outlives the worker.

A record is a header and the sample; its checksum covers both. What was cut off or damaged is found when the file is
opened, and is not trusted: the sample is sent again. Only the user who runs the worker may read the files. The system
keeps in memory what there is room for.

    number (8 bytes) │ length (4) │ checksum (4) │ sample │ number …
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palmette.errors import RunError
from palmette.runtime.data.batches import Indices
from palmette.spec.units import SIZE

_HEADER = struct.Struct("<qII")
_LISTED = np.dtype([("number", "<i8"), ("checksum", "<u4")])


class _Place(NamedTuple):
    """Where in the file a sample begins, its length, and its checksum."""

    begin: int
    length: int
    checksum: int


class StorageQuota:
    """How much a node may still keep of other nodes' samples; None for as much as its disk holds."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self.most_bytes, self._taken, self._lock = most_bytes, 0, threading.Lock()

    def give_back(self, size_bytes: int) -> None:
        """Give some of it back."""
        with self._lock:
            self._taken -= size_bytes

    def take(self, size_bytes: int) -> None:
        """Take some of it.

        Raises:
            RunError: there is not so much.
        """
        with self._lock:
            if self.most_bytes is not None and self._taken + size_bytes > self.most_bytes:
                allowed = f"expected at most {SIZE.show(self.most_bytes)}, its storage"
                raise RunError(f"there is no room for more samples of other nodes; {allowed}")
            self._taken += size_bytes


class KeptSamples:
    """The samples of one owner that this node keeps, by their numbers in the owner's data.

    Raises:
        RunError: the file cannot be opened or written, or there is no room for it.
    """

    def __init__(self, path: Path, quota: StorageQuota | None = None) -> None:
        self._path, self._places, self._quota = path, dict[int, _Place](), quota or StorageQuota()
        self._lock = threading.Lock()
        try:
            _make_private(path.parent)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.fchmod(self._file, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end = self._read_all()
            self._close_gaps()
        except BlockingIOError:
            raise RunError(f"{path}: another run keeps samples there; expected a folder for each") from None
        except OSError as error:
            raise _unusable(path, error) from None
        self._quota.take(self._end)

    def _read_all(self) -> int:
        """Note the records that can be trusted; returns where the next one goes."""
        at, size = 0, os.fstat(self._file).st_size
        while at + _HEADER.size <= size:
            number, length, expected = _HEADER.unpack(os.pread(self._file, _HEADER.size, at))
            begin = at + _HEADER.size
            if number < 0 or begin + length > size:
                break  # a damaged header, or a record that was not finished
            if checksum(number, os.pread(self._file, length, begin)) == expected:
                self._places[number] = _Place(begin, length, expected)
            at = begin + length
        os.ftruncate(self._file, at)
        return at

    def _close_gaps(self) -> None:
        """Move records together where others between them are not trusted, so that they take no room."""
        at = 0
        for number, place in sorted(self._places.items(), key=lambda each: each[1].begin):
            begin, size = at + _HEADER.size, _HEADER.size + place.length
            if place.begin != begin:
                os.pwrite(self._file, os.pread(self._file, size, place.begin - _HEADER.size), at)
                self._places[number] = place._replace(begin=begin)
            at += size
        os.ftruncate(self._file, at)
        self._end = at

    def keep_only(self, numbers: Iterable[int]) -> None:
        """Remove all other samples: their owner has others under these numbers now."""
        trusted, before = set(numbers), self._end
        with self._lock:
            self._places = {number: place for number, place in self._places.items() if number in trusted}
            try:
                self._close_gaps()
            except OSError as error:
                raise _unusable(self._path, error) from None
        self._quota.give_back(before - self._end)

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def add(self, number: int, sample: bytes) -> None:
        """Keep a sample; replaces what was kept under its number."""
        expected = checksum(number, sample)
        with self._lock:
            known = self._places.get(number)
            if known is not None and (known.checksum, known.length) == (expected, len(sample)):
                return
            self._quota.take(_HEADER.size + len(sample))
            try:
                os.pwrite(self._file, _HEADER.pack(number, len(sample), expected) + sample, self._end)
            except OSError as error:
                raise _unusable(self._path, error) from None
            begin = self._end + _HEADER.size
            self._places[number], self._end = _Place(begin, len(sample), expected), begin + len(sample)

    def get(self, number: int) -> bytes:
        """A sample that is kept.

        Raises:
            RunError: it was changed since it was written.
        """
        place = self._places[number]
        sample = os.pread(self._file, place.length, place.begin)
        if checksum(number, sample) != place.checksum:
            raise RunError(f"{self._path}: sample {number} was changed while it was kept; resume to have it sent again")
        return sample

    def close(self) -> None:
        """Close the file, so that another worker may use it."""
        os.close(self._file)

    def listed(self) -> bytes:
        """The numbers and checksums of all samples, to be compared by their owner."""
        rows = [(number, place.checksum) for number, place in self._places.items()]
        return np.array(rows, dtype=_LISTED).tobytes()


class SampleStore:
    """All that a node keeps of other nodes' samples, at most ``most_bytes``: a file per owner in its own folder."""

    def __init__(self, folder: Path, most_bytes: int | None = None) -> None:
        self.folder, self._kept, self._quota = folder, dict[str, KeptSamples](), StorageQuota(most_bytes)
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[SampleStore], tuple[Path, int | None]]:
        return type(self), (self.folder, self.most_bytes)  # opened where the worker runs

    @property
    def most_bytes(self) -> int | None:
        """What it may take at most; None for as much as the disk holds."""
        return self._quota.most_bytes

    def of(self, owner: str) -> KeptSamples:
        """The samples of an owner."""
        with self._lock:
            if owner not in self._kept:
                self._kept[owner] = KeptSamples(self.folder / file_name(owner), self._quota)
            return self._kept[owner]

    def listed(self, owners: Iterable[str]) -> dict[str, bytes]:
        """The samples of owners, of those that have any here."""
        found = {owner: self.of(owner).listed() for owner in owners}
        return {owner: rows for owner, rows in found.items() if rows}

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for kept in self._kept.values():
                kept.close()
            self._kept.clear()
            self._quota = StorageQuota(self.most_bytes)


def checksum(number: int, sample: bytes) -> int:
    """The checksum of a sample under its number."""
    return zlib.crc32(sample, zlib.crc32(number.to_bytes(8, "little", signed=True)))


def read_list(listed: bytes) -> Mapping[int, int]:
    """Checksums by number, as ``KeptSamples.listed`` has written them."""
    rows: NDArray[np.void] = np.frombuffer(listed, dtype=_LISTED)
    return dict(zip(rows["number"].tolist(), rows["checksum"].tolist(), strict=True))


def to_numbers(packed: bytes) -> Indices:
    """Numbers of samples, as ``from_numbers`` has packed them."""
    return np.frombuffer(packed, dtype=np.int64)


def from_numbers(numbers: Iterable[int]) -> bytes:
    """Numbers of samples as bytes."""
    return np.fromiter(numbers, dtype=np.int64).tobytes()


def file_name(name: str) -> str:
    """A name for a file or folder from a node's, which may have any characters."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40]
    return f"{plain}-{zlib.crc32(name.encode()):08x}"


def is_file_name(name: str) -> bool:
    """Whether a name may be one that ``file_name`` has made."""
    return re.fullmatch(r"[A-Za-z0-9_-]{0,40}-[0-9a-f]{8}", name) is not None


def _make_private(folder: Path) -> None:
    """Make a folder that only this user can read; one that somebody else has made is not used.

    Raises:
        PermissionError: it belongs to another user.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user, or is a link")
    folder.chmod(0o700)


def _unusable(path: Path, error: OSError) -> RunError:
    return RunError(f"{path}: samples cannot be kept there: {error.strerror}")
