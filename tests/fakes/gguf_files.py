"""GGUF files of no size, written by the reference writer: whole headers, and tensors that are described only."""

from pathlib import Path

import gguf
import numpy as np

Q4_K = gguf.GGMLQuantizationType.Q4_K
F32 = gguf.GGMLQuantizationType.F32


class GgufFile:
    """One header in the making; `bytes` writes it."""

    def __init__(self, path: Path, architecture: str, **numbers: object) -> None:
        """Begin a header; `numbers` are keys of the architecture, with __ for a dot."""
        self._path = path
        self._architecture = architecture
        self.writer = gguf.GGUFWriter(path, architecture)
        for key, value in numbers.items():
            self.add(f"{architecture}.{key.replace('__', '.')}", value)

    def add(self, key: str, value: object) -> "GgufFile":
        kinds = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
        getattr(self.writer, f"add_{kinds[type(value)]}")(key, value)
        return self

    def vocabulary(self, tokens: int, merges: int = 0) -> "GgufFile":
        self.writer.add_token_list([f"token{number}" for number in range(tokens)])
        self.writer.add_token_scores([0.0] * tokens)
        if merges:
            self.writer.add_token_merges([f"a{number} b" for number in range(merges)])
        return self

    def tensor(self, name: str, rows: int, width: int, kind: gguf.GGMLQuantizationType = Q4_K) -> "GgufFile":
        block, size = gguf.GGML_QUANT_SIZES[kind]
        shape = (rows, width // block * size) if kind is not F32 else (rows, width)
        data = np.dtype(np.float32 if kind is F32 else np.uint8)
        raw = None if kind is F32 else kind
        self.writer.add_tensor_info(name, shape, data, rows * (width // block) * size, raw_dtype=raw)
        return self

    def bytes(self) -> bytes:
        """Write the header and read it back; of the tensors' data there is none."""
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_ti_data_to_file()
        self.writer.close()
        return self._path.read_bytes()
