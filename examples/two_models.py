"""Write the scores of two models for the same 60,000 rows: Parquet files in the folders new and old.

    python examples/two_models.py    # needs pyarrow

The new model is better, except in the slot "video".
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    """Write the folders into the current one."""
    random = np.random.default_rng(7)
    rows = 60_000
    slot = random.choice(["feed", "news", "search", "shop", "video"], rows, p=[0.4, 0.2, 0.2, 0.12, 0.08])
    odds = random.normal(-3, 1.2, rows)
    label = random.random(rows) < 1 / (1 + np.exp(-odds))
    noise = {"new": np.where(slot == "video", 1.5, 0.3), "old": np.full(rows, 0.7)}
    for name, spread in noise.items():
        score = 1 / (1 + np.exp(-(odds + random.normal(0, 1, rows) * spread - spread**2 / 2)))
        columns = {"id": np.arange(rows), "y": label.astype(int), "p": score.round(6), "slot": slot}
        Path(name).mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), f"{name}/part.parquet")
    print(f"{rows:,} rows in each of new/ and old/")


if __name__ == "__main__":
    main()
