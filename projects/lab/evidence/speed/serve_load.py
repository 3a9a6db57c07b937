"""How long a query takes while 50 clients ask at once, beside the bare tower and FAISS.

    python projects/lab/evidence/speed/serve_load.py --out LOAD.json  # --demo's gallery

Each client sends its next query when it has the answer to the last one. The bare loop encodes the
same texts one after the other and searches a flat index of vectors and biases. Every answer that is
no answer is counted, and the memory of the service is looked at every second. Then the same clients
ask while one that knows the token adds, deletes, refits and undoes without a pause.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Sequence
from urllib.parse import urlsplit

import numpy as np

TOOL = Path(__file__).resolve().parents[4] / 'projects/gallery/mmvtr_gallery/commands/serve.py'
K = 12


class Row(NamedTuple):
    """A line of the table; milliseconds.

    Attributes:
        what: asked whom, and how.
        queries: that were answered.
        errors: answers that are none.
        per_second: queries.
        p50, p99: of the time of one query.
    """

    what: str
    queries: int
    errors: int
    per_second: float
    p50: float
    p99: float


def line(row: Row) -> str:
    """Of a table."""
    return (
        f'| {row.what} | {row.queries} | {row.errors} | {row.per_second:.0f} | {row.p50:.1f} '
        f'| {row.p99:.1f} |'
    )


def row_of(what: str, times: Sequence[float], errors: int, seconds: float) -> Row:
    p50, p99 = 1000 * np.percentile(times, [50, 99])
    return Row(what, len(times), errors, len(times) / seconds, float(p50), float(p99))


def bare(store: Any, model: Any, cfg: Any, texts: Sequence[str], seconds: float) -> Row:
    """The tower and a flat index, one query after the other."""
    import faiss

    from mmvtr import apis

    items = store.get([hit.item.id for hit in _all(store)])
    index = faiss.IndexFlatIP(store.dim + 1)
    index.add(np.array([[*item.vector, item.bias] for item in items], np.float32))
    encode, times = apis.TextEncoder(model, cfg), []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        start = time.perf_counter()
        vector = apis.vectors(model, encode([texts[len(times) % len(texts)]]).levels).numpy()
        index.search(np.concatenate((vector, np.ones((1, 1), np.float32)), 1), K)
        times.append(time.perf_counter() - start)
    what = 'tower and FAISS alone, one after the other'
    return row_of(what, times, 0, time.perf_counter() - began)


def _all(store: Any) -> list[Any]:
    return store.search(np.ones((1, store.dim), np.float32), store.count(), transform=False)[0]


def load(url: str, texts: Sequence[str], clients: int, seconds: float) -> Row:
    """Clients that ask at once."""
    end = time.perf_counter() + seconds
    times: list[float] = []
    errors = [0]

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        own = []
        while time.perf_counter() < end:
            body = json.dumps(dict(text=texts[(number * 37 + len(own)) % len(texts)], k=K))
            start = time.perf_counter()
            try:
                connection.request('POST', '/search', body, {'Content-Type': 'application/json'})
                answer = connection.getresponse()
                found = json.loads(answer.read())
                if answer.status != 200 or len(found['hits']) != K:
                    raise ValueError(found)
                own.append(time.perf_counter() - start)
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                errors[0] += 1
                connection.close()
        times.extend(own)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    what = f'service, {clients} client{"s" if clients > 1 else ""}'
    return row_of(what, times, errors[0], time.perf_counter() - began)


def change(url: str, token: str, texts: Sequence[str], dim: int, done: threading.Event) -> list:
    """Changes, one after the other, until ``done``: what each was and the status of its answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    head = {'Content-Type': 'application/json', 'Authorization': f'Bearer {token}'}
    said: list[tuple[str, int]] = []
    while not done.is_set():
        name, vector = f'new {len(said)}', [1.0] + [0.0] * (dim - 1)
        for route, body in (
            ('/add', dict(items=[dict(id=name, vector=vector)])),
            ('/delete', dict(ids=[name])),
            ('/undo', {}),
            ('/delete', dict(ids=[name])),
            ('/refit', dict(texts=list(texts), fewer=True)),
            ('/undo', dict(kind='refit')),
        ):
            connection.request('POST', route, json.dumps(body), head)
            answer = connection.getresponse()
            answer.read()
            said.append((route, answer.status))
    return said


def memory(process: int) -> float:
    """MiB that a process has in memory."""
    status = Path(f'/proc/{process}/status').read_text()
    return int(re.search(r'VmRSS:\s+(\d+)', status)[1]) / 1024


def thirds(seen: Sequence[float]) -> dict[str, float]:
    """The most in the first and in the last third."""
    third = max(1, len(seen) // 3)
    return dict(first_third=max(seen[:third]), last_third=max(seen[-third:]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--folder', default='data/serve_demo', help='of the gallery (default: data/serve_demo)')
    add('--clients', type=int, default=50, help='that ask at once (default: 50)')
    add('--seconds', type=float, default=60, help='that they ask (default: 60)')
    add('--out', type=Path, metavar='FILE', help='json to write')
    args = parser.parse_args()

    from mmvtr_gallery.serving.demo import make_demo
    from mmvtr_gallery.store import open_store
    from mmvtr_gallery.stored_model import load_stored_retriever

    make_demo(args.folder)
    store = open_store(args.folder)
    model, cfg = load_stored_retriever(args.folder, store)
    corpora = Path(args.folder, 'planted').glob('*/corpus.json')
    sets = [json.loads(path.read_text())['splits']['test']['texts'] for path in corpora]
    texts = [text['text'] for text in max(sets, key=len)]
    busy = [os.getloadavg()[0]]
    rows = [bare(store, model, cfg, texts, args.seconds / 6)]
    token = secrets.token_hex(16)
    secret = Path(tempfile.mkdtemp(), 'token')
    secret.write_text(token + '\n')
    command = [sys.executable, str(TOOL), args.folder, '--port', '0', '--token-file', str(secret)]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        said = next(line for line in service.stdout if ' items at http://' in line)
        url = said.split()[-1]
        rows.append(load(url, texts, 1, args.seconds / 6))
        seen: list[float] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(1):
                seen.append(memory(service.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        rows.append(load(url, texts, args.clients, args.seconds))
        quiet = len(seen)
        changed: list[tuple[str, int]] = []
        over = threading.Event()
        options = (url, token, texts[:400], store.dim, over)
        writer = threading.Thread(target=lambda: changed.extend(change(*options)))
        writer.start()
        row = load(url, texts, args.clients, args.seconds)
        over.set()
        writer.join()
        rows.append(row._replace(what=f'{row.what}, while the gallery changes'))
        done.set()
        watching.join()
        connection = http.client.HTTPConnection(urlsplit(url).netloc)
        connection.request('GET', '/health')
        health = json.loads(connection.getresponse().read())
    finally:
        service.terminate()
        service.wait()
    busy.append(os.getloadavg()[0])
    memories = [thirds(seen[:quiet]), thirds(seen[quiet:])]
    result = dict(
        rows=[row._asdict() for row in rows],
        items=health['items'],
        changes=len(changed),
        refused_changes=sum(status != 200 for _, status in changed),
        load_average=busy,
        texts_a_batch=health['texts'] / health['batches'],
        largest_batch=health['largest_batch'],
        memory_mib=memories[0],
        memory_mib_changing=memories[1],
    )
    for row in rows:
        print(line(row))
    print(json.dumps({name: value for name, value in result.items() if name != 'rows'}))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + '\n')


if __name__ == '__main__':
    main()
