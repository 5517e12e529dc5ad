"""Runs a list of settings on several processes, and keeps a row of each as it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from . import grid, results
from .progress import Progress
from .setting import Setting


def run_all(given: Sequence[Setting], out: Path, processes: int, device: str, text: str | None) -> int:
    """Runs what has no row in `out` yet. Returns how many runs failed.

    Under torchrun each rank takes every so-manieth setting, and appends its own rows.
    """
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    done = results.keys(out)
    unique = list({one.key: one for one in given}.values())
    left = [one for one in unique if one.key not in done][rank::ranks]
    if len(left) < len(unique) and ranks == 1:
        print(f"lab: {len(unique) - len(left)} of {len(unique)} runs have their rows in {out}", file=sys.stderr)
    if not left:
        return 0
    progress, failed = Progress(len(left)), 0
    for setting, row, error in _rows(left, out.parent / "models", 1 if ranks > 1 else processes, device, text):
        if row is None:
            failed += 1
            progress.say(f"lab: {said(setting)} failed: {error}")
        else:
            results.append(out, row)
        progress.advance(said(setting))
    return failed


def said(setting: Setting) -> str:
    """A setting in a few words."""
    more = "" if setting.method == "none" else f" {setting.method} ×{setting.factor:g}"
    return f"{setting.task} {setting.encoding}{more} seed {setting.seed}"


def _rows(
    left: Sequence[Setting], folder: Path, processes: int, device: str, text: str | None
) -> Iterator[tuple[Setting, dict[str, Any] | None, str]]:
    """Each setting with its row, or with why there is none, as runs end."""
    if processes == 1:
        prepare(text)
        for one in left:
            yield one, *_run(one, folder, device)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(left)), context, _worker, (text,)) as pool:
        try:
            futures = {pool.submit(_run, one, folder, device): one for one in left}
            for future in as_completed(futures):
                row, error = future.result()
                yield futures[future], row, error
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _worker(text: str | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that hands out the runs
    prepare(text)


def prepare(text: str | None, threads: int = 1) -> None:
    """Before a process's first run. A run has one thread: models are small, so two runs beside each other are done sooner
    than one after the other on two threads, and sums do not depend on the number of cores."""
    import torch

    from .tasks import use_text

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    if text is not None:
        use_text(Path(text))


def _run(setting: Setting, folder: Path, device: str) -> tuple[dict[str, Any] | None, str]:
    try:
        return grid.run(setting, folder, device), ""
    except Exception as error:  # one run must not end the others
        return None, f"{type(error).__name__}: {error}"
