"""The pictures of a gallery's page: ``serve.png``, ``serve_dark.png`` and ``serve_390.png``.

    mmvtr serve --demo &
    pip install selenium && python docs/images/serve.py http://127.0.0.1:8000

A chromium and its chromedriver are needed.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

#: Name -> width, height, colours, and what the address asks for.
PICTURES = dict(
    serve=(1280, 900, 'light', '?q=a+red+thing'),
    serve_dark=(1280, 900, 'dark', '?page=1&sort=found&descending=1'),
    serve_390=(390, 844, 'light', '?q=a+red+thing'),
)
LARGEST = 180_000  # bytes
READY = """
    const near = (x) => x.getBoundingClientRect().top < innerHeight;
    return document.querySelectorAll('.hit').length > 0 && !document.querySelector('.busy')
        && [...document.images].filter(near).every((x) => x.complete && x.naturalWidth > 0)
"""


def browser(folder: str) -> webdriver.Chrome:
    """A headless chromium."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium') or ''
    for flag in ('headless', 'no-sandbox', 'disable-gpu', f'user-data-dir={folder}'):
        options.add_argument(f'--{flag}')
    return webdriver.Chrome(options=options, service=Service(shutil.which('chromedriver')))


def shoot(window: webdriver.Chrome, url: str, name: str) -> bytes:
    """Return a picture of the page as PNG of 256 colours."""
    width, height, colours, query = PICTURES[name]
    size = dict(width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
    scheme = dict(name='prefers-color-scheme', value=colours)
    window.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', size)
    window.execute_cdp_cmd('Emulation.setEmulatedMedia', dict(features=[scheme]))
    window.get(url + query)
    end = time.monotonic() + 60
    while not window.execute_script(READY):
        if time.monotonic() > end:
            raise TimeoutError(f'{url}{query} shows no hits after 60 seconds')
        time.sleep(0.2)
    time.sleep(3)  # moments of the hits, and movements
    with Image.open(io.BytesIO(window.get_screenshot_as_png())) as picture:
        file = io.BytesIO()
        picture.convert('RGB').quantize(256).save(file, 'PNG', optimize=True)
    return file.getvalue()


def main(url: str) -> None:
    """Write the pictures beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        window = browser(folder)
        try:
            for name in PICTURES:
                content = shoot(window, url.rstrip('/') + '/', name)
                assert len(content) < LARGEST, f'{name}: {len(content)} bytes'
                Path(__file__).with_name(f'{name}.png').write_bytes(content)
                print(f'{name}.png: {len(content):,} bytes')
        finally:
            window.quit()


if __name__ == '__main__':
    main(*sys.argv[1:])
