"""A served store of vectors under load: clients search while one adds, deletes and refits.

    python projects/lab/evidence/speed/serve_vectors.py [--items 20000] [--seconds 120]

The vectors are random, with a few hubs, of 384 entries.  `mmvtr serve` runs in a process of its
own.  Each client sends a vector, and each tenth time eight of them, as soon as it has the last
answer; an answer without ten hits counts as an error.  The writer adds ten items and deletes five
without a pause, and refits to 500 vectors three times.  At the end the service is stopped, and the
store must hold exactly the items that were confirmed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from mmvtr_gallery.store import create_store, open_store

WIDTH, K = 384, 10


class Client:
    """Sends JSON over one connection."""

    def __init__(self, url: str, token: str = '') -> None:
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
        self.headers = {'Content-Type': 'application/json', 'Authorization': f'Bearer {token}'}

    def __call__(self, path: str, **body: Any) -> Any:
        self.connection.request('POST', path, json.dumps(body), self.headers)
        answer = self.connection.getresponse()
        said = json.loads(answer.read())
        if answer.status != 200:
            raise ValueError(f'{path}: {answer.status} {said}')
        return said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--items', type=int, default=20000)
    add('--clients', type=int, default=8)
    add('--seconds', type=float, default=120)
    args = parser.parse_args()
    random = np.random.default_rng(0)
    vectors = random.standard_normal((args.items, WIDTH), dtype=np.float32)
    vectors[::100] += 0.3
    bank = (random.standard_normal((500, WIDTH), dtype=np.float32) + 0.1).round(3)
    with tempfile.TemporaryDirectory() as folder:
        place, secret = Path(folder, 'store'), Path(folder, 'token')
        with create_store(place, WIDTH) as store:
            store.add([f'item{i}' for i in range(args.items)], vectors)
            store.refit(bank, transform='sinkhorn', fewer=True)
            store.persist()
        token = secrets.token_hex(16)
        secret.write_text(token + '\n')
        call = [sys.executable, '-m', 'mmvtr', 'serve', str(place), '--port', '0']
        service = subprocess.Popen(
            [*call, '--token-file', str(secret)], stdout=subprocess.PIPE, text=True
        )
        try:
            url = next(line for line in service.stdout if ' items at http' in line).split()[-1]
            found = loaded(url, token, args, bank)
        finally:
            service.terminate()
            service.wait()
        there = {f'item{i}' for i in range(args.items)} | found.pop('kept')
        with open_store(place) as store:
            held = set(store.table(['id'])[1]['id'])
        found.update(lost=len(there - held), more=len(held - there))
    print(json.dumps(found, indent=1))


def loaded(url: str, token: str, args: argparse.Namespace, bank: np.ndarray) -> dict[str, Any]:
    """Return times, counts and errors, and the ids that were added and not deleted."""
    end = time.perf_counter() + args.seconds
    times: dict[str, list[float]] = {'one': [], 'eight': [], 'add': [], 'delete': [], 'refit': []}
    errors: list[str] = []
    kept: set[str] = set()

    def timed(name: str, client: Client, path: str, **body: Any) -> Any:
        began = time.perf_counter()
        said = client(path, **body)
        times[name].append(time.perf_counter() - began)
        return said

    def ask(number: int) -> None:
        client, random = Client(url), np.random.default_rng(number)
        while time.perf_counter() < end:
            several = random.integers(10) == 0
            given = (random.standard_normal((8 if several else 1, WIDTH)) + 0.1).round(3).tolist()
            try:
                if several:
                    said = timed('eight', client, '/search/vectors', vectors=given, k=K)
                else:
                    said = [timed('one', client, '/search', vector=given[0], k=K)]
                if any(len(one['hits']) != K for one in said):
                    raise ValueError(said)
            except (OSError, ValueError, http.client.HTTPException) as error:
                errors.append(str(error)[:300])
                client = Client(url)

    def write() -> None:
        client, random, turn, refits = Client(url, token), np.random.default_rng(99), 0, 0
        began = time.perf_counter()
        while time.perf_counter() < end:
            rows = random.standard_normal((10, WIDTH)).round(3).tolist()
            names = [f'new{turn}_{i}' for i in range(10)]
            try:
                items = [dict(id=name, vector=row) for name, row in zip(names, rows)]
                timed('add', client, '/add', items=items)
                kept.update(names)
                timed('delete', client, '/delete', ids=names[:5])
                kept.difference_update(names[:5])
                if time.perf_counter() - began > (refits + 1) * args.seconds / 4:
                    refits += 1
                    timed('refit', client, '/refit', vectors=bank.tolist(), fewer=True)
            except (OSError, ValueError, http.client.HTTPException) as error:
                errors.append(str(error)[:300])
                client = Client(url, token)
            turn += 1

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(args.clients)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = {
        name: dict(
            count=len(x),
            **{f'p{p}_ms': round(1000 * float(np.percentile(x, p)), 1) for p in (50, 99)},
        )
        for name, x in times.items()
        if x
    }
    return dict(said, errors=len(errors), first_errors=errors[:3], kept=kept)


if __name__ == '__main__':
    main()
