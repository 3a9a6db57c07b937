"""Serve a gallery: a page, and search, thumbnails, videos and changes over HTTP.

    mmvtr serve DIR                       # of mmvtr export_index; then open the page
    mmvtr serve DIR --text-model sentence-transformers:NAME     # a store of your own vectors
    mmvtr serve --demo                    # a planted gallery, made in two minutes
    mmvtr serve DIR --token-file FILE --library VIDEOS     # may be changed, too

Only requests from this machine are answered unless --host says otherwise; then everybody who
reaches the server may search and see the listed videos. Changes (add, delete, refit, undo) need the
token.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import time
import webbrowser
from pathlib import Path
from typing import Any, Optional

from mmvtr.cli.start import tool

from mmvtr.cli import Parser
from mmvtr_gallery.commands import TEXT_MODEL

LOOPBACK = ('localhost', '127.0.0.1', '::1')


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('store', nargs='?', metavar='DIR', help='folder of the gallery, or its URL')
    add('--demo', action='store_true', help='make a planted gallery, serve it and open the page')
    add('--host', default='127.0.0.1', help='address to answer at (default: 127.0.0.1)')
    add('--port', type=int, default=8000, help='port, 0 for any that is free (default: 8000)')
    add(
        '--name',
        nargs='+',
        default=[],
        metavar='HOST',
        help='further host names of this service in browsers',
    )
    add(
        '--token-file',
        metavar='FILE',
        help='its first line, a token, lets a client change the gallery',
    )
    add(
        '--library',
        metavar='DIR',
        help='folder whose videos may be added, and where videos that are sent are kept',
    )
    add(
        '--links',
        nargs='+',
        default=[],
        metavar='DIR',
        help='folders that links among the listed videos may lead into (default: none)',
    )
    add(
        '--upload-pixels',
        type=int,
        default=2_000_000_000,
        metavar='N',
        help='most width x height x frames of a video to search with (default: 2000000000)',
    )
    add(
        '--connections',
        type=int,
        metavar='N',
        help='connections at a time (default: 512, or what the limit on open files allows)',
    )
    add('--metrics', action='store_true', help='figures for Prometheus at /metrics, for everybody')
    add('--access-log', metavar='FILE', help='a line of JSON for each request, without its content')
    add('--config', metavar='FILE', help='config; default: config.json in the folder')
    add('--checkpoint', metavar='FILE', help='checkpoint, if it has moved since the export')
    add('--text-model', metavar='KIND:NAME', help=TEXT_MODEL)
    args = parser.parse_args()
    if (args.store is None) != args.demo:
        parser.error('give either DIR or --demo')
    if args.demo and (args.config or args.checkpoint or args.text_model):
        parser.error('--demo has its own model: leave --config, --checkpoint and --text-model out')
    if not 0 <= args.port < 65536:
        parser.error(f'--port must be 0 to 65535, not {args.port}')
    for name in ('upload_pixels', 'connections'):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f'--{name.replace("_", "-")} must be 1 or more, not {value}')
    return args


@tool
def main() -> None:
    serve(parse_args())


def serve(args: argparse.Namespace) -> None:
    """Open the gallery, and answer requests until a signal."""
    if importlib.util.find_spec('uvicorn') is None:
        raise ImportError("the service needs uvicorn: pip install -e 'projects/gallery[serve]'")
    token = read_token(args.token_file)
    listener = listen(args.host, args.port)  # first, as everything else is in vain if it fails
    observed = observing(args.access_log, args.metrics)
    import uvicorn

    from mmvtr_gallery.serving.app import create_app
    from mmvtr_gallery.serving.connections import Connections, config_of
    from mmvtr_gallery.serving.gallery import Gallery, try_to_take
    from mmvtr_gallery.serving.uploads import Uploads

    if args.demo:
        from mmvtr_gallery.serving.demo import make_demo

        args.store, began = Path('data/serve_demo'), time.monotonic()
        make_demo(args.store)
        busy = sum(os.times()[:4])  # including the rendering processes
        print(f'{time.monotonic() - began:.0f} s, {busy:.0f} s of processor time', flush=True)
    gallery = Gallery.open(
        args.store,
        library=args.library,
        links=args.links,
        config=args.config,
        checkpoint=args.checkpoint,
        text_model=args.text_model,
    )
    if token is not None:
        reason = try_to_take(gallery)
        if reason:
            print(f'warning: reading only for now: {reason}', flush=True)
        for note in gallery.notes():
            print(f'note: {note}', flush=True)
    hosts = {*LOOPBACK, args.host, *args.name}
    uploads = Uploads(pixels=args.upload_pixels)
    app = create_app(gallery, token=token, hosts=hosts, uploads=uploads, observed=observed)
    config = config_of(app, Connections(args.connections))
    url = (
        f'http://{f"[{args.host}]" if ":" in args.host else args.host}:{listener.getsockname()[1]}'
    )
    print(f'{args.store}: {gallery.store.count()} items at {url}', flush=True)
    if args.demo:
        webbrowser.open(url)
    uvicorn.Server(config).run(sockets=[listener])


def observing(log: Optional[str], metrics: bool) -> Any:
    """Return the object that observes all requests; None if neither log nor metrics are asked for.

    Raises:
        OSError: the log cannot be written.
    """
    if log is None and not metrics:
        return None
    from mmvtr_gallery.serving.observing import Observed

    return Observed(log, told=metrics)


def read_token(path: Optional[str]) -> Optional[str]:
    """Return the token in the first line of a file; None without a file.

    Raises:
        OSError: there is no such file.
        ValueError: a token short enough to be guessed, or not ASCII.
    """
    if path is None:
        return None
    token = Path(path).read_text(encoding='utf-8').partition('\n')[0].strip()
    if len(token) < 16 or not token.isascii():
        raise ValueError(f'{path}: a token has at least 16 ASCII characters in the first line')
    return token


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        OSError: the address is taken, or is not this machine's.
    """
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    # Name the protocol: only then does asyncio disable Nagle's algorithm (TCP_NODELAY).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
        return listener
    except OSError as error:
        raise OSError(f'cannot answer at {host}:{port}: {error.strerror}') from error


if __name__ == '__main__':
    main()
