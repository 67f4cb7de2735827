"""Values of any kind as typed columns of bytes, and back."""

from __future__ import annotations

from fleetmetrics.records.serializer.layout import Packed
from fleetmetrics.records.serializer.packer import pack, pack_chunks
from fleetmetrics.records.serializer.reader import unpack, unpack_array

__all__ = ["Packed", "pack", "pack_chunks", "unpack", "unpack_array"]
